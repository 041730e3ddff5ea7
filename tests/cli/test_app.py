"""The front of the command line: statuses, help, wrong files, what an interrupt leaves."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import Popen
from typing import Any, Never
from unittest.mock import Mock

import pydantic
import pytest
from typer.testing import CliRunner

import autosched
from autosched.cli import schema
from autosched.cli.app import app, front_of
from autosched.cli.console import plain
from autosched.cli.tuning_app import tune
from autosched.measure.records import read_log
from autosched.measure.standing import is_race
from kit.cli import Cli, default_interrupts

ROOT = Path(__file__).parents[2]
OP = "workload:\n  op: matmul\n  args: {M: 4, N: 4, K: 4}\n"

PRINTING = """\
import sys
from autosched import te

print("loaded")

def rows(n):
    A = te.placeholder((n, n), name="A")
    print("made", flush=True)
    sys.stdout.write("half a line")
    return A, te.compute((n, n), lambda i, j: A[i, j] + 1.0, name="B")
"""

BAD = {
    "": "expected keys such as `workload:`, found an empty file",
    "- a\n- b\n": "found a list",
    "workload: [1\n": "bad.yaml:2: not valid YAML",
    "workload: matmul\n": "bad.yaml:1: workload: expected keys and values, found text 'matmul'",
    f"{OP}serach: {{}}\n": "bad.yaml:4: unknown key 'serach'",
    f"{OP}search: {{trials: many}}\n": "bad.yaml:4: search.trials: expected an integer, found text",
    f"{OP}target: {{kind: gpu}}\n": "target.kind: expected 'cpu' or 'cuda', found text 'gpu'",
    OP.replace("M: 4", "M: -4"): "bad.yaml:3: workload matmul: argument M must be at least 1",
    OP.replace("M: 4", "M: 0"): "argument M must be at least 1, found 0",
    OP.replace("M: 4", "M: 4.5"): "workload.args.M: expected an integer",
    OP.replace("M: 4", "Q: 4"): "bad.yaml:3: workload matmul: unknown argument 'Q'",
    OP.replace("M: 4, ", ""): "bad.yaml:3: workload matmul: missing argument M",
    OP.replace("matmul", "matmull"): "bad.yaml:2: unknown workload 'matmull'; did you mean",
    OP.replace("4", "100000"): "A would have 10000000000 elements, at most 2147483647",
    OP.replace("M: 4", f"M: {10**20}"): "argument M must be at most 2147483647",
    'workload: {expr: "C[i] = sum(k, A[i, k]", shapes: {A: [2, 2]}}\n': "'(' was never closed",
    'workload: {python: "none.py:f"}\n': "python: there is no file none.py",
    'workload: {python: "boom.py:f"}\n': "python: boom.py:2: f failed: RuntimeError: boom",
    'workload: {python: "boom.py:leave"}\n': "python: boom.py:6: leave failed: SystemExit: 4",
}


def test_what_a_file_of_the_user_prints_is_no_result(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(PRINTING)
    (tmp_path / "rows.yaml").write_text('workload: {python: "rows.py:rows", args: {n: 4}}\n')
    done = cli("tune", "rows.yaml", "--dry-run", "--trials", 2, "--json")
    assert done.status == 0 and len(json.loads(done.out)["tasks"]) == 1
    assert done.err.startswith("loaded\nmade\n") and done.err.endswith("half a line")


@pytest.mark.parametrize(("text", "message"), BAD.items(), ids=BAD.values())
def test_a_wrong_configuration_is_one_paragraph_and_status_2(
    cli: Cli, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "boom.py").write_text(
        "def f():\n    raise RuntimeError('boom')\n\n\ndef leave():\n    raise SystemExit(4)\n"
    )
    (tmp_path / "bad.yaml").write_text(text)
    for command in (("tune", "bad.yaml", "--dry-run"), ("lower", "bad.yaml")):
        done = cli(*command)
        assert done.status == 2
        assert message in done.err
        assert done.err.count("\n") == 1
        assert done.out == ""


def test_a_binary_file_a_folder_and_no_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bin.yaml").write_bytes(bytes(range(256)))
    for name in ("bin.yaml", ".", "none.yaml"):
        done = cli("tune", name)
        assert done.status == 2
        assert done.err.startswith("error: ")
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("args", [("frobnicate",), ("tune",), ("show", "--bogus", "x")])
def test_wrong_usage_is_status_2(cli: Cli, args: tuple[str, ...]) -> None:
    assert cli(*args).status == 2


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (("build", "a.jsonl", "--output", ""), "--output"),
        (("build", "a.jsonl", "--output="), "--output"),
        (("build", "a.jsonl", "-o", ""), "--output"),
        (("replay", "a.jsonl", "--workload", "mm.yaml", "--workload", ""), "--workload"),
        (("lower", "--profile", ""), "--profile"),
        (("show", "a.jsonl", "--index", ""), "--index"),
        (("tune", "matmul", ""), "CONFIG"),
        (("records", "info", ""), "SOURCE"),
    ],
)
def test_an_empty_text_is_no_value(
    cli: Cli, tmp_path: Path, args: tuple[str, ...], name: str
) -> None:
    """An empty path meant the current folder, which `build` wrote to."""
    done = cli(*args)
    assert (done.status, done.out, list(tmp_path.iterdir())) == (2, "", [])
    assert done.err.startswith(f"error: {name}: expected a value, found an empty text")
    assert cli(*args, "--help").status == 0


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version").out == f"autosched {autosched.__version__}\n"
    done = cli("--help")
    assert done.status == 0
    assert {"tune", "replay", "show", "lower", "schema"} <= set(done.out.split())


def test_workloads_are_listed_and_described(cli: Cli) -> None:
    listed = cli("workloads").out
    assert listed.startswith("matmul ")
    assert "layer_norm" in listed
    one = cli("workloads", "conv1d_nlc").out
    assert "padding      integer >= 0" in one
    done = cli("workloads", "matmu")
    assert (done.status, done.out) == (2, "")
    assert "did you mean 'matmul'?" in done.err


@pytest.mark.skipif(
    tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 11),
    reason="Pydantic before 2.11 writes schemas in other words",
)
def test_the_published_schema_is_current(cli: Cli) -> None:
    printed = cli("schema").out
    assert (ROOT / "docs" / "config.schema.json").read_text() == printed
    assert json.loads(printed)["required"] == ["workload"]


class Full:
    """A stream on a full disk."""

    def write(self, text: str) -> Never:
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        pass


def test_a_full_disk_is_no_traceback(cli: Cli, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Full())
    done = cli("show", log)
    assert done.status == 2
    assert "error: cannot write to standard output: No space left on device" in done.err


@pytest.mark.parametrize(
    ("encoding", "written"),
    [("utf-8", b"\xc3\xa9\\udcff\n"), ("ascii", b"\\xe9\\udcff\n"), ("cp1252", b"\xe9\\udcff\n")],
)
def test_characters_that_the_output_cannot_have_are_escaped(
    monkeypatch: pytest.MonkeyPatch, encoding: str, written: bytes
) -> None:
    """A name of a file need not be text; a locale may not have all letters."""
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(data, encoding, errors="strict"))
    plain("é\udcff")
    assert data.getvalue() == written


def test_messages_that_cannot_be_written_are_lost(
    cli: Cli, config: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(sys, "stderr", Full())
        assert cli("records", "convert", log, "-o", "v.log", "--to", "ansor-v0.6").status == 0
    done = cli("records", "convert", log, "-o", "w.log", "--to", "ansor-v0.6")
    assert done.err == "3 records written to w.log\n", "those of before do not come later"


def test_wrong_usage_that_cannot_be_told_is_status_2(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`autosched --bogus 2> /dev/full` ended with 1."""
    monkeypatch.setattr(sys, "stderr", Full())
    assert cli("--bogus").status == 2


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError(), "error: not enough memory; see what limits it (ulimit -v, docker"),
        (MemoryError("of 3 GiB"), "error: not enough memory: of 3 GiB; see what limits it"),
        (RuntimeError("can't start new thread"), "error: can't start new thread; see what limits"),
    ],
)
def test_memory_or_threads_that_run_out_are_no_traceback(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    monkeypatch.setattr(schema, "run", Mock(side_effect=error))
    done = cli("schema")
    assert (done.status, done.out) == (2, "") and done.err.startswith(says)


def test_closed_streams_are_no_traceback(tmp_path: Path, log: Path) -> None:
    for closed, status, args in ((">&-", 0, ["show", log]), ("2>&-", 2, ["show", "none.jsonl"])):
        words = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "autosched", *args]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def command(*args: str | int | Path, cwd: Path, **keywords: Any) -> Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result: Popen[str] = subprocess.Popen(
        [sys.executable, "-m", "autosched", *map(str, args)],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **keywords,
    )
    return result


