"""The effect of the output's offset within its page on kernels, with and without DelayStores.

    python benchmarks/page_offsets.py [--only layer_norm softmax] [--trials 16]

Tunes operators of benchmarks/suite.py and builds the best candidate of each twice, without and with
the pass. Both kernels are called in turns. Their output begins some bytes behind the offset that
the largest input has within its page; the first line lists these numbers of bytes. Each column has
the microseconds without the pass (median of the turns) and the speedup by the pass (median of the
quotients within a turn).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from suite_operators import MORE, SUITE, Operator

import autosched
from autosched.candidate import build_candidate
from autosched.measure.records import read_log
from autosched.runtime.cpu import aligned_copy, load
from autosched.runtime.memory import empty
from autosched.state.steps import Step
from autosched.target import Target, cpu_target
from autosched.task import Task
from autosched.transform.framework.context import PassContext

USUAL = ("norm", "softmax", "add", "pool", "depthwise")
OFFSETS = (0, 64, 128, 256, 2048)
PAGE = 4096
_VISIT_NS = 4e6


def best_of(task: Task, trials: int) -> tuple[Step, ...]:
    """The steps of the best of `trials` candidates."""
    with TemporaryDirectory() as folder:
        records = Path(folder) / "records.jsonl"
        autosched.tune(task, trials=trials, records=records, progress=False)
        found = [r for r in read_log(records).records if r.result.seconds]
    return min(found, key=lambda record: median(record.result.seconds)).steps


def placed(shape: Sequence[int], dtype: Any, offset: int) -> np.ndarray[Any, Any]:
    """An array that begins `offset` bytes behind the start of a page."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = empty((size + PAGE,), np.uint8, PAGE)
    return np.ndarray(shape, dtype, whole.data, offset)


def timers(task: Task, steps: tuple[Step, ...], offset: int) -> list[Callable[[int], int]]:
    """The kernels without and with the pass on the same arrays: (calls) -> nanoseconds."""
    kernels = []
    for disabled in (["DelayStores"], []):
        with PassContext(disabled_pass=disabled):
            kernels.append(load(build_candidate(task, steps)))
    inputs = [aligned_copy(array) for array in task.inputs()]
    (expected,) = task.reference(inputs)
    largest = max(range(len(inputs)), key=lambda k: inputs[k].nbytes)
    moved = placed(inputs[largest].shape, inputs[largest].dtype, 0)
    moved[...] = inputs[largest]
    inputs[largest] = moved
    output = placed(expected.shape, expected.dtype, offset)
    for kernel in kernels:
        kernel(*inputs, output)
        np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-3)
    return [kernel.timer(*inputs, output) for kernel in kernels]


def compared(operator: Operator, target: Target, trials: int, rounds: int) -> str:
    """The line of one operator."""
    task = operator.task(target)
    steps = best_of(task, trials)
    cells = []
    for offset in OFFSETS:
        both = timers(task, steps, offset)
        calls = [max(1, int(_VISIT_NS / max(1, timer(1)))) for timer in both]
        turns = [[t(n) / n for t, n in zip(both, calls, strict=True)] for _ in range(rounds)]
        plain = median(turn[0] for turn in turns) / 1e3
        cells.append(f"{plain:8.1f} {median(a / b for a, b in turns):4.2f}x")
    return f"{operator.name:26}" + " ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=USUAL, metavar="TEXT", help="parts of names")
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    target = cpu_target()
    print(f"{target}\n{'':26}" + " ".join(f"{offset:>14}" for offset in OFFSETS), flush=True)
    for operator in (*SUITE, *MORE):
        if any(word in operator.name for word in options.only):
            print(compared(operator, target, options.trials, options.rounds), flush=True)


if __name__ == "__main__":
    main()
