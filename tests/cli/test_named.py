"""`--workload`: every command that reads Ansor's logs takes the computation of unknown keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosched.cli import replay
from autosched.session import session, yardsticks
from autosched.session.peer import Peer
from kit.cli import Cli
from kit.helper import StubHelper
from kit.measurer import StubMeasurer

HASH = "0123456789abcdef0123456789abcdef"
STEPS = [["SP", 2, 0, 16, [4], 1], ["AN", 2, 0, 3]]


def write_log(path: Path, key: list[object]) -> None:
    task = [json.dumps(key), "llvm -keys=cpu", [1, 64, 64, 0, 0, 0, 0, 0], "", 1, []]
    line = {"i": [task, [[], STEPS]], "r": [[1e-3], 0, 1.0, 1700000000], "v": "v0.6"}
    path.write_text(json.dumps(line) + "\n")


@pytest.fixture
def hashed(tmp_path: Path) -> Path:
    """One line of a 16x16x16 matmul whose key is a hash."""
    path = tmp_path / "a.json"
    write_log(path, [HASH, [16, 16], [16, 16], [16, 16]])
    return path


COMMANDS = [
    ("records", "info", "a.json"),
    ("records", "convert", "a.json", "-o", "b.jsonl", "--to", "autosched"),
    ("show", "a.json", "--as", "steps"),
    ("replay", "a.json"),
    ("dataset", "export", "a.json", "-o", "x.csv"),
    ("tune", "mm.yaml", "--trials", "1", "--warm-start", "a.json"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: "-".join(c[:2]))
def test_every_reader_takes_it(
    cli: Cli,
    config: Path,
    hashed: Path,
    command: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "Measurer", StubMeasurer())
    monkeypatch.setattr(session, "Measurer", StubMeasurer())
    monkeypatch.setattr(session, "Helper", StubHelper)
    monkeypatch.setattr(yardsticks, "peer_of", lambda *_: Peer("NumPy", 2e-6, 1e-6))
    refused = cli(*command)
    assert "a.json:1: the workload '0123" in refused.err
    assert "give its computation with --workload CONFIG" in refused.err
    for name in ("mm.yaml", f"{HASH}=mm.yaml"):
        for written in ("b.jsonl", "x.csv", "x.csv.md", "mm.jsonl"):
            Path(written).unlink(missing_ok=True)
        done = cli(*command, "--workload", name)
        assert done.status == 0, done.err
        assert "skipped" not in done.err
        assert "not used" not in done.err


def test_the_candidate_is_compared_with_the_computation_that_is_named(
    cli: Cli, config: Path, hashed: Path
) -> None:
    (row,) = json.loads(cli("replay", "a.json", "--workload", "mm.yaml", "--json").out)["replayed"]
    assert row["workload"] == "matmul(M=16, N=16, K=16)"
    assert row["checked"]


def test_lower_reads_it_as_its_own_configuration(cli: Cli, config: Path, hashed: Path) -> None:
    done = cli("lower", config, "--record", "a.json:0")
    assert done.status == 0, done.err
    assert "parallel" in done.out


def test_several_keys(cli: Cli, config: Path, hashed: Path, tmp_path: Path) -> None:
    write_log(tmp_path / "b.json", ["my_relu", 16])
    (tmp_path / "relu.yaml").write_text("workload: {op: add_relu, args: {M: 16, N: 4}}\n")
    both = ("dataset", "export", "a.json", "b.json", "-o", "x.csv", "--workload", "mm.yaml")
    done = cli(*both, "--workload", "relu.yaml")
    assert done.status == 2
    assert "which key is which? Give --workload KEY=CONFIG" in done.err
    done = cli(*both, "--workload", "my_relu=relu.yaml")
    assert done.status == 0
    assert "2 candidates" in done.err
    assert "2 tasks" in done.err


@pytest.mark.parametrize(
    ("option", "status", "message"),
    [
        ("none.yaml", 2, "none.yaml does not exist"),
        ("=mm.yaml", 2, "--workload =mm.yaml: expected CONFIG or KEY=CONFIG"),
        ("key=", 2, "--workload key=: expected CONFIG or KEY=CONFIG"),
        ("other=mm.yaml", 0, "note: --workload mm.yaml: no line has such a workload key"),
    ],
)
def test_an_option_that_names_nothing_is_said(
    cli: Cli, config: Path, hashed: Path, option: str, status: int, message: str
) -> None:
    done = cli("records", "info", "a.json", "--workload", option)
    assert done.status == status
    assert message in done.err


def test_two_computations_of_one_key(cli: Cli, config: Path, hashed: Path) -> None:
    done = cli("records", "info", "a.json", "--workload", "k=mm.yaml", "--workload", "k=mm.yaml")
    assert done.status == 2
    assert "--workload names k twice" in done.err


def test_a_known_key_needs_no_name(cli: Cli, config: Path, tmp_path: Path) -> None:
    write_log(tmp_path / "a.json", ["matmul", 16, 16, 16])
    done = cli("records", "info", "a.json", "--workload", "mm.yaml")
    assert "1 record of 1 task" in done.out
    assert "no line has such a workload key; it was not used" in done.err
