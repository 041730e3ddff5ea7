"""Where the time of `autosched tune` goes, from the start of its process to its end.

    python benchmarks/tune_time.py [CONFIG] [--trials 64] [--runs 3] [--compile 32]

CONFIG is as for tune; the default is configs/matmul.yaml. Each run is a process of its own with a
new record file. The seconds of a part exclude the parts inside it. A run of one trial comes first
and is not counted, so that Python has its byte code, as after an installation. The medians of the
runs are shown, and the time of measuring per trial. Then follow the milliseconds per candidate of
each stage of building, on one core, for `--compile` candidates that the last run measured.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

MATMUL = Path(__file__).resolve().parents[1] / "configs" / "matmul.yaml"
_MARK = "SPENT "

# The line of each part in the table.
PARTS = {
    "start": "interpreter and imports",
    "session": "configuration, records, cost model",
    "begin": "starting processes, inputs",
    "reference": "reference",
    "search": "search, building meanwhile",
    "learn": "learning",
    "build": "building, after the search",
    "race": "race of the finalists",
    "compare": "NumPy, peak",
    "report": "report",
    "end": "ending processes",
    "rest": "records and the rest",
    "measure": "measuring: messages and the rest",
    "load": "measuring: loading kernels",
    "first": "measuring: first calls",
    "time": "measuring: visits",
    "check": "measuring: checks",
}
MEASURING = ("measure", "load", "first", "time", "check")


class Spent:
    """The seconds of each part, without the seconds of the parts inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner: list[float] = []
        self._closed = False

    def wrap(
        self, owner: Any, name: str, part: str | Callable[..., str], closed: bool = False
    ) -> None:
        """Count the time of a function under `part`, which may be computed from the arguments.

        With `closed`, no part inside the function is counted.
        """
        function = getattr(owner, name)

        @functools.wraps(function)
        def wrapped(*args: Any, **named: Any) -> Any:
            if self._closed:
                return function(*args, **named)
            self._closed = closed
            self._inner.append(0.0)
            begun = time.monotonic()
            try:
                return function(*args, **named)
            finally:
                self._closed = False
                took = time.monotonic() - begun
                which = part if isinstance(part, str) else part(*args)
                self.seconds[which] += took - self._inner.pop()
                if self._inner:
                    self._inner[-1] += took

        setattr(owner, name, wrapped)


def child(started: float, arguments: Sequence[str]) -> None:
    """Run `autosched tune` and time its parts; this process was started at `started`."""
    import autosched.cli
    from autosched.cli import tune
    from autosched.measure.build import Builder
    from autosched.measure.cpu_runner import CpuRunner
    from autosched.measure.measurer import Measurer
    from autosched.search.learner import Learner
    from autosched.search.tuner import Tuner
    from autosched.session.session import Session

    spent = Spent()
    spent.seconds["start"] = time.monotonic() - started

    def request(_: CpuRunner, asked: tuple[Any, ...], *__: Any) -> str:
        return asked[0] if asked[0] in MEASURING else "measure"

    spent.wrap(tune, "session_of", "session", closed=True)
    spent.wrap(Session, "__enter__", "session", closed=True)
    spent.wrap(Tuner, "begin", "begin")
    spent.wrap(Measurer, "reference", "reference", closed=True)
    spent.wrap(Tuner, "_next_batch", "search", closed=True)
    spent.wrap(Tuner, "_draw_ahead", "search", closed=True)
    spent.wrap(Tuner, "_tell_policy", "learn", closed=True)
    spent.wrap(Learner, "refresh", "learn", closed=True)
    spent.wrap(Measurer, "measure", "measure")
    spent.wrap(Builder, "build", "build", closed=True)
    spent.wrap(CpuRunner, "_call", request, closed=True)
    spent.wrap(Session, "__exit__", "end", closed=True)
    spent.wrap(Session, "finals", "race", closed=True)
    spent.wrap(tune, "compare", "compare", closed=True)
    spent.wrap(tune, "report", "report", closed=True)
    spent.wrap(autosched.cli, "main", "rest")
    sys.argv = ["autosched", "tune", *arguments]
    try:
        autosched.cli.main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.stderr.write(f"\n{_MARK}{json.dumps(spent.seconds)}\n")


