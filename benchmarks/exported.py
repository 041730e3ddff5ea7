"""Exported kernels compared with the same kernels in autosched: results and times.

Run: python benchmarks/exported.py [RECORDS...] [--trials 16] [--turns 40] [--milliseconds 20]

The best record of each task is exported. Without files, the tasks are a few operators, tuned here
on one thread and on all. Each kernel is called three ways: by autosched, by the exported module in
a virtual environment that has only NumPy, and by the C example, compiled here. The three ways run
in separate processes and are timed in turns of some milliseconds. The time of a turn is the fastest
of batches that take 0.2 ms, or of single calls, so that a busy machine disturbs little. The times
of a turn are divided by autosched's of the same turn, and the median of these ratios is printed
with its 95% interval. Results must agree to the bit; those of C are compared by their sums.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import autosched
from autosched.export.link import linker
from autosched.measure.record_log import RecordLog
from autosched.measure.records import LogContents, Record
from autosched.session.export import ExportOptions, export
from autosched.session.load_best import best_kernels
from autosched.target import cpu_target

WORKLOADS: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"M": 512, "N": 512, "K": 512}),
    ("matmul", {"M": 256, "N": 256, "K": 256}),
    (
        "depthwise_conv2d_nhwc",
        {"N": 1, "H": 112, "W": 112, "C": 32, "K": 3, "stride": 1, "padding": 1},
    ),
    ("softmax", {"M": 256, "N": 256}),
]

TURNS_OF_A_PROCESS = 5  # then new processes start, because the addresses of their memory matter

# The code that both Python processes run: they call a kernel when they are asked to.
CALLS = """
def serve(kernels):
    given = {}
    for name, (kernel, parameters) in kernels.items():
        arrays = []
        for shape, dtype, written in parameters:
            array = empty(shape, dtype)
            array.ravel()[:] = 0 if written else np.arange(array.size) % 13
            arrays.append(array)
        given[name] = kernel, arrays, [a for a, p in zip(arrays, parameters) if p[2]]
    for line in sys.stdin:
        name, milliseconds = line.split()
        kernel, arrays, outputs = given[name]
        kernel(*arrays)
        calls, batches, least, spent = 1, 0, 0, 0
        while spent < float(milliseconds) * 1e6 or batches < 5:
            start = time.perf_counter_ns()
            for _ in range(calls):
                kernel(*arrays)
            took = time.perf_counter_ns() - start
            if took < 200_000 and not batches:
                calls *= 2
                continue
            least = took if not batches else min(least, took)
            batches += 1
            spent += took
        sums = [float(np.cumsum(out, dtype=np.float64)[-1]) for out in outputs]
        digest = hashlib.sha256(b"".join(out.tobytes() for out in outputs)).hexdigest()
        print(json.dumps([least / calls / 1e3, sum(sums), digest]), flush=True)
"""

THERE = """
import hashlib, importlib.util, json, sys, time
import numpy as np
for name in ("autosched", "llvmlite", "ml_dtypes"):
    assert importlib.util.find_spec(name) is None, name
sys.path.insert(0, sys.argv[1])
import kernels
empty = kernels.empty
CALLS
serve({
    name: (getattr(kernels, name), [(p.shape, p.element, p.is_output) for p in getattr(kernels, name).parameters])
    for name in kernels.names()
})
"""  # noqa: E501 - read by another process

HERE = """
import hashlib, json, sys, time
import numpy as np
from pathlib import Path
from autosched import empty
from autosched.measure.records import read_log
from autosched.session.tuned import TunedKernel
from autosched.task import Task
from autosched.tir.dtype import DType
CALLS
found = {}
records = read_log(Path(sys.argv[1])).records
for name, record in zip(sys.argv[2:], records, strict=True):
    kernel = TunedKernel(Task.from_json(record.task), record).build()
    params = kernel.artifact.params
    found[name] = kernel, [(p.shape, DType(p.dtype).numpy, p.is_output) for p in params]
serve(found)
"""


class Answer(NamedTuple):
    """The microseconds of a call, the sum of the outputs, and their hash (none for C)."""

    microseconds: float
    total: float
    digest: str = ""


class Child:
    """A process that times kernels on request."""

    def __init__(self, words: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)

    def ask(self, name: str, milliseconds: float) -> Answer:
        """Time a kernel."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{name} {milliseconds}\n")
        self._process.stdin.flush()
        return Answer(*json.loads(self._process.stdout.readline()))

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Export and call the kernels, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", nargs="*", type=Path)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--milliseconds", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        place = Path(text)
        files = options.records or _tuned(place, options.trials)
        print(
            f"medians of {options.turns} turns, and the ratio to autosched's with its 95% interval;"
        )
        print("the results of all agree to the bit")
        print(f"{'kernel':42} threads  autosched us  module, NumPy only         C example")
        for number, file in enumerate(files):  # one each: kernels of a library share threads
            own = place / f"library{number}"
            own.mkdir()
            _compare([best.record for best in best_kernels(file)], own, options)


