"""CUDA kernels as files, and the module that loads them without us."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autosched.errors import CompileError, MeasureError, ScheduleError
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.referee.check import Report, Verdict
from autosched.session import export as exporting
from autosched.session.export import ExportOptions, export
from autosched.state.steps import MatrixTilesStep, steps_from_json
from autosched.target import cuda_target
from autosched.task import Task
from kit.cuda_driver import FakeDriver
from kit.exporting import cuda_record

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("exported") / "out"
    export([cuda_record()], place, ExportOptions(archs=("sm_80", "sm_90")))
    return place


def loaded(folder: Path, name: str) -> ModuleType:
    """The exported module matmul.py, under another name."""
    found = ModuleType(name)
    found.__dict__["__file__"] = str(folder / "matmul.py")
    sys.modules[name] = found
    try:
        exec(compile((folder / "matmul.py").read_text(), "matmul.py", "exec"), found.__dict__)
    finally:
        del sys.modules[name]
    return found


def test_the_files(folder: Path) -> None:
    about = json.loads((folder / "matmul.json").read_text())
    entry = about["kernels"]["matmul"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(about["files"])
    assert "// grid (4, 1, 1), block (64, 1, 1)" in (folder / "matmul.cu").read_text()
    assert ".entry matmul_kernel" in (folder / "matmul.ptx").read_text()
    assert ".target sm_80" in (folder / "matmul.ptx").read_text()
    for arch in ("sm_80", "sm_90"):
        assert (folder / entry["cubins"][arch]).read_bytes().startswith(b"\x7fELF")
        assert entry["resources"][arch]["matmul_kernel"]["registers"] > 0
    (launch,) = entry["launches"]
    assert (launch["grid"], launch["block"]) == ([4, 1, 1], [64, 1, 1])
    assert [p["output"] for p in entry["parameters"]] == [False, False, True]
    assert entry["ptx"]["arch"] == "sm_80"
    assert entry["checked"] == "3 of 4 blocks, without a GPU"


def test_wgmma_has_no_text_for_other_gpus(tmp_path: Path) -> None:
    args: dict[str, Any] = {"M": 64, "N": 64, "K": 64, "dtype": "float16", "acc_dtype": "float32"}
    task = Task.from_workload("matmul", target=cuda_target("sm_90"), **args)
    sizes = (64, 64, 64, 16, 64)
    steps = (MatrixTilesStep(2, 3, "wgmma.m64k64.f16", sizes, 2, True),)
    record = Record(task.to_json(), steps, MeasureResult((1e-3,)))
    export([record], tmp_path / "out", ExportOptions(archs=("sm_90",)))
    entry = json.loads((tmp_path / "out" / "matmul.json").read_text())["kernels"]["matmul"]
    assert entry["ptx"] is None and list(entry["cubins"]) == ["sm_90"]
    assert not list((tmp_path / "out").glob("*.ptx"))
    module = loaded(tmp_path / "out", "of_wgmma")
    assert module.load("matmul", FakeDriver({})).program.ptx is None
    with pytest.raises(
        CompileError, match="wgmma, which sm_90 alone has; it is compiled for sm_80"
    ):
        export([record], tmp_path / "other", ExportOptions(archs=("sm_80",)))


def test_every_architecture_has_what_a_kernel_takes(tmp_path: Path) -> None:
    """The first one was asked for the shared memory alone: the cubin of the other never ran."""
    task = Task.from_expression(
        "C[i] = sum(k, A[k] * B[i])", {"A": [30000], "B": [64]}, target=cuda_target("sm_90")
    )
    steps = [
        ["CHR", 0, "shared", [2]], ["SP", 3, 0, 64, [64], 1], ["AN", 3, 0, 5], ["AN", 3, 1, 6],
        ["CA", 1, 3, 1], ["SP", 1, 0, 30000, [64], 1], ["AN", 1, 1, 6],
    ]  # fmt: skip
    export_to = ExportOptions(archs=("sm_90", "sm_86"), check=False)
    taken = Record(task.to_json(), steps_from_json(steps), MeasureResult((1e-3,)))
    with pytest.raises(ScheduleError, match=r"\* B\[i\]\) for sm_86: .*at most 101376 are allowed"):
        export([taken], tmp_path / "out", export_to)
    assert not list(tmp_path.iterdir())
    export([taken], tmp_path / "out", ExportOptions(archs=("sm_90",), check=False))


def test_a_variant_of_an_architecture_is_the_architecture(tmp_path: Path) -> None:
    export([cuda_record()], tmp_path / "out", ExportOptions(archs=("sm_90a", "sm_90", "sm_100f")))
    entry = json.loads((tmp_path / "out" / "matmul.json").read_text())["kernels"]["matmul"]
    assert list(entry["cubins"]) == ["sm_90", "sm_100"]
    assert entry["ptx"] == {"arch": "sm_90", "file": "matmul.ptx"}


@pytest.mark.parametrize("verdict", [Verdict.WRONG, Verdict.FAULT, Verdict.UNCHECKED])
def test_a_kernel_that_is_wrong_is_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: Verdict
) -> None:
    report = Report(verdict, "all blocks", 0.1, "some words")
    monkeypatch.setattr(exporting, "check_candidate", lambda task, steps: report)
    if verdict is Verdict.UNCHECKED:
        done = export([cuda_record()], tmp_path / "out")
        assert done.notes == ("matmul(M=16, N=16, K=16) was not compared with NumPy: some words",)
        return
    says = rf"is wrong and is not exported: {verdict.value} \(all blocks, 0.1 s\): some words"
    with pytest.raises(MeasureError, match=says):
        export([cuda_record()], tmp_path / "out")
    assert not list(tmp_path.iterdir())
    export([cuda_record()], tmp_path / "out", ExportOptions(check=False))


def test_the_module_runs_the_kernel(folder: Path) -> None:
    found = loaded(folder, "matmul_exported")

    def multiply(a: Array, b: Array, c: Array) -> None:
        c[:256] = (a[:256].reshape(16, 16) @ b[:256].reshape(16, 16)).reshape(-1)

    driver = FakeDriver({"matmul_kernel": multiply}, (8, 6))
    kernel = found.load("matmul", driver)
    a, b = np.random.default_rng(0).random((2, 16, 16), np.float32)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-6)
    assert ("load", "a cubin") in driver.log
    with pytest.raises(ValueError, match=r"matmul: argument 1 \(A\) must have shape \(16, 16\)"):
        kernel(a[:8], b)
    with pytest.raises(ValueError, match=r"no kernel 'nope' in matmul_exported; it has matmul$"):
        found.load("nope", driver)


def test_files_that_do_not_belong_together(folder: Path, tmp_path: Path) -> None:
    """The launches of one build and the code of another computed something else."""
    place = shutil.copytree(folder, tmp_path / "out")
    found = loaded(place, "matmul_of_two_builds")
    cubin = place / "matmul.sm_80.cubin"
    cubin.write_bytes(cubin.read_bytes() + b"more")
    with pytest.raises(
        ImportError, match=r"sm_80.cubin does not belong to matmul.json; export it aga"
    ):
        found.load("matmul", FakeDriver({}))
    shutil.copy(folder / cubin.name, cubin)
    (place / "matmul.ptx").write_text("other")
    with pytest.raises(
        ImportError, match=r"matmul.ptx does not belong to matmul.json; export it again"
    ):
        found.load("matmul", FakeDriver({}))
    (place / "matmul.ptx").unlink()
    with pytest.raises(
        ImportError, match=r"matmul.ptx cannot be read: .*; export it again, or copy"
    ):
        found.load("matmul", FakeDriver({}))
    (place / "matmul.json").write_text("{}")
    with pytest.raises(ImportError, match=r"matmul.json does not describe the kernels: KeyError"):
        found.names()


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="this machine has a driver")
def test_numpy_is_all_that_importing_needs(folder: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import matmul\n"
        "assert not {'autosched', 'llvmlite', 'ml_dtypes', 'pycuda'} & set(sys.modules)\n"
        "print(matmul.names(), 'matmul' in dir(matmul))\n"
        "try: matmul.matmul\n"
        "except OSError as error: print(error)\n"
        "try: matmul.other\n"
        "except AttributeError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, str(folder)], capture_output=True, text=True
    )
    first, second, third = done.stdout.splitlines()
    assert first == "['matmul'] True"
    assert "libcuda.so.1" in second and "install the driver" in second
    assert third == "module 'matmul' has no attribute 'other'"