def timed(arguments: Sequence[str]) -> tuple[dict[str, float], float]:
    """The seconds of the parts of one run, and of the run from start to end."""
    started = time.monotonic()
    command = [sys.executable, __file__, "--child", repr(started), *arguments]
    # Without stored byte code, every run would compile the package again.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    seconds = time.monotonic() - started
    found = [line for line in ran.stderr.splitlines() if line.startswith(_MARK)]
    if ran.returncode or not found:
        sys.exit(f"autosched tune failed:\n{ran.stderr}")
    parts: dict[str, float] = json.loads(found[-1].removeprefix(_MARK))
    parts["rest"] += seconds - sum(parts.values())
    return parts, seconds


def stages(records: Path, count: int) -> dict[str, float]:
    """Milliseconds per candidate of each stage of building recorded candidates, on this core."""
    from autosched.codegen import llvm_compile
    from autosched.codegen.llvm import emit_llvm
    from autosched.driver import apply_steps, lower_func, schedule_ops
    from autosched.measure.records import read_log
    from autosched.runtime.artifact import artifact_of
    from autosched.task import Task

    found = read_log(records).records
    task = Task.from_json(found[0].task)
    target, seconds = task.target, defaultdict[str, float](float)

    def stage(name: str, call: Callable[..., Any], *args: Any) -> Any:
        begun = time.perf_counter()
        made = call(*args)
        seconds[name] += time.perf_counter() - begun
        return made

    for k, record in enumerate(found[: count + 2]):
        if k == 2:  # the first ones warm the caches
            seconds.clear()
        schedule = stage("replay of steps", apply_steps, task.dag, record.steps, task.layout)
        func = stage("bounds, ScheduleOps", schedule_ops, *schedule)
        func = stage("passes", lower_func, func, target, True)
        text = stage("LLVM assembly", emit_llvm, func, target)
        module = stage("LLVM: parse and passes", llvm_compile._optimized, text, target, "auto")
        code = stage("LLVM: code generation", llvm_compile.object_of, module, target)
        stage("artifact", lambda f, c: artifact_of(f, c, target.threads).to_bytes(), func, code)
    return {name: 1e3 * s / min(count, len(found) - 2) for name, s in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("config", nargs="*", default=[str(MATMUL)], help="as of autosched tune")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--compile", type=int, default=32, help="candidates; 0: none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        timed([*options.config, "--trials", "1", "--records", str(Path(folder) / "first.jsonl")])
        for k in range(options.runs):
            records = Path(folder) / f"{k}.jsonl"
            trials = ["--trials", str(options.trials), "--records", str(records)]
            runs.append(timed([*options.config, *trials]))
            print(f"run {k}: {runs[-1][1]:.2f} s", flush=True)
        median = {p: statistics.median(parts.get(p, 0.0) for parts, _ in runs) for p in PARTS}
        for part, name in PARTS.items():
            print(f"{name:40} {median[part]:7.3f} s")
        print(f"{'all':40} {statistics.median(total for _, total in runs):7.3f} s")
        trial = 1e3 * sum(median[part] for part in MEASURING) / options.trials
        outside = 1e3 * (median["search"] + median["learn"]) / options.trials
        print(f"a trial: {trial:.1f} ms of measuring, {outside:.1f} ms of search and learning")
        if options.compile:
            spent = stages(records, options.compile)
            for name, milliseconds in spent.items():
                print(f"{name:40} {milliseconds:7.2f} ms")
            print(f"{'building a candidate, on one core':40} {sum(spent.values()):7.2f} ms")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(float(sys.argv[2]), sys.argv[3:])
    else:
        main()