@pytest.mark.parametrize("options", [("--as", "asm"), ("--help",)])
def test_a_closed_pipe_ends_quietly(tmp_path: Path, log: Path, options: tuple[str, ...]) -> None:
    with command("show", log, *options, cwd=tmp_path) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait(300) == 0
        assert process.stderr.read() == ""


def test_a_reader_of_messages_that_goes_away_stops_nothing(tmp_path: Path) -> None:
    """`autosched tune 2>&1 | head -1` goes on to the end."""
    program = (
        "import os, sys; from autosched.cli.console import warn; os.close(0); read, write = "
        "os.pipe(); os.dup2(write, 2); os.close(write); os.close(read)\n"
        "for _ in range(3): warn('text')\n"
        "print('the end')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "the end\n")


def test_an_interrupt_keeps_the_records_and_the_next_run_goes_on(tmp_path: Path, cli: Cli) -> None:
    """Ctrl-C once the first round is in the file; then a run that continues from it."""
    (tmp_path / "mm.yaml").write_text(
        "workload: {op: matmul, args: {M: 16, N: 16, K: 16}}\n"
        "search: {trials: 1000, batch: 2, sample_init_min_population: 8,\n"
        "         evolutionary_search_population: 8}\n"
        "measure: {min_repeat_ms: 5, workers: 1}\ncost_model: {kind: random}\n"
    )
    records = tmp_path / "mm.jsonl"
    with command("tune", "mm.yaml", cwd=tmp_path, preexec_fn=default_interrupts) as process:
        while process.poll() is None and len(_lines(records)) < 3:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "best  " in out
    assert "stopped: interrupted" in err
    assert "Traceback" not in err
    contents = read_log(records)
    assert contents.problems == []
    measured = len(contents.records)
    assert measured >= 2
    done = cli("tune", "mm.yaml", "--trials", 2, "--json")
    assert (done.status, done.err) == (0, "")
    summary = json.loads(done.out)
    assert summary["trials"] == 2
    found = [record for record in read_log(records).records if not is_race(record)]
    steps = [json.dumps(record.to_json()["steps"]) for record in found]
    assert len(steps) == len(set(steps)) == measured + 2


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_one_command_is_made_where_it_is_named_first() -> None:
    assert [c.callback for c in front_of(["tune", "--help"]).registered_commands] == [tune]
    assert front_of(["tune"]).registered_groups == []
    for arguments in ([], ["--version"], ["records", "best"], ["tun"], ["--help", "tune"]):
        assert front_of(arguments) is app


def test_a_command_alone_has_the_same_help() -> None:
    alone = CliRunner().invoke(front_of(["tune"]), ["tune", "--help"], prog_name="autosched")
    among = CliRunner().invoke(app, ["tune", "--help"], prog_name="autosched")
    assert alone.output == among.output
    assert "--trials" in alone.output
