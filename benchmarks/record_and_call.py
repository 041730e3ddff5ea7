"""The time of a call compared with the time from tuning, for each way to call a kernel.

    python benchmarks/record_and_call.py                        # twenty operators, tuned here
    python benchmarks/record_and_call.py RECORDS... --turns 50

There is a line for each best record. It has the recorded median, then the time of the native loop
with which tuning measures, on this process's arrays. Then, as factors of that loop's time in the
same turn, come the calls that users make: `kernel(..., out=)`, `kernel(...)` with a new output, an
exported module, and PyTorch's operator. The ways are timed in turns of a few calls in a row, and
the least time of a turn counts, so that a busy machine disturbs little. The median of the factors
is printed, and the number of new pages (4 KiB each) that a call takes from the system, if it is at
least one.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suite_operators import SUITE

import autosched
from autosched.export.link import linker
from autosched.runtime.cpu import CpuKernel, aligned_copy
from autosched.session.export import ExportOptions, export
from autosched.session.load_best import best_kernels
from autosched.session.tuned import TunedKernel
from autosched.target import Target, cpu_target
from autosched.task import Task
from autosched.tir.dtype import DType

Call = Callable[[], Any]

_TYPES: list[dict[str, Any]] = [
    {"M": 512, "N": 512, "K": 512, "dtype": "bfloat16"},
    {"M": 512, "N": 512, "K": 512, "dtype": "float16"},
    {"M": 512, "N": 512, "K": 512, "in_dtype": "int8"},
]
"""Arguments of matmul in other types."""

_CALLS = 4  # calls of a turn, after one that is not timed


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("records", nargs="*", type=Path)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--threads", type=int, default=cpu_target().threads)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        place = Path(text)
        records = options.records or [place / "records.jsonl"]
        if not options.records:
            tasks = _tasks(cpu_target(options.threads))
            autosched.tune(tasks, trials=options.trials * len(tasks), records=records[0])
        for number, tuned in enumerate(best_kernels(records)):
            _compare(tuned, place / f"kernels{number}", options.turns)


def _tasks(target: Target) -> list[Task]:
    others = [Task.from_workload("matmul", target=target, **args) for args in _TYPES]
    return [*(operator.task(target) for operator in SUITE), *others]


def _compare(tuned: TunedKernel, place: Path, turns: int) -> None:
    """Print the line of one record."""
    kernel = tuned.build()
    assert isinstance(kernel, CpuKernel)
    outputs = [
        autosched.empty(_shape(p.shape), DType(p.dtype).numpy)
        for p in kernel.artifact.params
        if p.is_output
    ]
    inputs = list(kernel.prepare(*map(aligned_copy, tuned.task.inputs(seed=0))))
    bound = kernel.bind(*inputs, *outputs)
    ways: dict[str, Call] = {
        "out=": lambda: kernel(*inputs, *outputs),
        "new": lambda: kernel(*inputs),
        **_exported(tuned, place, inputs),
        **_operator(tuned, place.name, inputs),
    }
    factors: dict[str, list[float]] = {name: [] for name in ways}
    faults = dict.fromkeys(ways, 0)
    native: list[float] = []
    for _ in range(turns):
        bound.run()
        own = min(bound.time_ns(1) for _ in range(_CALLS)) * 1e-3
        native.append(own)
        for name, way in ways.items():
            least, new = _turn(way)
            factors[name].append(least / own)
            faults[name] += new
    told = [
        f"{name} {statistics.median(found):5.2f}" + _pages(faults[name] / (turns * _CALLS))
        for name, found in factors.items()
    ]
    record = tuned.seconds * 1e6
    print(f"{tuned.task.name[:44]:44} {record:8.1f} us, {min(native):8.1f}", *told, sep="  ")


def _turn(way: Call) -> tuple[float, int]:
    """The least microseconds of some calls, and the new pages that they took."""
    way()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    least = float("inf")
    for _ in range(_CALLS):
        start = time.perf_counter_ns()
        way()
        least = min(least, (time.perf_counter_ns() - start) * 1e-3)
    return least, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _exported(tuned: TunedKernel, place: Path, inputs: list[Any]) -> dict[str, Call]:
    """A call of the module that `build` writes, which allocates its output."""
    if linker() is None:
        return {}
    export([tuned.record], place, ExportOptions(name=place.name))
    sys.path.insert(0, str(place))
    module = importlib.import_module(place.name)
    sys.path.remove(str(place))
    (kernel,) = (getattr(module, name) for name in module.names())
    return {"exported": lambda: kernel(*inputs)}


def _operator(tuned: TunedKernel, name: str, inputs: list[Any]) -> dict[str, Call]:
    """A call of PyTorch's operator, which allocates its output, as all of them do."""
    if importlib.util.find_spec("torch") is None:
        return {}
    torch = importlib.import_module("torch")
    register = importlib.import_module("autosched.torch").register
    (operator,) = register(tuned, name=name).values()
    tensors = [
        torch.from_numpy(array.view(f"u{array.itemsize}")).view(getattr(torch, array.dtype.name))
        for array in inputs
    ]
    return {"PyTorch": lambda: operator(*tensors)}


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(map(int, shape))


def _pages(number: float) -> str:
    return f" ({number:.0f} pages)" if number >= 1 else ""


if __name__ == "__main__":
    main()
