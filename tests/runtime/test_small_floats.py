"""Functions of bfloat16 and 8-bit floats, from an expression to arrays of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.codegen.nvrtc import load_nvrtc
from autosched.driver import build, build_host, lower, lower_to_kernels
from autosched.errors import MeasureError
from autosched.runtime.cpu import CpuKernel, load
from autosched.runtime.cuda_artifact import cuda_artifact
from autosched.runtime.host import load_host
from autosched.target import cpu_target, cuda_target
from autosched.te.operations.tensor import Tensor
from autosched.tir.dtype import DType
from autosched.tir.function import IRModule
from autosched.tir.walk import all_exprs
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import HOST_PIPELINE
from kit.te import compute_of

TYPES = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]


def dot(dtype: str) -> tuple[list[Tensor], Tensor]:
    """C[i, j] = the sum over k of A[i, k] * B[k, j], in float32, plus C's own rounding."""
    A, B = te.placeholder((12, 20), dtype, name="A"), te.placeholder((20, 40), dtype, name="B")
    k = te.reduce_axis((0, 20), name="k")
    S = te.compute(
        (12, 40),
        lambda i, j: te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k),
        name="S",
    )
    C = te.compute((12, 40), lambda i, j: (S[i, j] * 0.37).astype(dtype), name="C")
    return [A, B, C], S


def kernel_of(dtype: str) -> CpuKernel:
    args, _ = dot(dtype)
    return load(build(te.create_schedule(args[-1].op), args, cpu_target(1)))


@pytest.mark.parametrize("dtype", TYPES)
def test_a_matmul(dtype: str) -> None:
    """Sums of small integers are exact; what is stored is rounded once, infinities included."""
    kind = DType(dtype).numpy
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(kind) for shape in ((12, 20), (20, 40)))
    a[0, 0], b[0, 0], a[1, 1] = np.inf, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        exact = a.astype(np.float32) @ b.astype(np.float32)
        wanted = (exact * np.float32(0.37)).astype(kind)
    kernel, found = kernel_of(dtype), np.zeros((12, 40), kind)
    kernel(a, b, found)
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))
    bits = f"uint{DType(dtype).bits}"
    again = np.zeros((12, 40), bits)
    kernel(a.view(bits), b.view(bits), again)
    assert (again == found.view(bits)).all()


def test_arrays_of_another_type_are_refused() -> None:
    kernel = kernel_of("float8_e5m2")
    kind = DType("float8_e5m2").numpy
    b, c = np.zeros((20, 40), kind), np.zeros((12, 40), kind)
    for wrong in (np.float16, np.int8, DType("float8_e4m3fn").numpy):
        with pytest.raises(MeasureError, match="must have dtype float8_e5m2, found ") as caught:
            kernel(np.zeros((12, 20), wrong), b, c)
        assert "convert it with .astype(ml_dtypes.float8_e5m2), or pass its bits as uint8" in str(
            caught.value
        )


@pytest.mark.parametrize("dtype", TYPES)
def test_a_host_function_checks_the_type_itself(dtype: str) -> None:
    """After MakePackedAPI no trace of the type is left but in its check."""
    args, _ = dot(dtype)
    func = lower(te.create_schedule(args[-1].op), args, cpu_target(1))
    host = Sequential(HOST_PIPELINE)(func)
    assert not any(e.dtype.is_storage_float for e in all_exprs(host.body))
    module = load_host(build_host(IRModule({"main": func}), cpu_target(1)))
    kind = DType(dtype).numpy
    a, b, c = (np.ones(shape, kind) for shape in ((12, 20), (20, 40), (12, 40)))
    module(a, b, c)
    assert (c == (np.float32(20) * np.float32(0.37)).astype(kind)).all()
    with pytest.raises(MeasureError, match=rf"A.*dtype is expected to be {dtype}"):
        module(a.view(f"uint{DType(dtype).bits}"), b, c)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_cuda_code_of_a_matmul_compiles(dtype: str) -> None:
    """Inputs are staged in shared memory as they are: in the bytes that the limits know."""
    args, S = dot(dtype)
    sch = te.create_schedule(args[-1].op)
    i, j = compute_of(args[-1]).axis
    sch[args[-1]].bind(i, te.thread_axis("blockIdx.x"))
    sch[args[-1]].bind(j, te.thread_axis("threadIdx.x"))
    staged = sch.cache_read(args[0], "shared", [S])
    sch[S].compute_at(sch[args[-1]], j)
    sch[staged].compute_at(sch[args[-1]], i)
    source = cuda_artifact(
        lower_to_kernels(lower(sch, args, cuda_target(), "matmul")), "matmul"
    ).source
    assert f"{20 * DType(dtype).bytes} bytes shared (static)" in source
    for arch in ("sm_75", "sm_90"):
        load_nvrtc(arch).compile(source, arch)
