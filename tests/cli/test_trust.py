"""Records are data: no command runs a file that a record names, unless it is told to."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import autosched
from autosched import user_file
from autosched.cli.code_process import code_of
from autosched.errors import ConfigError
from autosched.export import cpu as exporting
from autosched.measure.record_log import RecordLog
from autosched.measure.records import read_log
from autosched.measure.result import Failure, MeasureResult
from autosched.state.steps import steps_from_json
from autosched.task import Task
from autosched.user_file import trusting
from kit.cli import Cli, MakeRecord

OPS = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
from autosched import te

def double(n):
    A = te.placeholder((n,), "float32", "A")
    return [A, te.compute((n,), lambda i: A[i] * 2, "B")]

def fill(rng, shape, dtype):
    return rng.random(shape).astype(dtype)

from autosched.transform.framework.passes import FunctionPass

class Same(FunctionPass):
    name = "Same"

    def apply(self, func, ctx):
        return func
"""
EXPRESSION = {"expr": "B[i] = A[i] * 2", "shapes": {"A": [16]}, "dtype": "float32"}


@pytest.fixture(params=["workload", "inputs", "lowering"])
def hostile(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record: MakeRecord,
) -> Path:
    """A record file that names a Python file, which leaves `ran` behind when it is run."""
    (tmp_path / "ops.py").write_text(OPS)
    if request.param == "workload":
        python = {"python": f"{tmp_path}/ops.py:double", "args": {"n": 16}}
        task = Task.from_json_workload(python, "cpu")
    elif request.param == "lowering":
        same = f"{tmp_path}/ops.py:Same"
        task = Task.from_json_workload(EXPRESSION, "cpu").with_lowering([same])
    else:
        filled = {"A": {"function": f"{tmp_path}/ops.py:fill"}}
        task = Task.from_json_workload(EXPRESSION, "cpu").with_inputs(filled)
    (tmp_path / "ran").unlink()
    monkeypatch.setattr(user_file, "_RAN", set())  # as in a process that has not run it
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([replace(record(steps=()), task=task.to_json())])
    return path


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("records", "info", "r.jsonl"),
    ("show", "r.jsonl", "--as", "python"),
    ("dataset", "export", "r.jsonl", "-o", "d.csv"),
)


RUNNING: tuple[tuple[str, ...], ...] = (
    ("replay", "r.jsonl"),
    ("build", "r.jsonl", "-o", "out"),
    *(("show", "r.jsonl", "--as", form) for form in ("tir", "llvm", "asm")),
)


@pytest.mark.parametrize("command", [*COMMANDS, *RUNNING])
def test_no_command_runs_it(cli: Cli, hostile: Path, command: tuple[str, ...]) -> None:
    done = cli(*command)
    assert not (hostile.parent / "ran").exists()
    declares = "double" in hostile.read_text()
    if not declares and command in COMMANDS:  # which fill no inputs and run no passes
        assert done.status == 0 and "run no code" not in done.out + done.err
        return
    assert "records run no code by themselves" in done.out + done.err
    assert "ops.py:" in done.out + done.err


def test_who_lowers_elsewhere_asks_here(hostile: Path) -> None:
    """The process that compiles for `show` trusts whoever asks it."""
    if "lowering" not in hostile.read_text():
        return
    task = Task.from_json(read_log(hostile).records[0].task, to_run=False)
    with pytest.raises(ConfigError, match="records run no code by themselves"):
        code_of(task, (), task.target, "llvm")
    assert not (hostile.parent / "ran").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("show", "r.jsonl", "--as", "features"),
        ("arena", "r.jsonl", "--trials", "1", "--seeds", "1", "--model", "random"),
        ("cache", "add", "r.jsonl"),
        ("failures", "f.jsonl", "--repro", "0"),
    ],
)
def test_what_only_looks_at_loops_needs_no_trust(
    cli: Cli,
    hostile: Path,
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE", str(tmp_path / "cache"))
    (record,) = read_log(hostile).records
    failed = replace(record, result=MeasureResult((), Failure("run", "crash", "it died")))
    RecordLog(tmp_path / "f.jsonl").append([failed])
    unrolled = steps_from_json([["PR", 1, 0, "auto_unroll_max_step$16"]])
    RecordLog(hostile).append([replace(record, steps=unrolled)])
    done = cli(*command)
    assert not (hostile.parent / "ran").exists()
    refused = "double" in hostile.read_text()
    assert ("run no code" in done.out + done.err) == refused
    assert (done.status == 0) == (not refused)


def test_build_takes_it_too(cli: Cli, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`build` told one to add an option that it did not have."""
    monkeypatch.setattr(exporting, "linker", lambda: None)
    done = cli("build", "r.jsonl", "-o", "out")
    assert done.status == 2 and "add --trust" in done.err
    done = cli("build", "r.jsonl", "-o", "out", "--trust")
    assert done.status == 0, done.err
    assert list((hostile.parent / "out").glob("*.records.jsonl"))


@pytest.mark.parametrize("command", COMMANDS)
def test_with_trust_it_runs(cli: Cli, hostile: Path, command: tuple[str, ...]) -> None:
    done = cli(*command, "--trust")
    assert (done.status, "run no code" in done.err) == (0, False)
    assert (hostile.parent / "ran").exists() == ("double" in hostile.read_text())


def test_what_to_type_next_runs(cli: Cli, hostile: Path, tmp_path: Path) -> None:
    (config := tmp_path / "c.yaml").write_text(
        f'workload: {{python: "{hostile.parent}/ops.py:double", args: {{n: 16}}}}\n'
    )
    done = cli("tune", config, "--trials", 1, "--records", "new.jsonl")
    assert "next      autosched replay new.jsonl --trust\n" in done.out


def test_python_says_so_too(hostile: Path) -> None:
    with pytest.raises(ConfigError, match=r"with autosched\.trusting"):
        autosched.load_best(hostile)
    assert not (hostile.parent / "ran").exists()


def test_a_warm_start_does_not_run_it(cli: Cli, hostile: Path, config: Path) -> None:
    done = cli("tune", config, "--trials", 1, "--warm-start", hostile)
    assert not (hostile.parent / "ran").exists()
    if "double" in hostile.read_text():
        assert "records run no code by themselves" in done.out + done.err
    else:
        assert f"warm start from {hostile}: 1 record of 1 task" in done.err


def test_what_the_user_named_himself_may_be_continued(hostile: Path) -> None:
    contents = read_log(hostile)
    with trusting():
        task = Task.from_json(contents.records[0].task)
        task.inputs()
        task.lowering.require()
    assert Task.from_json(contents.records[0].task).key == task.key


@pytest.mark.parametrize("quote", ['"""', "'''", "\\", '\\"""'])
def test_no_expression_leaves_its_docstring(
    cli: Cli, tmp_path: Path, record: MakeRecord, quote: str
) -> None:
    """The printed program holds the text of the expression, comments included."""
    text = f"B[i] = A[i] * 2  # {quote}; open('ran', 'w')  # {quote}"
    task = Task.from_json_workload({**EXPRESSION, "expr": text}, "cpu")
    RecordLog(tmp_path / "r.jsonl").append([replace(record(steps=()), task=task.to_json())] * 2)
    program = ast.parse(cli("show", "r.jsonl", "--as", "python").out)
    assert [type(part) for part in program.body[:3]] == [ast.Expr, ast.ImportFrom, ast.ImportFrom]
    assert "open" not in {part.id for part in ast.walk(program) if isinstance(part, ast.Name)}
