"""Hostile files: each of them may cause a message, and nothing else.

    python benchmarks/fuzz.py                    # 50,000 inputs, some ten minutes on two cores
    python benchmarks/fuzz.py --inputs 2000 --seed 1
    python benchmarks/fuzz.py --repeat yaml:1234 # one input again: what it is and what comes of it

Inputs are real files with something odd in them: records, Ansor v0.6 logs, YAML configurations,
expressions, datasets and saved cost models. Each is given to its reader, in a process that may die.
A finding is an answer that is neither a result nor an AutoschedError with a text, more than 5
seconds of CPU time, a process that died or did not answer, anything that was executed (a process, a
pickle, a file of the folder), and any file written outside of the folder. The exit status is 1 when
there are findings; --repeat shows one in full.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autosched.cli import app
from autosched.cli.read_config import load_config
from autosched.errors import AutoschedError, ConfigError, MeasureError
from autosched.features.datasets.dataset import export
from autosched.features.datasets.dataset_info import describe
from autosched.features.datasets.sample import Sample
from autosched.features.sets import Rows, feature_set
from autosched.measure.ansor_log import format_line
from autosched.measure.measurer import Measurer
from autosched.measure.record_log import RecordLog
from autosched.measure.records import LogContents, Record, stream_log
from autosched.measure.result import Failure, MeasureResult
from autosched.process.worker import Handler, Worker
from autosched.search.cost_model import XGBoostModel
from autosched.state.steps import steps_from_json
from autosched.target import cpu_target
from autosched.task import Task
from autosched.workloads.workload import shape_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from kit.hostile import Draw, dataset, expression, lines, model, yaml

SECONDS = 5.0  # CPU seconds for an answer
LIMIT = float(os.environ.get("FUZZ_LIMIT", "60"))  # seconds to wait: a busy machine is no finding
MEMORY = 6 << 30
LONGEST = 20_000  # characters in a message
SHARES = {"records": 30, "ansor": 15, "yaml": 10, "expression": 25, "dataset": 12, "model": 8}
_STEPS = [["SP", 2, 0, 16, [4], 1], ["RE", 2, [0, 2, 3, 1]], ["AN", 2, 0, 3], ["AN", 2, 3, 2]]
_EXPRESSION = {
    "expr": "T[i, j] = sum(k, A[i, k] * B[k, j])\nC[i, j] = max(T[i, j] + b[j], 0)",
    "shapes": {"A": [8, 6], "B": [6, 4], "b": [4]},
    "dtype": "float32",
}
_HOSTILE_PYTHON = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"


class Watch:
    """Records what is executed, and what is written outside of the folder."""

    def __init__(self, folder: Path) -> None:
        self.seen: list[str] = []
        self._folder = str(folder.resolve())
        self.armed = False
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        if event in _EXECUTES:
            self.seen.append(f"{event} {args!r:.200}")
        elif event == "exec" and getattr(args[0], "co_filename", "").startswith(self._folder):
            self.seen.append(f"the file {args[0].co_filename} was run")
        elif event == "open" and isinstance(args[0], str | bytes | os.PathLike):
            flags = args[2] if isinstance(args[2], int) else 0
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not self._inside(args[0]):
                self.seen.append(f"{os.fsdecode(args[0])} was opened to be written")

    def _inside(self, path: Any) -> bool:
        full = os.path.abspath(os.fsdecode(path))  # noqa: PTH100  a hook must not open anything
        return full.startswith(self._folder + os.sep) or "__pycache__" in full


_EXECUTES = {"os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen"} | {
    *("pickle.find_class", "marshal.loads.x", "socket.connect", "os.remove.x", "shutil.rmtree")
}


@dataclass
class Outcome:
    """The outcome of an input: `kind` is result, refused or finding."""

    kind: str
    text: str
    seconds: float


@dataclass
class Fuzzer:
    """The process that may die: makes inputs in its folder and gives them to their readers."""

    folder: Path
    bases: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        os.chdir(self.folder)
        Path("ops.py").write_text(_HOSTILE_PYTHON)
        np.save("pickled.npy", np.array([{}], object))
        np.save("odd.npy", np.zeros((3, 5), np.int8))
        head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999,), }\n"
        size = len(head).to_bytes(2, "little")
        Path("huge.npy").write_bytes(b"\x93NUMPY\x01\x00" + size + head)
        if not Path("pipe").exists():
            os.mkfifo("pipe")
        np.save("whole.npy", np.ones((8, 6), np.float32))
        setattr(Measurer, "create", _no_measuring)  # noqa: B010  a replay ends before it
        self.bases = {
            "records": [_records(task) for task in _tasks()],
            "ansor": [[json.loads(line)] for line in _ansor_lines()],
            "yaml": [p.read_text() for p in sorted((_ROOT / "configs").glob("*.yaml"))],
            "dataset": _datasets(),
            "model": _model(),
        }
        self.watch = Watch(self.folder)

    def make(self, kind: str, seed: int, number: int) -> Any:
        """The input of this kind, seed and number."""
        draw = Draw(f"{seed} {kind} {number}")
        match kind:
            case "records" | "ansor":
                return lines(draw, draw.choice(self.bases[kind]))
            case "yaml":
                return yaml(draw, self.bases[kind])
            case "expression":
                return expression(draw)
            case "dataset":
                return dataset(draw, self.bases[kind])
        return model(draw, self.bases["model"])

    def handle(self, request: tuple[str, int, int, bool]) -> Outcome:
        kind, seed, number, show = request
        given = self.make(kind, seed, number)
        if show:
            print(
                given if isinstance(given, str | dict | tuple) else given.decode(errors="replace")
            )
        draw = Draw(f"{seed} {number}")
        self.watch.seen.clear()
        start = time.process_time()
        self.watch.armed = True
        try:
            text = getattr(self, f"_{kind}")(given, draw)
            outcome = Outcome("result", text or "", 0.0)
        except AutoschedError as error:
            outcome = Outcome("refused", str(error), 0.0)
        except Exception as error:
            if show:
                raise
            where = error.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            place = (
                "" if where is None else f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}"
            )
            name = place.rpartition("/")[2]
            outcome = Outcome("finding", f"{type(error).__name__} at {name}: {error!s:.200}", 0.0)
        finally:
            self.watch.armed = False
        outcome.seconds = time.process_time() - start
        return self._judged(outcome)

    def _judged(self, outcome: Outcome) -> Outcome:
        if outcome.kind == "finding":
            return outcome
        if self.watch.seen:
            return Outcome("finding", f"executed or written: {self.watch.seen[0]}", outcome.seconds)
        if Path("ran").exists():
            Path("ran").unlink()
            return Outcome("finding", "a hostile file was run", outcome.seconds)
        if outcome.seconds > SECONDS:
            return Outcome("finding", f"it took {outcome.seconds:.1f} s", outcome.seconds)
        said = outcome.text.strip()
        if outcome.kind == "refused" and (len(said) < 12 or len(said) > LONGEST):
            return Outcome(
                "finding", f"no message: {len(said)} letters, {said:.80}", outcome.seconds
            )
        return outcome

    def _records(self, given: bytes, draw: Draw) -> str:
        Path("r.jsonl").write_bytes(given)
        contents = LogContents()
        records = list(stream_log("r.jsonl", contents))
        said = list(contents.problems)
        for task in {id(r.task): r.task for r in records}.values():
            try:
                rebuilt = Task.from_json(task)
                if sum(math.prod(shape_of(t)) for t in rebuilt.tensors) < 1e6:
                    rebuilt.inputs()
            except ConfigError as error:
                said.append(str(error))
        if any(len(text) > LONGEST for text in said):
            raise ValueError("a message without end")
        if draw.random() < _COMMANDS:
            self._command(draw.choice(_COMMAND_LINES))
        return "\n".join(said)

    _ansor = _records

    def _command(self, words: tuple[str, ...]) -> None:
        out, err = io.StringIO(), io.StringIO()
        status: Any = 0
        sys.argv = ["autosched", *words]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                app.run()
            except SystemExit as done:
                status = done.code
        said = err.getvalue().strip()
        silent = status not in (0, None) and len(said) < 12
        if silent or "Traceback" in said or "Errno" in said:
            raise ValueError(f"{' '.join(words)} ended with {status} and said {said[-300:]!r}")
        if status not in (0, 1, 2, 3, None):
            raise ValueError(f"{' '.join(words)} ended with {status}")

    def _yaml(self, given: bytes, draw: Draw) -> None:
        Path("c.yaml").write_bytes(given)
        load_config("c.yaml").records_path()

    def _expression(self, given: dict[str, Any], draw: Draw) -> None:
        _ = Task.from_json_workload(given, _TARGET).dag

    def _dataset(self, given: tuple[str, bytes], draw: Draw) -> str:
        path = Path(f"d{given[0]}")
        path.write_bytes(given[1])
        return describe(path)

    def _model(self, given: bytes, draw: Draw) -> None:
        Path("m.json").write_bytes(given)
        loaded = XGBoostModel(rounds=1)
        loaded.load("m.json")
        columns = loaded._booster.num_features()
        if columns < 10_000:
            rows = np.random.default_rng(0).random((4, columns), np.float32)
            scores = loaded.opinions([rows[:2], rows[2:]])
            if not np.isfinite(scores).all():
                raise ValueError(f"scores {scores}")
            if draw.random() < 0.1:
                loaded.fit([rows[:2], rows[2:]], [1.0, 0.5])


_ROOT = Path(__file__).resolve().parent.parent
_TARGET = cpu_target(threads=2)
_COMMANDS = float(os.environ.get("FUZZ_COMMANDS", "0.3"))
_COMMAND_LINES: tuple[tuple[str, ...], ...] = (
    ("records", "info", "r.jsonl"),
    ("records", "info", "r.jsonl", "--json"),
    ("records", "convert", "r.jsonl", "--to", "ansor-v0.6", "-o", "out.jsonl", "--force"),
    ("records", "convert", "r.jsonl", "--to", "autosched", "-o", "out.jsonl", "--force"),
    ("records", "merge", "r.jsonl", "r.jsonl", "-o", "out.jsonl", "--force"),
    ("records", "trim", "r.jsonl", "--best", "1", "-o", "out.jsonl", "--force"),
    ("records", "top", "2", "r.jsonl"),
    ("records", "best", "r.jsonl", "--json"),
    ("records", "diff", "r.jsonl", "r.jsonl"),
    *(("show", "r.jsonl", "--as", form) for form in ("loops", "steps", "te", "python", "tir")),
    *(("show", "r.jsonl", "--index", str(k), "--as", "tir") for k in range(3)),
    ("show", "r.jsonl", "--as", "features"),
    ("dataset", "export", "r.jsonl", "-o", "out.csv", "--force"),
    ("replay", "r.jsonl"),
)


def _no_measuring(**_: Any) -> Any:
    raise MeasureError("nothing is measured here", stage="load")


def _tasks() -> Iterator[Task]:
    yield Task.from_workload("matmul", target=_TARGET, M=16, N=16, K=16)
    whole = {"A": {"file": "whole.npy"}, "b": {"uniform": [0, 1]}}
    yield Task.from_json_workload(_EXPRESSION, _TARGET).with_inputs(whole)
    conv = {"N": 1, "H": 4, "W": 4, "CI": 3, "CO": 4, "K": 3, "stride": 1, "padding": 1}
    yield Task.from_workload(
        "conv2d_nchw_bn_relu", target=_TARGET, layout_rewrite="pre-transformed", **conv
    )


def _sampled(task: Task) -> Iterator[Record]:
    steps = steps_from_json(_STEPS if task.name.startswith("matmul") else [])
    yield Record(task.to_json(), steps, MeasureResult((1e-3, 2e-3), checked=True))
    yield Record(task.to_json(), (), MeasureResult((), Failure("run", "crash", "it died")))


def _records(task: Task) -> list[Any]:
    """The lines of a file of two records."""
    path = Path("base.jsonl")
    path.unlink(missing_ok=True)
    RecordLog(path).append(list(_sampled(task)))
    return [json.loads(line) for line in path.read_text().splitlines()]


def _ansor_lines() -> list[str]:
    task, _, conv = _tasks()
    return [format_line(r.task, r.steps, r.result, 0) for t in (task, conv) for r in _sampled(t)]


def _datasets() -> dict[str, bytes]:
    columns = len(feature_set("ansor-0.19").columns)
    rows = Rows(np.ones((2, columns), np.float32), ("C", "D"))
    task = next(_tasks()).to_json()
    samples = [Sample(task, lambda: rows, seconds) for seconds in (1.0, 2.0, float("nan"))]
    found = {}
    for suffix in (".npz", ".csv", ".parquet"):
        path = Path(f"base{suffix}")
        export(samples, path, features="ansor-0.19", overwrite=True)
        found[suffix] = path.read_bytes()
    return found


def _model() -> dict[str, Any]:
    path = Path("base.json")
    rng = np.random.default_rng(0)
    trained = XGBoostModel(rounds=2)
    programs = [rng.random((2, 6)).astype(np.float32) for _ in range(12)]
    trained.fit(programs, list(rng.uniform(0.1, 1, 12)))
    trained.save(path, "x/1", overwrite=True)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def make_handler() -> Handler:
    """The entry point of the process; the folder is named by the environment."""
    fuzzer = Fuzzer(Path(os.environ["FUZZ_FOLDER"]))
    return lambda request: astuple(fuzzer.handle(request))


@dataclass
class Report:
    """Counts of each kind, the slowest answer, and the findings."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    slowest: dict[str, tuple[float, int]] = field(default_factory=dict)
    findings: list[tuple[str, int, str]] = field(default_factory=list)

    def add(self, kind: str, number: int, outcome: Outcome) -> None:
        self.counts.setdefault(kind, Counter())[outcome.kind] += 1
        self.slowest[kind] = max(self.slowest.get(kind, (0.0, 0)), (outcome.seconds, number))
        if outcome.kind == "finding":
            self.findings.append((kind, number, outcome.text))

    def table(self) -> str:
        lines = [f"{'kind':12}{'inputs':>8}{'results':>9}{'refused':>9}{'findings':>10}  slowest"]
        for kind, counts in self.counts.items():
            seconds, number = self.slowest[kind]
            numbers = [counts.total(), counts["result"], counts["refused"], counts["finding"]]
            widths = (8, 9, 9, 10)
            cells = "".join(f"{n:{w}}" for n, w in zip(numbers, widths))
            lines.append(f"{kind:12}{cells}  {seconds:.2f} s ({kind}:{number})")
        return "\n".join(lines)


