"""What record files and configurations say reaches the terminal as text and nothing else."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.measure.record_log import RecordLog
from autosched.measure.result import Failure
from kit.cli import Cli, MakeRecord, Outcome

EVIL = "X\x1b[31mR\x07\n[EVIL]\tT\r\u202eB\x9bC\x7fD\u2028E"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE", str(tmp_path / "cache"))


def require_text(done: Outcome) -> str:
    """Both streams, which hold nothing that a terminal obeys, nor lines that a file began."""
    text = done.out + done.err
    assert OBEYED.search(text) is None
    assert re.search(r"^\s*\[EVIL\]", text, re.MULTILINE) is None
    assert "Traceback" not in text
    return text


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def evil(tmp_path: Path, record: MakeRecord) -> Path:
    """A file that can be read, and says such things wherever it is shown."""
    path = tmp_path / "e.jsonl"
    failed = record(failure=Failure("run" + EVIL, "timeout" + EVIL, f"long\n{EVIL}"))
    other = record(3e-3)
    workload = {"op": "matmul" + EVIL, "args": {"M" + EVIL: 1}}
    other = replace(other, task={**other.task, "workload": workload, "key": "other"})
    RecordLog(path).append([record(2e-3, ()), record(), failed, other])
    lines = lines_of(path)
    for line in lines:
        if "environment" in line and isinstance(line["environment"], dict):
            line["environment"] |= {"cpu": "CPU" + EVIL, "packages": {"autosched": EVIL}}
        if "time" in line:
            line["time"] = EVIL
    write(path, [*lines, {**lines[-1], "task": EVIL}, {**lines[-1], "schema": EVIL}])
    return path


COMMANDS = (
    ("records", "info", "e.jsonl"),
    ("records", "info", "e.jsonl", "--json"),
    ("records", "top", "e.jsonl"),
    ("records", "best", "e.jsonl"),
    ("records", "diff", "e.jsonl", "mm.jsonl"),
    ("failures", "e.jsonl"),
    ("show", "e.jsonl", "--index", "1"),
    ("show", "e.jsonl", "--index", "1", "--as", "python"),
    ("show", "e.jsonl", "--index", "1", "--as", "steps"),
    ("replay", "e.jsonl", "--index", "3"),
    ("dataset", "export", "e.jsonl", "-o", "e.npz"),
    ("report", "e.jsonl", "-o", "e.html"),
    ("arena", "e.jsonl"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.usefixtures("log")
def test_records(cli: Cli, evil: Path, words: tuple[str, ...]) -> None:
    assert evil.exists()
    text = require_text(cli(*words))
    if words[:1] == ("failures",):
        assert r"1 x runX\x1b[31mR\x07\n[EVIL]\tT\r\u202eB\x9bC\x7fD\u2028E timeoutX" in text
    if "--json" in words:
        told = [task["workload"]["op"] for task in json.loads(cli(*words).out)["tasks"]]
        assert told == ["matmul", "matmul" + EVIL]


def test_the_cache_and_datasets(cli: Cli, evil: Path) -> None:
    require_text(cli("cache", "add", evil))
    cache = evil.parent / "cache"
    (file,) = cache.glob("matmul-*.jsonl")
    assert r"CPUX\x1b[31m" in require_text(cli("cache", "list"))
    write(file, [{**line, "hash": EVIL} if "task" in line else line for line in lines_of(file)])
    require_text(cli("cache", "list"))
    for suffix in ("npz", "csv"):
        require_text(cli("dataset", "export", evil, "-o", f"e.{suffix}"))
        assert r"failures: runX\x1b" in require_text(cli("dataset", "info", f"e.{suffix}"))


def strings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each text inside."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from strings(each, (*path, key))


def test_every_text_of_a_record_file(cli: Cli, log: Path, tmp_path: Path) -> None:
    lines = lines_of(log)
    for path in strings(lines):
        changed = json.loads(json.dumps(lines))
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = EVIL
        write(tmp_path / "e.jsonl", changed)
        for words in (("records", "info"), ("records", "top"), ("failures",)):
            assert require_text(cli(*words, "e.jsonl"))  # and something is said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inputs", {"A" + EVIL: {"uniform": [0, 1]}}),
        ("inputs", {"A": {"file": EVIL}}),
        ("inputs", {"A": {"function": f"{EVIL}.py:make"}}),
        ("inputs", {"A": {"function": "\0.py:make"}}),
        ("lowering", {"passes": [{"pass": f"{EVIL}.py:make"}]}),
        ("lowering", {"passes": ["a.py:b"], "config": {EVIL: 1}}),
        ("lowering", {"disabled_pass": [EVIL]}),
        ("lowering", {EVIL: 1}),
        ("workload", {"python": "\0.py:make"}),
        ("target", {"kind": EVIL}),
        ("layout_rewrite", EVIL),
    ],
)
def test_tasks(cli: Cli, log: Path, key: str, value: Any) -> None:
    lines = lines_of(log)
    for line in lines:
        if isinstance(line.get("task"), dict):
            line["task"][key] = value
    write(log, lines)
    for words in (
        ("records", "info"),
        ("records", "best"),
        ("arena",),
        ("cache", "add"),
        ("show",),
    ):
        assert require_text(cli(*words, log))


WORKLOADS: tuple[Any, ...] = (
    {"op": "matmul" + EVIL, "args": {"M": 16, "N": 16, "K": 16}},
    {"op": "matmul", "args": {"M" + EVIL: 16, "N": 16, "K": 16}},
    {"expr": "C[i] = A[i] + " + EVIL, "shapes": {"A": [4]}},
    {"expr": "C[i] = A[i]", "shapes": {"A" + EVIL: [4]}},
    {"python": f"ops{EVIL}.py:run"},
    {"python": "ops.py:run", "args": {"a": EVIL}},
)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_configurations(cli: Cli, tmp_path: Path, workload: Any) -> None:
    (tmp_path / "ops.py").write_text(
        "from autosched import te\n"
        "def run(a):\n"
        "    A = te.placeholder((4,), name='A')\n"
        "    return [A, te.compute((4,), lambda i: A[i] + 1.0, name='B')]\n"
    )
    (tmp_path / "c.yaml").write_text(json.dumps({"workload": workload}))
    for words in (("lower",), ("tune", "--dry-run")):
        assert require_text(cli(*words, "c.yaml"))
