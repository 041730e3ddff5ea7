"""Fixed-point numbers against exact arithmetic: every pair of 8 bits, and whole programs."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.codegen.nvrtc import load_nvrtc
from autosched.driver import build, lower, lower_to_kernels
from autosched.errors import ConfigError
from autosched.runtime.cpu import build_artifact, load
from autosched.runtime.cuda_artifact import cuda_artifact
from autosched.target import cpu_target, cuda_target
from autosched.tir import interp, op
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, IntImm, Ramp
from autosched.tir.stmt import BufferStore, seq
from autosched.transform.low_precision.fixed_point import fixed_to_float, register_fixed_point
from autosched.transform.low_precision.lower_custom_datatypes import LowerCustomDatatypes
from kit.stmts import func_of
from kit.te import compute_of
from kit.types import Array

FIXED8, FIXED16 = "custom[fixed]8", "custom[fixed]16"


@pytest.fixture(autouse=True)
def _registered() -> None:
    register_fixed_point()


def wrapped(steps: Array, bits: int) -> Array:
    return steps.astype(np.int64).astype(f"int{bits}").view(f"uint{bits}")


def test_every_pair_of_8_bits() -> None:
    """Steps of 1/16: sums and differences wrap, products round halves up, quotients toward zero."""
    a, b = (x.reshape(-1).astype(np.uint8) for x in np.meshgrid(np.arange(256), np.arange(256)))
    n, lanes = len(a), (Ramp(IntImm(0), IntImm(1), 65536),)
    names = ["A", "B", "sum", "difference", "product", "quotient", "rest", "less", "most", "least"]
    buffers = [decl_buffer((n,), "bool" if k == "less" else FIXED8, k) for k in names]
    x, y = (BufferLoad(buffer, lanes) for buffer in buffers[:2])
    rest, less = op.truncmod(x, y), op.lt(x, y)
    values = [x + y, x - y, x * y, op.div(x, y), rest, less, op.max_(x, y), op.min_(x, y)]
    stores = [BufferStore(t, v, lanes) for t, v in zip(buffers[2:], values, strict=True)]
    func = LowerCustomDatatypes("cpu")(func_of(seq(*stores), *buffers))
    found: dict[str, Array] = {
        k: np.zeros(n, np.bool_ if k == "less" else np.uint8) for k in names[2:]
    }
    interp.run(func, [a, b, *found.values()])
    i, j = (v.view(np.int8).astype(np.int64) for v in (a, b))
    some = np.where(j == 0, 1, j)
    quotient = np.where(j == 0, 0, np.trunc(16 * i / some))
    wanted = {
        "sum": wrapped(i + j, 8),
        "difference": wrapped(i - j, 8),
        "product": wrapped(np.floor(i * j / 16 + 0.5), 8),
        "quotient": wrapped(quotient, 8),
        "rest": wrapped(np.where(j == 0, 0, np.fmod(i, some)), 8),
        "less": i < j,
        "most": wrapped(np.maximum(i, j), 8),
        "least": wrapped(np.minimum(i, j), 8),
    }
    for name, values_of in wanted.items():
        np.testing.assert_array_equal(found[name], values_of, err_msg=name)


def test_floats_and_back() -> None:
    """To the nearest step, ties to even; the last number beyond the range; NaN is 0."""
    values = np.array([0.5, -3.25, 1 / 512, 3 / 512, 200, -np.inf, np.nan, -0.0], np.float32)
    F, P, back = (decl_buffer((8,), t, k) for k, t in zip("FPG", ("float32", FIXED16, "float32")))
    lanes = (Ramp(IntImm(0), IntImm(1), 8),)
    stored = op.cast(DType(FIXED16).with_lanes(8), BufferLoad(F, lanes))
    body = seq(
        BufferStore(P, stored, lanes),
        BufferStore(back, op.cast("float32x8", BufferLoad(P, lanes)), lanes),
    )
    func = LowerCustomDatatypes("cpu")(func_of(body, F, P, back))
    bits, floats = np.zeros(8, np.uint16), np.zeros(8, np.float32)
    interp.run(func, [values, bits, floats])
    assert bits.view(np.int16).tolist() == [128, -832, 0, 2, 32767, -32768, 0, 0]
    assert floats.tolist() == fixed_to_float(bits).tolist()
    assert floats[4] == 128 - 1 / 256


def matmul() -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Tensor]:
    A, B = te.placeholder((12, 20), FIXED16, name="A"), te.placeholder((20, 40), FIXED16, name="B")
    k = te.reduce_axis((0, 20), name="k")
    C = te.compute((12, 40), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((12, 40), lambda i, j: te.max(C[i, j] + 0.5, te.const(0.25, FIXED16)), name="D")
    return A, B, C, D


def test_a_program_from_te_to_arrays() -> None:
    """Compiled, with vectors and accumulators in registers, and interpreted: the same bits."""
    A, B, _, D = matmul()
    func = lower(te.create_schedule(D.op), [A, B, D], cpu_target(1))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-300, 300, s).astype(np.int16) for s in ((12, 20), (20, 40)))
    products = (a[:, :, None].astype(np.int64) * b + 128) >> 8
    wanted = wrapped(np.maximum(products.sum(1) + 128, 64), 16)
    compiled, run = (np.zeros((12, 40), np.uint16) for _ in range(2))
    load(build(te.create_schedule(D.op), [A, B, D], cpu_target(1)))(
        a.view(np.uint16), b.view(np.uint16), compiled
    )
    np.testing.assert_array_equal(compiled, wanted)
    interp.run(func, [a.view(np.uint16), b.view(np.uint16), run])
    np.testing.assert_array_equal(run, wanted)
    load(build_artifact(func, cpu_target(1)))


def test_its_cuda_code_compiles() -> None:
    A, B, C, D = matmul()
    sch = te.create_schedule(D.op)
    i, j = compute_of(D).axis
    sch[D].bind(i, te.thread_axis("blockIdx.x"))
    sch[D].bind(j, te.thread_axis("threadIdx.x"))
    sch[C].compute_at(sch[D], j)
    module = lower_to_kernels(lower(sch, [A, B, D], cuda_target(), "matmul"))
    source = cuda_artifact(module, "matmul").source
    assert "const unsigned short* __restrict__ A" in source
    load_nvrtc("sm_80").compile(source, "sm_80")


def test_products_of_64_bits_are_refused() -> None:
    A = te.placeholder((4,), "custom[fixed]64", name="A")
    B = te.compute((4,), lambda i: A[i] * A[i], name="B")
    with pytest.raises(ConfigError, match="products and quotients of 64 bits need more than 64"):
        lower(te.create_schedule(B.op), [A, B], cpu_target(1))
