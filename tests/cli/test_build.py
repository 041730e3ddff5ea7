"""`autosched build`: from record files to a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosched.cli.build import sizes
from autosched.errors import ConfigError
from autosched.export import cpu as exporting
from autosched.measure.record_log import RecordLog
from autosched.measure.records import read_log
from kit.cli import Cli
from kit.exporting import cuda_record, matmul, record, tiled
from kit.records import piped


@pytest.fixture(autouse=True)
def nothing_is_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "linker", lambda: None)


def test_the_best_of_each_task_of_several_files(cli: Cli, tmp_path: Path) -> None:
    RecordLog("a.jsonl").append([record(matmul(8), tiled(8), checked=False), record(matmul(9))])
    RecordLog("b.jsonl").append([record(matmul(8))])
    done = cli("build", "a.jsonl", "b.jsonl", "-o", "out", "--json")
    assert done.status == 0, done.err
    shown = json.loads(done.out)
    assert shown["folder"] == "out"
    assert {"matmul.h", "matmul.py", "matmul.records.jsonl"} <= set(shown["files"])
    about = json.loads((tmp_path / "out" / "matmul.json").read_text())
    assert list(about["kernels"]) == ["matmul_8x32x16", "matmul_9x32x16"]
    assert "note: matmul(M=8, N=32, K=16): this record was never compared with NumPy" in done.err
    assert "note: no C compiler was found" in done.err
    kept = read_log(tmp_path / "out" / "matmul.records.jsonl")
    assert [r.steps for r in kept.records] == [tiled(8), ()]
    assert len(kept.environments) == 1


def test_records_of_a_pipe_keep_their_machine(cli: Cli, tmp_path: Path) -> None:
    RecordLog("a.jsonl").append([record(matmul(8))])
    with piped(tmp_path / "a.jsonl") as path:
        assert cli("build", path, "-o", "out").status == 0
    kept = read_log(tmp_path / "out" / "matmul.records.jsonl")
    assert kept.environments == read_log("a.jsonl").environments != {}


def test_one_record_by_its_number_and_other_shapes(cli: Cli, tmp_path: Path) -> None:
    RecordLog("a.jsonl").append([record(matmul(8)), record(matmul(9))])
    done = cli("build", "a.jsonl", "-o", "out", "--index", 1, "--dispatch", "--also", "M=5,N=3")
    assert done.status == 0, done.err
    about = json.loads((tmp_path / "out" / "matmul.json").read_text())
    assert about["dispatch"] == {"matmul": ["matmul_9x32x16", "matmul_5x3x16"]}
    assert about["kernels"]["matmul_5x3x16"]["steps_tuned_for"] == "matmul(M=9, N=32, K=16)"


def test_cuda(cli: Cli, tmp_path: Path) -> None:
    RecordLog("a.jsonl").append([cuda_record()])
    done = cli("build", "a.jsonl", "-o", "out", "--name", "mine")
    assert done.status == 0, done.err
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {
        *("matmul.cu", "matmul.ptx", "matmul.sm_90.cubin"),
        *("mine.json", "mine.py", "mine.records.jsonl"),
    }


def test_what_is_refused_is_status_2(cli: Cli) -> None:
    RecordLog("a.jsonl").append([record(matmul(8)), cuda_record()])
    done = cli("build", "a.jsonl", "-o", "out")
    assert done.status == 2
    assert "error: the records are for the CPU and for CUDA; build them apart" in done.err
    assert not Path("out").exists()


def test_sizes() -> None:
    assert sizes("M=100, N=64") == {"M": 100, "N": 64}
    for wrong in ("", "M", "M=", "M=x", "M=1,,N=2", "1=2"):
        with pytest.raises(ConfigError, match="expected sizes such as M=100,N=64"):
            sizes(wrong)
    with pytest.raises(ConfigError, match="--also M=3,M=4: M is given twice; repeat --also"):
        sizes("M=3,M=4")
