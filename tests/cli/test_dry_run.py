"""`autosched tune --dry-run`: what is sampled, and why candidates are refused."""

import json
import platform
import re
from pathlib import Path

import pytest

from autosched.cli import dry_run
from autosched.cli.dry_run import DryRun
from autosched.task import Task
from kit.cli import Cli

SMALL = "workload: {op: matmul, args: {M: 16, N: 16, K: 16}}\ntarget: {kind: cuda"

RULE = """
from autosched.search.rules.protocol import Decision, FunctionRule

mine = FunctionRule(
    "Mine",
    lambda c, s, i: Decision.APPLY_AND_SKIP_REST if s.stages[i].name == "C" else Decision.SKIP,
    lambda c, s, i: [(s.parallel(i, s.stages[i].iters[2])[0], i - 1)],
)
"""


def test_reasons_are_counted_whatever_their_numbers(task: Task) -> None:
    refused = ["2048 threads, at most 1024", "9 bytes", "1568 threads, at most 1024"]
    run = DryRun(task, [], [], refused)
    assert run.reasons() == [(2, "2048 threads, at most 1024"), (1, "9 bytes")]
    assert run.sampled == 3


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six candidates instead of 32."""
    monkeypatch.setattr(dry_run, "_SAMPLES", 6)


@pytest.fixture
def no_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_NVRTC", "/nowhere/libnvrtc.so")


@pytest.fixture
def strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A configuration whose GPU has room for no candidate: it is looked for once."""
    monkeypatch.setattr("autosched.search.thread_tiles._ROUNDS", 1)
    text = f"{SMALL}, hardware: {{max_shared_memory_per_block: 1}}}}\n"
    (tmp_path / "strict.yaml").write_text(text)
    return "strict.yaml"


def test_nothing_legal_is_status_3(cli: Cli, strict: str) -> None:
    done = cli("tune", strict, "--dry-run")
    assert done.status == 3
    assert "2 sketches\n" in done.out
    assert "0 lowered, verified and featurised, 6 refused" in done.out
    assert "    6 refused, for example: VerifyGPUCode" in done.out


def test_why_nothing_could_be_drawn(cli: Cli, tmp_path: Path) -> None:
    """`tune` says that a dry run tells; it told that 0 candidates were sampled."""
    (tmp_path / "mine.py").write_text(RULE)
    (tmp_path / "mine.yaml").write_text(
        "workload: {op: matmul, args: {M: 16, N: 16, K: 16}}\n"
        'search: {sketch_rules: ["mine.py:mine"]}\n'
    )
    done = cli("tune", "mine.yaml", "--dry-run")
    assert done.status == 3
    assert "6 candidates sampled: 0 lowered, verified and featurised, 6 refused" in done.out
    assert "    6 refused, for example: a parallel loop stands inside another one" in done.out


def test_json_of_several_with_what_their_kernels_use(cli: Cli, tmp_path: Path, strict: str) -> None:
    (tmp_path / "free.yaml").write_text(f"{SMALL}}}\n")
    done = cli("tune", "free.yaml", strict, "--dry-run", "--json")
    assert done.status == 3  # one of them has no candidate
    free, none = json.loads(done.out)["tasks"]
    assert len(free["sketches"]) == 2 and "C.local" in free["sketches"][0]
    assert free["sampled"] == len(free["legal"]) + sum(r["count"] for r in free["refused"])
    assert none["legal"] == [] and none["refused"][0]["count"] == 6
    assert done.err == ""
    assert none["cuda"]["kernels"] == []
    assert len(free["cuda"]["kernels"]) == len(free["legal"]) == 6
    assert re.fullmatch(r"NVRTC \d+\.\d+ for sm_80", free["cuda"]["compiler"])
    for ((kernel,),) in zip(free["cuda"]["kernels"], strict=True):
        assert kernel["name"] == "matmul_kernel"
        assert 8 < kernel["registers"] < 256
        assert kernel["shared"] > 0


def test_what_compiled_is_summed_up_and_nothing_is_recorded(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "free.yaml").write_text(f"{SMALL}}}\n")
    done = cli("tune", "free.yaml", "--dry-run")
    assert (done.status, done.err) == (0, "")
    words = r"6 compiled by NVRTC [\d.]+ for sm_80, 0 failed\n    registers a thread: \d+ to \d+, m"
    assert re.search(words, done.out)
    assert re.search(
        r"candidates that spill: \d.*; that use the stack: \d\nnothing was m", done.out
    )
    assert re.search(
        r"\n# matmul_kernel grid \(\d+, 1, 1\), block \(\d+, 1, 1\), \d+ reg", done.out
    )
    assert [path.name for path in tmp_path.iterdir()] == ["free.yaml"]


@pytest.mark.usefixtures("no_nvrtc")
def test_trials_are_how_many_are_sampled(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "free.yaml").write_text(f"{SMALL}}}\n")
    done = cli("tune", "free.yaml", "--dry-run", "--trials", 3)
    assert "\n3 candidates sampled: 3 lowered" in done.out


def test_what_does_not_compile_has_its_reason(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "hasty.yaml").write_text(f"{SMALL}}}\nmeasure: {{build_timeout_s: 0.000001}}\n")
    done = cli("tune", "hasty.yaml", "--dry-run")
    assert done.status == 3
    assert "\n0 compiled by NVRTC" in done.out
    assert "\n    6 failed, for example: not built within 1e-06 s (measure.build_time" in done.out


@pytest.mark.usefixtures("no_nvrtc")
def test_without_nvrtc_the_rest_is_shown(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "free.yaml").write_text(f"{SMALL}}}\n")
    done = cli("tune", "free.yaml", "--dry-run")
    assert done.status == 0
    assert "6 lowered, verified and featurised, 0 refused\nnot compiled: NVRTC, which" in done.out
    assert "# candidate 0: " in done.out


@pytest.mark.skipif(platform.machine() != "x86_64", reason="these are CPUs of x86-64")
def test_the_search_for_a_cpu_that_is_not_this_one(cli: Cli) -> None:
    small = ["matmul", "M=64", "N=64", "K=64", "in_dtype=int8", "acc_dtype=int32"]
    done = cli("tune", *small, "--dry-run", "--set", "target.cpu=sapphirerapids")
    assert "on cpu (sapphirerapids, " in done.out
    assert "tensorize mt" in done.out  # tiles of AMX
    done = cli("tune", *small, "--dry-run", "--set", "target.cpu=nehalem")
    assert ("128-bit vectors" in done.out, "tensorize mt" in done.out) == (True, False)
    done = cli("tune", *small, "--set", "target.cpu=none")
    assert done.status == 2
    assert done.err.startswith("error: --set target.cpu=none: target.cpu: LLVM makes no code for")
