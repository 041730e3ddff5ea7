"""Which reductions become lanes, and along which loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched.tir import interp, op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Expr, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import BufferStore, DeclBuffer, For
from autosched.transform.vector.distribute_loops import distribute
from autosched.transform.vector.promote_accumulators import PromoteAccumulators
from autosched.transform.vector.reduction_nest import match_nest
from autosched.transform.vector.vectorize_innermost import VectorizeInnermost
from kit.stmts import func_of, loop
from kit.types import SameResult

I, K = Var("i"), Var("k")
KINDS = {"sum": op.add, "max": op.max_, "min": op.min_}


def rows(kind: str, dtype: str, m: int = 3, n: int = 64) -> tuple[PrimFunc, int]:
    """out[i] = kind(out[i], a[i, k]) over k: contiguous along the reduction alone."""
    a, out = decl_buffer((m * n,), dtype, "a"), decl_buffer((m,), dtype, "out")
    value: Expr = BufferLoad(a, (I * n + K,))
    store = BufferStore(out, KINDS[kind](BufferLoad(out, (I,)), value), (I,))
    nest = loop(I, m, loop(K, n, store))
    handles = [pointer(b.name + "_h", b.dtype) for b in (a, out)]
    func = PrimFunc(tuple(handles), nest, dict(zip(handles, (a, out))), {"global_symbol": "rows"})
    return func, m


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [64, 70, 33])
def test_rows_are_folded_from_lanes(kind: str, dtype: str, n: int) -> None:
    """Maxima, minima and sums of integers may be taken in any order, sums of floats if allowed."""
    func, m = rows(kind, dtype, n=n)
    fit = 32 // DType(dtype).bytes
    first, *rest = PromoteAccumulators(32, 16).planned(func)
    assert first.piece.nest.folded and first.piece.nest.width == fit
    assert len(rest) == (n % fit > 0)
    rng = np.random.default_rng(0)
    a = rng.integers(-5, 6, m * n).astype(dtype)
    found, expected = (np.zeros(m, dtype) for _ in range(2))
    interp.run(func, [a, expected])
    interp.run(PromoteAccumulators(32, 16)(func), [a, found])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_only_sums_of_floats_need_leave(kind: str) -> None:
    strict = PromoteAccumulators(32, 16, reassociate=False)
    (whole, *_) = strict.planned(rows(kind, "float32")[0])
    assert whole.piece.nest.folded == (kind != "sum")
    (whole, *_) = strict.planned(rows(kind, "int32")[0])
    assert whole.piece.nest.folded


def test_a_difference_is_not_folded() -> None:
    """out - a is no operation whose order can be changed."""
    a, out = decl_buffer((192,), name="a"), decl_buffer((3,), name="out")
    store = BufferStore(out, BufferLoad(out, (I,)) - BufferLoad(a, (I * 64 + K,)), (I,))
    (found,) = PromoteAccumulators(32, 16).planned(func_of(loop(I, 3, loop(K, 64, store)), a, out))
    assert not found.piece.nest.folded


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("lanes", [1, 4])
def test_constants_are_not_folded(lanes: int, number: int, same_result: SameResult) -> None:
    """Of out + 0 nothing but `out` is left where a part of its lanes is taken."""
    at = "out[i * 4:i * 4 + 4]" if lanes == 4 else "out[i]"
    before = parse_func(f"""
def main(out: Buffer((12,), int32)):
    for i in range(3):
        for k in range(24):
            {at} = {at} + {f"broadcast({number}, 4)" if lanes == 4 else number}
""")
    for vector_bytes in (16, 32, 64):
        found = PromoteAccumulators(vector_bytes, 32)
        assert not any(p.piece.nest.folded for p in found.planned(before))
        same_result(before, found(before))


@pytest.mark.parametrize(
    ("index", "value", "why"),
    [
        (I, lambda out: BufferLoad(out, (I + 1,)), "reads another element"),
        (I + K, lambda out: BufferLoad(out, (I + K,)), "two iterations store to one element"),
        (I * K, lambda out: BufferLoad(out, (I * K,)), "the index is not a sum of loops"),
    ],
)
def test_what_is_no_reduction(index: Expr, value: Callable[[Buffer], BufferLoad], why: str) -> None:
    a, out = decl_buffer((64,), name="a"), decl_buffer((64,), name="out")
    store = BufferStore(out, value(out) + BufferLoad(a, (K,)), (index,))
    assert match_nest(loop(I, 4, loop(K, 8, store))) is None, why


def test_stores_that_decide_where_the_next_is_made() -> None:
    """The first one changes N[0]."""
    before = parse_func("""
def main(M: Buffer((16,), int32), N: Buffer((32,), int32)):
    N[0] = 0
    for i in range(16):
        N[N[0] + i] = M[i]
""")
    assert VectorizeInnermost(64)(before) is before


def test_views_that_begin_elsewhere_hold_other_elements() -> None:
    """V[i] is N[i + 1], which the next iteration reads."""
    before = parse_func("""
def main(N: Buffer((33,), int32)):
    V = declare(N, (32,), int32, elem_offset=1)
    for i in range(32):
        V[i] = N[i] + 1
""")
    assert VectorizeInnermost(64)(before) is before


def test_views_of_other_rows_hold_other_elements() -> None:
    """V[1, 0] is N[0, 4], which is stored to afterwards."""
    before = parse_func("""
def main(N: Buffer((4, 8), int32)):
    V = declare(N, (8, 4), int32)
    for i in range(4):
        N[i, 0] = 0
        for k in range(2):
            N[i, 0] = N[i, 0] + V[i, 0]
""")
    assert isinstance(before.body, DeclBuffer)
    nest = before.body.body
    assert isinstance(nest, For) and distribute(nest) is nest


def test_outputs_read_through_another_view_stay_in_memory(same_result: SameResult) -> None:
    """V[0] is Y[0], which the first step changes."""
    before = parse_func("""
def main(A: Buffer((32,), float32), Y: Buffer((8,), float32)):
    V = view(Y, (8,), float32)
    for k in range(4):
        for i in range(8):
            V[i] = V[i] + (Y[i] + A[k * 8 + i])
""")
    assert PromoteAccumulators(32, 16)(before) is before
    same_result(before, VectorizeInnermost(32)(before))
