"""What is read across rows is loaded along them and transposed in registers."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.driver import build
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.tir import interp, op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Expr, IntImm, Ramp, Shuffle, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, ForKind
from autosched.tir.walk import all_exprs
from autosched.transform.vector.transpose_gathers import LEAST_PARALLEL, TransposeGathers
from kit.stmts import func_of, loop
from kit.tir import value_of

I, J = Var("i"), Var("j")
ROW = 40


def vector(base: Expr | int, stride: int, lanes: int) -> Ramp:
    return Ramp(op.as_expr(base), IntImm(stride), lanes)


def agree(func: PrimFunc, new: PrimFunc) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 99, value_of(b.shape[0])).astype(b.dtype.numpy) for b in func.buffers]
    other = [a.copy() for a in arrays]
    interp.run(func, arrays)
    interp.run(new, other)
    for x, y in zip(arrays, other, strict=True):
        np.testing.assert_array_equal(x, y)


def transposition(
    extent: int, lanes: int, dtype: str = "float32", kind: ForKind = ForKind.SERIAL
) -> PrimFunc:
    """B[i, j, lane] = A[j, lane, i] + 1 for two vectors j."""
    a = decl_buffer((2 * lanes * ROW,), DType(dtype), name="A")
    b = decl_buffer((extent * 2 * lanes,), DType(dtype), name="B")
    read = BufferLoad(a, (vector(J * lanes * ROW + I, ROW, lanes),))
    store = BufferStore(b, read + 1, (vector((I * 2 + J) * lanes, 1, lanes),))
    return func_of(loop(I, extent, loop(J, 2, store), kind), a, b)


def has_shuffles(func: PrimFunc) -> bool:
    return any(isinstance(e, Shuffle) for e in all_exprs(func.body))


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "int64"])
@pytest.mark.parametrize("lanes", [4, 7, 8, 12, 16])
@pytest.mark.parametrize("extent", [4, 11])
def test_meaning(extent: int, lanes: int, dtype: str) -> None:
    func = transposition(extent, lanes, dtype)
    new = TransposeGathers()(func)
    assert has_shuffles(new)
    agree(func, new)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(20, 10), (28, 9), (13, 4)])
def test_machine_code(shape: tuple[int, int], dtype: str) -> None:
    """Blocks that are no power of two are vectors of LLVM's as well."""
    a = te.placeholder(shape, name="A", dtype=dtype)
    b = te.compute(shape[::-1], lambda i, j: a[j, i] * 2, name="B")
    kernel = load(build(te.create_schedule(b.op), [a, b], cpu_target(1)))
    x = np.arange(shape[0] * shape[1], dtype=dtype).reshape(shape)
    np.testing.assert_array_equal(kernel(x), x.T * 2)


def test_nothing_is_read_outside_of_what_the_loop_reads() -> None:
    """The last row ends with the buffer: the interpreter refuses what lies behind."""
    a, b = decl_buffer((11 * 12,), name="A"), decl_buffer((11 * 12,), name="B")
    read = BufferLoad(a, (vector(I, 11, 12),))
    func = func_of(loop(I, 11, BufferStore(b, read, (vector(I * 12, 1, 12),))), a, b)
    new = TransposeGathers()(func)
    assert has_shuffles(new)
    agree(func, new)


def test_threads_keep_enough_iterations() -> None:
    many = transposition(4 * LEAST_PARALLEL, 16, kind=ForKind.PARALLEL)
    assert has_shuffles(TransposeGathers()(many))
    few = transposition(4 * LEAST_PARALLEL - 4, 16, kind=ForKind.PARALLEL)
    assert TransposeGathers()(few) is few
    rest = transposition(4 * LEAST_PARALLEL + 1, 16, kind=ForKind.PARALLEL)
    assert TransposeGathers()(rest) is rest


def one_loop(a: Buffer, b: Buffer, value: Expr, extent: int = 8) -> PrimFunc:
    return func_of(loop(I, extent, BufferStore(b, value, (vector(I * 8, 1, 8),))), a, b)


def test_what_stays_is_the_same_object() -> None:
    a, b = decl_buffer((640,), name="A"), decl_buffer((640,), name="B")
    half, out = (decl_buffer((640,), DType("float16"), name=name) for name in "HO")
    along = BufferLoad(a, (vector(I, ROW, 8),))
    inside = op.lt(I, 5)
    kept = {
        "a step too long": one_loop(a, b, BufferLoad(a, (vector(I * 2, ROW, 8),))),
        "dealt anyway": one_loop(a, b, BufferLoad(a, (vector(I, 3, 8),))),
        "under a condition": one_loop(a, b, op.if_then_else(inside, along, along + 1.0)),
        "reads what it writes": one_loop(a, b, along + BufferLoad(b, (vector(I * 8, 1, 8),))),
        "too few iterations": one_loop(a, b, along, 3),
        "halves": one_loop(half, out, BufferLoad(half, (vector(I, ROW, 8),))),
        "no even step": one_loop(a, b, BufferLoad(a, (vector(I + I // 3, ROW, 8),))),
    }
    for why, func in kept.items():
        assert TransposeGathers()(func) is func, why
    overlapping = one_loop(a, b, along)
    assert has_shuffles(TransposeGathers()(overlapping))
    overlapping = overlapping.with_attrs(**{"tir.noalias": False})
    assert TransposeGathers()(overlapping) is overlapping