def _tuned(place: Path, trials: int) -> list[Path]:
    """Tuned records of WORKLOADS, on one thread and on all threads of this machine."""
    files = []
    for threads in sorted({1, cpu_target().threads}):
        target = cpu_target(threads)
        tasks = [autosched.Task.from_workload(n, target=target, **args) for n, args in WORKLOADS]
        files.append(place / f"tuned{threads}.jsonl")
        autosched.tune(tasks, trials=trials * len(tasks), records=files[-1])
    return files


def _compare(records: list[Record], place: Path, options: argparse.Namespace) -> None:
    folder = place / "out"
    export(records, folder, ExportOptions(name="kernels"))
    about = json.loads((folder / "kernels.json").read_text())["kernels"]
    log = place / "chosen.jsonl"
    RecordLog(log).copy(LogContents(records, {}))
    python = _numpy_alone(place)
    program = _example(folder, place)
    times: dict[str, list[tuple[float, ...]]] = {name: [] for name in about}
    for turn in range(options.turns):
        if turn % TURNS_OF_A_PROCESS == 0:
            here = Child([sys.executable, "-c", HERE.replace("CALLS", CALLS), str(log), *about])
            alone = Child([python, "-I", "-c", THERE.replace("CALLS", CALLS), str(folder)])
        for name in about:
            first, second = (child.ask(name, options.milliseconds) for child in (here, alone))
            third = _run_example(program, name)
            assert first.digest == second.digest, f"{name}: the exported module computes otherwise"
            assert first.total == third.total, f"{name}: C's sum is {third}, expected {first}"
            times[name].append((first.microseconds, second.microseconds, third.microseconds))
        if turn % TURNS_OF_A_PROCESS == TURNS_OF_A_PROCESS - 1 or turn == options.turns - 1:
            here.end()
            alone.end()
    for name, entry in about.items():
        columns = list(zip(*times[name], strict=True))
        own = statistics.median(columns[0])
        ratios = ", ".join(_ratio(columns[0], column) for column in columns[1:])
        print(f"{name:42} {entry['threads']:7} {own:13.2f}  {ratios}")
    _refused(records[0], place, python)


def _refused(record: Record, place: Path, python: str) -> None:
    """Print how a library is refused whose features no CPU has together (x86 only)."""
    if not cpu_target().triple.startswith("x86_64"):
        return
    target = {**record.task["target"]}
    target["features"] += ",+xop,+tbm,+amx-tile,+avx512f"
    task = {name: value for name, value in record.task.items() if name != "key"}
    folder = place / "other"
    export(
        [replace(record, task={**task, "target": target})], folder, ExportOptions(name="kernels")
    )
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import kernels"
    words = [[python, "-I", "-c", code], [str(_example(folder, folder))]]
    for command in words:
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode, "a library for another CPU was not refused"
        print(done.stderr.strip().splitlines()[-1].replace(f"{folder}/", ""))


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The median of the ratios in each turn, and its 95% confidence interval."""
    ratios = sorted(other / own for own, other in zip(ours, theirs, strict=True))
    margin = round(0.98 * len(ratios) ** 0.5)
    middle = len(ratios) // 2
    low, high = ratios[max(0, middle - margin)], ratios[min(len(ratios) - 1, middle + margin)]
    return f"{statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})"


def _numpy_alone(place: Path) -> str:
    """The Python of a fresh virtual environment that has only NumPy."""
    environment, packages = place / "venv", place / "packages"
    venv.create(environment, with_pip=False, symlinks=True)
    packages.mkdir()
    source = Path(np.__file__).parent
    for folder in (source, source.with_name("numpy.libs")):
        if folder.exists():
            (packages / folder.name).symlink_to(folder)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "numpy.pth").write_text(f"{packages}\n")
    return str(environment / "bin" / "python")


def _example(folder: Path, place: Path) -> Path:
    """Compile the C example; return its program."""
    command = linker()
    if command is None:
        raise SystemExit("exported.py compiles C: install a C compiler, or set CC")
    program = place / "example"
    where = [f"-I{folder}", f"-L{folder}", "-lkernels", f"-Wl,-rpath,{folder}"]
    source = folder / "kernels_example.c"
    subprocess.run([*command, "-O2", str(source), "-o", str(program), *where], check=True)
    return program


def _run_example(program: Path, name: str) -> Answer:
    """The answer that the C example prints for one kernel: `matmul sum 123, 4.5 us`."""
    done = subprocess.run([str(program), name], capture_output=True, text=True, check=True)
    words = done.stdout.replace(",", "").split()
    return Answer(float(words[3]), float(words[2]))


if __name__ == "__main__":
    main()
