"""Hostile files: every one costs a message, nothing else.

    python benchmarks/fuzz.py                    # 50,000 inputs, some ten minutes on two cores
    python benchmarks/fuzz.py --inputs 2000 --seed 1
    python benchmarks/fuzz.py --repeat yaml:1234 # one input again: what it is and what comes of it

Inputs are real files with something odd in them: records, Ansor v0.6 logs, YAML configurations,
expressions, datasets and saved cost models. Each is given to what reads it, in a process that may
die. A finding is an answer that is neither a result nor an AutoschedError with a text, more than
5 seconds of CPU time, a process that died or did not answer, anything that was executed (a
process, a pickle, a file of the folder) and any file written outside of the folder. The exit
status is 1 when there are any; --repeat shows one in full.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gzip
import io
import json
import math
import os
import random
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from autosched.measure.records import LogContents, Record, RecordLog, stream_log
from autosched.measure.result import Failure, MeasureResult
from autosched.process.worker import Handler, Worker
from autosched.search.cost_model import XGBoostModel
from autosched.state.steps import steps_from_json
from autosched.target import cpu_target
from autosched.task import Task
from autosched.workloads.workload import shape_of

SECONDS = 5.0  # of CPU time for an answer
LIMIT = float(os.environ.get("FUZZ_LIMIT", "60"))  # of waiting: a busy machine is no finding
MEMORY = 6 << 30
LONGEST = 20_000  # characters of a message
SHARES = {"records": 30, "ansor": 15, "yaml": 10, "expression": 25, "dataset": 12, "model": 8}
_STEPS = [["SP", 2, 0, 16, [4], 1], ["RE", 2, [0, 2, 3, 1]], ["AN", 2, 0, 3], ["AN", 2, 3, 2]]
_EXPRESSION = {
    "expr": "T[i, j] = sum(k, A[i, k] * B[k, j])\nC[i, j] = max(T[i, j] + b[j], 0)",
    "shapes": {"A": [8, 6], "B": [6, 4], "b": [4]},
    "dtype": "float32",
}
_HOSTILE_PYTHON = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"

Draw = random.Random


def odd(draw: Draw) -> Any:
    """A value that hardly belongs where it is put."""
    return copy.deepcopy(draw.choice(_ODD))


_ODD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 3, 2**31, 2**63, 2**64 + 1, -(2**31)),
    *(10**400, 0.5, 1e308, -1e-308, float("nan"), float("inf"), -0.0),
    *("", " ", "x", "\0", "a\nb", "1", "NaN", "\ud800", "\u0661", "A" * 5000),
    *("../../escaped", "/dev/zero", "pipe", ".", "ops.py:run", "../x.npy"),
    *("pickled.npy", "huge.npy", "odd.npy", "ops.py", "secret\0.npy"),
    *("cuda", "float16", "bool", "C[i] = C[i]", "ij,jk->ik", "i,->"),
    *([], {}, [[]], [None], {"": None}, {"a": {"a": 1}}, [1, "2", None]),
    *({"file": "pipe", "sha256": "0" * 16}, {"file": "/dev/zero"}, {"file": "huge.npy"}),
    *({"function": "ops.py:run"}, {"uniform": [0, 10**400]}),
    *({"python": "ops.py:run", "args": {}}, json.loads("[" * 300 + "]" * 300)),
    {"expr": "B[i] = A[i]" + " + A[i]" * 400, "shapes": {"A": [4]}},
    {"op": "matmul", "args": {"M": 2**31 - 1, "N": 2**31 - 1, "K": 2**31 - 1}},
    {"op": "matmul", "args": {"M": 10**5, "N": 10**5, "K": 1}},
    list(range(2000)),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) inside."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        node = todo.pop()
        keys: Any = node if isinstance(node, dict) else range(len(node))
        for key in keys:
            found.append((node, key))
            if isinstance(node[key], dict | list):
                todo.append(node[key])
    return found


def changed(value: Any, draw: Draw) -> Any:
    """`value`, JSON, with one to three places that are odd, missing, doubled or exchanged."""
    result = json.loads(json.dumps(value))
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at = places(result)
        if not at:
            return odd(draw)
        container, key = draw.choice(at)
        match draw.randrange(8):
            case 0:
                del container[key]
            case 1 if isinstance(container, list):
                container.insert(key, container[key])
            case 2:
                other, there = draw.choice(at)
                with contextlib.suppress(LookupError):
                    container[key] = json.loads(json.dumps(other[there]))
            case 3 if isinstance(container[key], int | float):
                container[key] = container[key] * draw.choice((-1, 2, 3, 1000)) + draw.choice(
                    (0, 1)
                )
            case 4 if isinstance(container, dict):
                container[draw.choice(("file", "python", "x", ""))] = container.pop(key)
            case 5 if isinstance(container[key], str):
                container[key] = damaged(container[key].encode(errors="replace"), draw).decode(
                    errors="replace"
                )
            case _:
                container[key] = odd(draw)
    return result


def damaged(data: bytes, draw: Draw) -> bytes:
    """`data` cut, with bytes changed, taken out or doubled."""
    result = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(len(result) + 1)
        match draw.randrange(5):
            case 0:
                del result[at:]
            case 1:
                result[at : at + 1] = bytes([draw.randrange(256)])
            case 2:
                del result[at : at + draw.randrange(1, 20)]
            case 3:
                result[at:at] = draw.choice((b"\0", b"[", b"{", b'"', b"\n", b"-", b"9" * 30, b"*"))
            case 4:
                result[at:at] = result[at : at + draw.randrange(1, 50)]
    return bytes(result)


def _lines(draw: Draw, base: Sequence[Any]) -> bytes:
    """A log of `base`, one or two of whose lines are odd."""
    lines = [json.dumps(entry).encode() for entry in base]
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.choice([k for k, e in enumerate(base) if "hash" in e] * 2 + [*range(len(base))])
        if draw.random() < 0.9:
            lines[at] = json.dumps(changed(base[at], draw)).encode()
        else:
            lines[at] = damaged(lines[at], draw)
    return b"\n".join(lines) + b"\n"


_TREE: tuple[Callable[[Draw], str], ...] = (
    lambda d: "A[" * d.randrange(1, 400) + "i" + "]" * d.randrange(1, 400),
    lambda d: "-" * d.choice((1, 50, 99, 800, 20_000)) + "A[i, j]",
    lambda d: " + ".join(["A[i, j]"] * d.choice((3, 17, 400, 3000))),
    lambda d: " * ".join(["A[i, j]"] * d.choice((3, 17, 99, 400))),
    lambda d: "(" * d.choice((3, 90, 500)) + "A[i, j]" + ")" * d.choice((3, 90, 500)),
    lambda d: f"A[i, j] + {d.choice((2**31, 2**63, 10**400, '9' * 5000, '1e999', '1e-999', '1j'))}",
    lambda d: f"A[i + {d.choice((1, -1, 2**31, 2**62, 10**30))}, j * {d.randrange(-3, 2**33)}]",
    lambda d: "A[i, j] if " * d.choice((1, 60, 200)) + "i" + " else 0" * d.choice((1, 60, 200)),
    lambda d: "not " * d.choice((1, 50, 300)) + "A[i, j]",
    lambda d: f"A[i, j] ** {d.choice((2, 64, 65, -1, 0.5, 10**9, '2 ** 2 ** 2 ** 2 ** 9'))}",
    lambda d: f"{2**40} ** {2**20} + A[i, j]",
    lambda d: f"1 << {10**9} | int32(A[i, j])",
    lambda d: d.choice(("__import__('os').system('touch ran')", "open('ran', 'w')", "f'{A}'")),
    lambda d: d.choice(
        ("(lambda: 0)()", "[k for k in A]", "A.x", "A[i][j]", "A[i:j]", "*A", "...")
    ),
    lambda d: d.choice(("sum(k, A[i, k])", "sum(i, A[i, j])", "sum(A)", "max(k, r, A[k, r])")),
    lambda d: d.choice(("A[i // 0, j]", "A[i, j] // 0", "A[i % 0, j]", "A[i, A[i, j]]", "i / 0")),
    lambda d: "".join(d.choices("AiIjk[]()+-*/%<>=, 0123456789.&|^~!@#:;'\"\\\n\t\0é", k=40)),
)


def expression(draw: Draw) -> dict[str, Any]:
    """The arguments of an expression."""
    text = f"{draw.choice(('C[i, j]', 'C[i, i]', 'C', 'C[0, j]', 'C[i]', 'C[i, j]'))} = "
    text += draw.choice(_TREE)(draw)
    if draw.random() < 0.3:
        text = damaged(text.encode(), draw).decode(errors="replace")
    entry = {"expr": text, "shapes": {"A": [5, 5]}, "dtype": draw.choice(("float32", "int64"))}
    if draw.random() < 0.2:
        entry = changed(entry, draw)
    return entry if isinstance(entry, dict) else {"expr": text}


_YAML: tuple[Callable[[Draw], str], ...] = (
    lambda d: "workload: " + "[" * d.choice((50, 500, 5000)) + "]" * d.choice((50, 500, 5000)),
    lambda d: "workload: " + "{a: " * d.choice((50, 500, 3000)) + "1" + "}" * 50,
    lambda d: "\n".join("  " * k + "a:" for k in range(d.choice((50, 400, 1500)))),
    lambda d: "- " * d.choice((50, 3000)) + "a",
    lambda d: (
        "a0: &a0 [x, x]\n"
        + "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 30))
        + "workload: *a29\n"
    ),
    lambda d: (
        "a0: &a0 {x: 1}\n"
        + "".join(f"a{k}: &a{k} {{a: *a{k - 1}, b: *a{k - 1}}}\n" for k in range(1, 60))
        + "workload: *a59\n"
    ),
    lambda d: d.choice(("workload: &a [*a]\n", "workload: &a {op: *a}\n", "&a workload: *a\n")),
    lambda d: "workload: &a\n  op: matmul\n  <<: *a\n",
    lambda d: f"search: {{trials: {'9' * d.choice((20, 400, 5000))}}}\n",
    lambda d: f"search: {{trials: 0x{'f' * d.choice((20, 400, 9000))}}}\n",
    lambda d: f"search: {{trials: {'1:' * d.choice((3, 30, 400))}1}}\n",
    lambda d: "workload: !!python/object/apply:os.system ['touch ran']\n",
    lambda d: "workload: !!python/name:ops.run\nname: !ran x\n",
    lambda d: (
        f"{d.choice(('? [a, b]', '1', 'null', '1.5', '2020-01-01', '!!binary aGk=', '~'))}: 1\n"
    ),
    lambda d: (
        f"name: {d.choice(('../esc', '/etc/x', '.', '..', 'a/b', '[1]', '{a: 1}', '2020-01-01'))}\n"
    ),
    lambda d: f"records: {d.choice(('../esc', '/dev/zero', '.', 'pipe', '[1]', '5', 'ops.py'))}\n",
    lambda d: (
        f"inputs: {{A: {{file: {d.choice(('/dev/zero', 'pipe', 'huge.npy', 'pickled.npy'))}}}}}\n"
    ),
    lambda d: f"inputs: {{A: {{constant: {d.choice(('1' * 500, '.nan', '.inf', '[1]', 'x'))}}}}}\n",
    lambda d: (
        f"measure: {{cache_flush: {d.choice(('9' * 30, '9 EiB', '-1', '[1]', '.inf', '1e400'))}}}\n"
    ),
    lambda d: f"target: {{threads: {d.choice(('0', '-1', '9' * 20, '1.5', 'x'))}}}\n",
    lambda d: (
        f"workload: {{op: matmul, args: {{M: {d.choice(('9' * 30, '-1', '[1]', '1.5', '{}'))}}}}}\n"
    ),
    lambda d: "%YAML 9.9\n---\na: 1\n---\nb: 2\n",
    lambda d: "".join(d.choices("abc:{}[]&*!|>'\"%@`#-,? \n\t0123\u2028\ufeff\0", k=60)),
)


def yaml(draw: Draw, base: Sequence[str]) -> bytes:
    """A configuration: a real one with lines exchanged, and an odd part beside it."""
    lines = draw.choice(base).splitlines()
    match draw.randrange(4):
        case 0:
            at = draw.randrange(len(lines))
            lines[at] = draw.choice(_YAML)(draw)
        case 1:
            head = draw.choice(_YAML)(draw).splitlines()
            key = head[0].partition(":")[0] if head else ""
            lines = head + [line for line in lines if not line.startswith(key)]
        case 2:
            at = draw.randrange(len(lines))
            key, colon, _ = lines[at].partition(":")
            text = json.dumps(odd(draw)) if draw.random() < 0.7 else draw.choice(lines)
            lines[at] = f"{key}{colon} {text}"
        case 3:
            return damaged("\n".join(lines).encode(), draw)
    return "\n".join(lines).encode(errors="replace") + b"\n"


def dataset(draw: Draw, base: dict[str, bytes]) -> tuple[str, bytes]:
    """A suffix and the bytes of the file."""
    suffix = draw.choice(tuple(base))
    data = base[suffix]
    if suffix == ".npz" and draw.random() < 0.6:
        return suffix, _npz(draw, data)
    if suffix == ".csv" and draw.random() < 0.6:
        rows = [line.split(b",") for line in data.split(b"\r\n")]
        for _ in range(draw.choice((1, 1, 3))):
            row = draw.choice(rows)
            value = draw.choice((b"", b"x", b"nan", b"1e999", b'"', b"\0", b"-1", b"9" * 200_000))
            row[draw.randrange(len(row))] = value
        return suffix, b"\r\n".join(b",".join(row) for row in rows)
    if draw.random() < 0.15:
        return suffix, draw.choice((b"", b"PK\x03\x04", b"PAR1", b"PAR1PAR1", *base.values()))
    return suffix, damaged(data, draw)


def _npz(draw: Draw, data: bytes) -> bytes:
    """The archive with one array of another type, length or header."""
    arrays = {k: v for k, v in np.load(io.BytesIO(data)).items() if isinstance(v, np.ndarray)}
    name = draw.choice(tuple(arrays))
    array, raw = arrays[name], b""
    match draw.randrange(6):
        case 0:
            del arrays[name]
        case 1:
            arrays[name] = np.array([odd(draw) for _ in range(3)], object)
        case 2:
            arrays[name] = (
                array.ravel()[:1]
                if draw.random() < 0.5
                else np.concatenate([np.atleast_1d(array)] * 2)
            )
        case 3:
            kind = draw.choice((np.float64, np.int8, "U5", "S3", np.complex64, "datetime64[s]"))
            with contextlib.suppress(TypeError, ValueError):
                arrays[name] = np.full(array.shape, -7).astype(kind)
        case 4:
            arrays[name] = np.array(draw.choice(("{", "[]", '{"workload": []}', 7, -1, np.nan)))
        case 5:
            shape = draw.choice(
                ("(99999999999,)", "(-1,)", "(1e3,)", "'x'", "(" * 500, "()", "(2**9,)")
            )
            head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
            raw = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for key, value in arrays.items():
            member = io.BytesIO()
            np.save(member, value)
            archive.writestr(f"{key}.npy", raw if raw and key == name else member.getvalue())
    return out.getvalue()


def model(draw: Draw, base: dict[str, Any]) -> bytes:
    """A saved cost model, perhaps compressed."""
    if draw.random() < 0.8:
        raw = json.dumps(changed(base, draw)).encode()
    else:
        raw = damaged(json.dumps(base).encode(), draw)
    if draw.random() < 0.2:
        raw = gzip.compress(raw, 1)
        return damaged(raw, draw) if draw.random() < 0.5 else raw
    return raw


class Watch:
    """Notes what is executed, and what is written outside of the folder."""

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
    """What became of an input: `kind` is result, refused or finding."""

    kind: str
    text: str
    seconds: float


@dataclass
class Fuzzer:
    """The process that may die: makes inputs of its folder and gives them to what reads them."""

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
        """The input."""
        draw = Draw(f"{seed} {kind} {number}")
        match kind:
            case "records" | "ansor":
                return _lines(draw, draw.choice(self.bases[kind]))
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
    """`inputs` of all `kinds` by their shares, in a process that is replaced when it dies."""
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
