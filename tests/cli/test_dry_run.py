"""`autosched tune --dry-run`: what is sampled, and why candidates are refused."""

import json
from pathlib import Path

import pytest

from autosched.cli.dry_run import DryRun
from autosched.task import Task
from kit.cli import Cli

SMALL = "workload: {op: matmul, args: {M: 16, N: 16, K: 16}}\ntarget: {kind: cuda"


def test_reasons_are_counted_whatever_their_numbers(task: Task) -> None:
    refused = ["2048 threads, at most 1024", "9 bytes", "1568 threads, at most 1024"]
    run = DryRun(task, [], [], refused)
    assert run.reasons() == [(2, "2048 threads, at most 1024"), (1, "9 bytes")]
    assert run.sampled == 3


@pytest.fixture
def strict(tmp_path: Path) -> str:
    """A configuration whose GPU has room for no candidate."""
    text = f"{SMALL}, hardware: {{max_shared_memory_per_block: 1}}}}\n"
    (tmp_path / "strict.yaml").write_text(text)
    return "strict.yaml"


def test_nothing_legal_is_status_3(cli: Cli, strict: str) -> None:
    done = cli("tune", strict, "--dry-run")
    assert done.status == 3
    assert "1 sketch\n" in done.out
    assert "0 lowered, verified and featurised, 32 refused" in done.out
    assert "    32 refused, for example: VerifyGPUCode" in done.out


def test_json_of_several(cli: Cli, tmp_path: Path, strict: str) -> None:
    (tmp_path / "free.yaml").write_text(f"{SMALL}}}\n")
    done = cli("tune", "free.yaml", strict, "--dry-run", "--json")
    assert done.status == 3  # one of them has no candidate
    free, none = json.loads(done.out)["tasks"]
    assert len(free["sketches"]) == 1 and "C.local" in free["sketches"][0]
    assert free["sampled"] == len(free["legal"]) + sum(r["count"] for r in free["refused"])
    assert none["legal"] == [] and none["refused"][0]["count"] == 32
    assert done.err == ""
