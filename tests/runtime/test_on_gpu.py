"""On the GPU of this machine: tuning, calling, replay and exported modules. Skipped where none is.

What the rest of the tests believe of drivers, they believe of the fake one (`fake_device.py`).
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.cli.doctor_cuda import diagnose
from autosched.driver import build_cuda
from autosched.errors import ConfigError, MeasureError
from autosched.measure.check import Seen
from autosched.measure.gpu_runner import GpuRunner
from autosched.state.steps import MatrixTilesStep
from autosched.target import Target, cuda_target
from autosched.task import Task
from autosched.te.intrin.registry import instruction
from autosched.te.operations.operation import ComputeOp

pytestmark = pytest.mark.gpu
SIZE = 128


@pytest.fixture(scope="module")
def target() -> Target:
    runner = GpuRunner(share=True)
    try:
        major, minor = runner.open()["capability"]
    except ConfigError as error:
        pytest.skip(f"no GPU to measure on: {error}")
    finally:
        runner.close()
    return cuda_target(f"sm_{major}{minor}")


@pytest.fixture(scope="module")
def records(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of eight trials of a float32 product."""
    path = tmp_path_factory.mktemp("gpu") / "mm.jsonl"
    task = Task.from_workload("matmul", M=SIZE, N=SIZE, K=SIZE, target=target)
    result = autosched.tune(task, trials=8, records=path)
    assert len(result.records) == 8
    assert not [r.result.failure for r in result.records if not r.result.valid]
    assert all(seconds > 0 for r in result.records for seconds in r.result.seconds)
    return path


def operands(dtype: str = "float32") -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.integers(-4, 5, (SIZE, SIZE)).astype(dtype) for _ in "ab"]


def command(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "autosched", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_doctor_finds_nothing_to_repair(target: Target) -> None:
    found = diagnose(target.arch)
    assert not found.failed and found.verdict == "can compile and measure"


def test_numpy_arrays(records: Path) -> None:
    a, b = operands()
    kernel = autosched.load_best(records)
    np.testing.assert_array_equal(kernel(a, b), a @ b)
    out = np.full((SIZE, SIZE), np.nan, np.float32)
    kernel(a, b, out=out)
    np.testing.assert_array_equal(out, a @ b)
    with pytest.raises(MeasureError, match="must have dtype float32, found float64"):
        kernel(a.astype("float64"), b)


def test_tensors_of_pytorch(records: Path) -> None:
    """Nothing is copied; the work goes to the stream that is named."""
    torch = pytest.importorskip("torch")
    a, b = operands()
    x, y = (torch.from_numpy(array).cuda() for array in (a, b))
    kernel = autosched.load_best(records)
    found = torch.from_dlpack(kernel(x, y))
    assert found.is_cuda
    np.testing.assert_array_equal(found.cpu().numpy(), a @ b)
    stream, z = torch.cuda.Stream(), torch.zeros_like(x)
    with torch.cuda.stream(stream):
        x.mul_(2)
        kernel(x, y, out=z, stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(z.cpu().numpy(), 2 * (a @ b))
    with pytest.raises(MeasureError, match="must be contiguous"):
        kernel(x.t(), y)


def test_arrays_of_cupy(records: Path) -> None:
    cupy = pytest.importorskip("cupy")
    a, b = operands()
    kernel = autosched.load_best(records)
    found = cupy.asarray(kernel(cupy.asarray(a), cupy.asarray(b)))
    np.testing.assert_array_equal(cupy.asnumpy(found), a @ b)


def test_bfloat16_tensors(target: Target, tmp_path: Path) -> None:
    """The type that only DLPack can say, on tensor cores where the GPU has them."""
    torch = pytest.importorskip("torch")
    args: dict[str, Any] = {
        "M": SIZE,
        "N": SIZE,
        "K": SIZE,
        "dtype": "bfloat16",
        "acc_dtype": "float32",
    }
    task = Task.from_workload("matmul", target=target, **args)
    result = autosched.tune(task, trials=8, records=tmp_path / "bf16.jsonl")
    assert not [r.result.failure for r in result.records if not r.result.valid]
    assert result.best is not None
    kernel = result.best.build()
    x, y = (torch.from_numpy(array).cuda().bfloat16() for array in operands())
    found = torch.from_dlpack(kernel(x, y))
    want = (x.float() @ y.float()).bfloat16()
    assert found.dtype is torch.bfloat16 and torch.equal(found, want)


@pytest.fixture(scope="module")
def runner(target: Target) -> Iterator[GpuRunner]:
    found = GpuRunner(share=True)
    yield found
    found.close()


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("columns", [64, 128, 192, 256])
@pytest.mark.parametrize("name", ["wgmma.m64k64.f16", "wgmma.m64k128.s8", "wgmma.m64k128.u8.s8"])
def test_products_of_warpgroups(
    target: Target, runner: GpuRunner, name: str, columns: int, stages: int
) -> None:
    if target.arch != "sm_90":
        pytest.skip(f"wgmma is of sm_90, found {target.arch}")
    step = instruction(name).extent("k")
    if stages * (128 + columns) * 128 > target.opt_in_shared_memory:
        pytest.skip("more shared memory than a block can have")
    left, right, total = (dtype.name for dtype in instruction(name).types)
    types = {"in_dtype": left, "weight_dtype": right, "acc_dtype": total, "out_dtype": total}
    args: dict[str, Any] = {"M": 200, "N": 520, "K": 333}
    task = Task.from_workload("matmul", target=target, **args, **types)
    place = [isinstance(op, ComputeOp) for op in task.dag.ops].index(True)
    sizes = (128, columns, step, 16, columns)
    steps = (MatrixTilesStep(place, place, name, sizes, stages, True),)
    artifact = build_cuda(task.dag, steps, target, task.function_name).to_bytes()
    runner.reference(task)
    assert isinstance(runner.check(task, artifact), Seen)


def test_replay(records: Path) -> None:
    assert "us" in command("replay", str(records), "--share")  # PyTorch may have the GPU, too


def test_exported_module(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command("build", str(records), "-o", str(tmp_path / "out"))
    monkeypatch.syspath_prepend(str(tmp_path / "out"))
    module = importlib.import_module("matmul")
    a, b = operands()
    np.testing.assert_array_equal(module.matmul(a, b), a @ b)
    torch = pytest.importorskip("torch")
    x, y = (torch.from_numpy(array).cuda() for array in (a, b))
    np.testing.assert_array_equal(torch.from_dlpack(module.matmul(x, y)).cpu().numpy(), a @ b)