def fuzz(inputs: int, seed: int, folder: Path, kinds: Sequence[str] = ()) -> Report:
    """Try `inputs` inputs of all `kinds`, by their shares; a process that dies is replaced."""
    report = Report()
    chosen = kinds or tuple(SHARES)
    total = sum(SHARES[kind] for kind in chosen)
    worker = Worker(
        "fuzz:make_handler", memory_limit=MEMORY, environment={"FUZZ_FOLDER": str(folder)}
    )
    try:
        for kind in chosen:
            for number in range(round(inputs * SHARES[kind] / total)):
                start = time.perf_counter()
                try:
                    outcome = Outcome(*worker.call((kind, seed, number, False), LIMIT, "run"))
                except MeasureError as error:
                    text = f"{error.kind}: {str(error).strip()[-1500:]}"
                    outcome = Outcome("finding", text, time.perf_counter() - start)
                report.add(kind, number, outcome)
                if outcome.kind == "finding":
                    print(
                        f"--seed {seed} --repeat {kind}:{number}: {outcome.text}", file=sys.stderr
                    )
    finally:
        worker.stop()
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", choices=tuple(SHARES), default=[])
    parser.add_argument("--repeat", help="KIND:NUMBER of one input, which is shown and run here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if options.repeat:
            kind, _, number = options.repeat.partition(":")
            fuzzer = Fuzzer(Path(name))
            print(fuzzer.handle((kind, options.seed, int(number), True)))
            return 0
        report = fuzz(options.inputs, options.seed, Path(name), options.kind)
    print(f"seed {options.seed}\n{report.table()}")
    for kind, number, text in report.findings:
        print(f"\n--seed {options.seed} --repeat {kind}:{number}\n    {text}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
