"""`autosched show --as cuda, ptx, asm`: what is compiled, and what comes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autosched.cli import gpu_code
from autosched.codegen import nvrtc as nvrtc_module
from autosched.driver import build_cuda
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.state.steps import steps_from_json
from autosched.target import cuda_target
from autosched.task import Task
from kit.cli import Cli
from kit.golden_lines import golden_candidates


@pytest.fixture(scope="module")
def candidate() -> tuple[Task, list[Any]]:
    """A golden CUDA candidate of add_relu: its task for sm_90, and its steps as JSON."""
    found = golden_candidates("ansor_v06.jsonl.gz", target="cuda")
    line = next(line for line in found if line["workload"] == "add_relu")
    task = Task.from_workload("add_relu", target=cuda_target("sm_90"), **line["args"])
    return task, line["steps"]


@pytest.fixture
def files(tmp_path: Path, candidate: tuple[Task, list[Any]]) -> None:
    """Of that candidate: gpu.jsonl, ours, for sm_90; ansor.json, which names no architecture."""
    task, steps = candidate
    made = Record(task.to_json(), steps_from_json(steps), MeasureResult((1e-3,), None))
    RecordLog(tmp_path / "gpu.jsonl").append([made])
    sizes = task.workload.to_json()["args"]
    key = json.dumps(["add_relu", sizes["M"], sizes["N"]])
    hardware = task.target.hardware.as_list()
    inputs = [[key, "cuda -keys=cuda,gpu", hardware, "", 1, []], [[], steps]]
    line = {"i": inputs, "r": [[1e-3], 0, 1, 1700000000], "v": "v0.6"}
    (tmp_path / "ansor.json").write_text(json.dumps(line) + "\n")


@pytest.fixture
def without_nvdisasm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_code, "find_nvdisasm", lambda *_: None)


@pytest.mark.usefixtures("files")
def test_cuda_is_what_is_compiled(cli: Cli, candidate: tuple[Task, list[Any]]) -> None:
    task, steps = candidate
    built = build_cuda(task.dag, steps_from_json(steps), task.target, "add_relu")
    for name in ("gpu.jsonl", "ansor.json"):
        done = cli("show", name, "--as", "cuda")
        assert (done.status, done.out, done.err) == (0, built.source, "")
    assert "add_relu_kernel(" in built.source


@pytest.mark.usefixtures("files")
def test_ptx_is_for_the_records_architecture_or_the_one_given(cli: Cli) -> None:
    assert ".target sm_90" in cli("show", "gpu.jsonl", "--as", "ptx").out
    assert ".target sm_80" in cli("show", "gpu.jsonl", "--as", "ptx", "--arch", "sm_80").out
    done = cli("show", "ansor.json", "--as", "ptx")
    assert ".target sm_80" in done.out
    assert done.err == (
        "note: the record names no architecture; compiled for sm_80 (--arch chooses another)\n"
    )
    assert cli("show", "ansor.json", "--as", "ptx", "--arch", "sm_80").err == ""


@pytest.mark.usefixtures("files")
def test_an_architecture_that_nvrtc_does_not_know_runs_an_older_ones_code(cli: Cli) -> None:
    done = cli("show", "gpu.jsonl", "--as", "ptx", "--arch", "sm_81")
    assert ".target sm_80" in done.out
    assert "note: compiled for sm_80, which sm_81 can run" in done.err


@pytest.mark.usefixtures("files", "without_nvdisasm")
def test_without_nvdisasm_asm_is_ptx_and_says_so(cli: Cli) -> None:
    done = cli("show", "gpu.jsonl", "--as", "asm")
    first, rest = done.out.split("\n", 1)
    assert first.startswith("// PTX: nvdisasm, which shows machine code, was not found (pip inst")
    assert rest == cli("show", "gpu.jsonl", "--as", "ptx").out


@pytest.mark.usefixtures("files")
def test_asm_is_nvdisasms(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvdisasm"
    program.write_text('#!/bin/sh\necho "$1 $2"; head -c 4 "$3" | tr -d "\\177"\n')
    program.chmod(0o755)
    monkeypatch.setattr(gpu_code, "find_nvdisasm", lambda *_: str(program))
    assert cli("show", "gpu.jsonl", "--as", "asm").out == "-c -plr\nELF\n"
    program.write_text("#!/bin/sh\necho too old >&2; exit 3\n")
    done = cli("show", "gpu.jsonl", "--as", "asm")
    assert done.status == 3
    assert "nvdisasm ended with status 3: too old\n--as ptx needs no nvdisasm" in done.err


@pytest.mark.usefixtures("files")
def test_without_nvrtc_the_source_is_shown_and_the_rest_says_what_to_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvrtc_module, "candidates", lambda *_: ("/nowhere/libnvrtc.so",))
    assert cli("show", "ansor.json", "--as", "cuda").status == 0
    for form in ("ptx", "asm"):
        done = cli("show", "ansor.json", "--as", form)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith("error: NVRTC, which compiles CUDA C, was not found: install ")
        assert done.err.endswith("--as cuda shows the source, and needs no NVRTC\n")


@pytest.mark.usefixtures("files", "log")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("gpu.jsonl", "--as", "llvm"), "llvm is a form of CPU candidates; add_relu("),
        (("mm.jsonl", "--as", "cuda"), "cuda and ptx are forms of CUDA candidates; matmul(M=16,"),
        (("mm.jsonl", "--as", "ptx"), "was recorded for the CPU: --as llvm or asm"),
        (("mm.jsonl", "--as", "asm", "--arch", "sm_80"), "--arch is for CUDA candidates; matmul("),
        (
            ("gpu.jsonl", "--as", "tir", "--arch", "sm_80"),
            "--as tir does not depend on it; cuda, ptx, asm do",
        ),
        (("gpu.jsonl", "--as", "cuda", "--arch", "90"), "found '90', expected sm_ and a number"),
        (("gpu.jsonl", "--as", "ptx", "--arch", "sm_35"), "makes no code for sm_35, only for sm_"),
    ],
)
def test_what_there_is_not_is_said(cli: Cli, args: tuple[str, ...], message: str) -> None:
    done = cli("show", *args)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


@pytest.mark.usefixtures("files", "without_nvdisasm")
def test_two_tasks_have_their_names_in_comments(cli: Cli, tmp_path: Path, log: Path) -> None:
    both = tmp_path / "both.jsonl"
    both.write_bytes(log.read_bytes() + (tmp_path / "gpu.jsonl").read_bytes())
    done = cli("show", both, "--as", "asm")
    assert done.out.startswith("# matmul(M=16, N=16, K=16) on cpu, 1 ms\n")
    assert "\n// add_relu(M=1024, N=768) on cuda, 1 ms\n// PTX" in done.out
