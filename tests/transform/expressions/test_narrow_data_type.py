import pytest

from autosched.errors import ConfigError
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import int32, int64
from autosched.tir.expr import Broadcast, BufferLoad, IntImm, Ramp, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import cast, const, floormod, lt, mul, select
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from autosched.tir.verify import verify
from autosched.tir.walk import all_exprs, free_vars, stmts
from autosched.transform.expressions.narrow_data_type import NarrowDataType
from autosched.transform.vector.vectorize_loop import VectorizeLoop
from kit.stmts import as_a, loop
from kit.types import BodyText, MakeFunc, SameResult

A, B = decl_buffer((64,), "float32", "A"), decl_buffer((64,), "float32", "B")
I64 = decl_buffer((64,), "int64", "I64")
i = Var("i", "int64")


def wide(value: int) -> IntImm:
    return IntImm(value, int64)


def wide_loop(var: Var, extent: int, body: Stmt) -> For:
    return loop(var, wide(extent), body, low=wide(0))


def has_int64(func: PrimFunc) -> bool:
    return any(e.dtype is int64 for e in all_exprs(func.body))


def test_golden(make_func: MakeFunc, body_text: BodyText, same_result: SameResult) -> None:
    guarded = IfThenElse(lt(i * 8, wide(50)), BufferStore(B, A[i * 8], (i + 1,)))
    before = make_func(wide_loop(i, 8, guarded), A, B)
    after = NarrowDataType()(before)
    assert (
        body_text(after)
        == """\
for i in range(8):
    if i * 8 < 50:
        B[i + 1] = A[i * 8]"""
    )
    assert as_a(For, after.body).loop_var.dtype is int32
    assert not has_int64(after)
    same_result(before, after)


def test_a_buffer_whose_size_depends_on_a_loop(
    make_func: MakeFunc, same_result: SameResult
) -> None:
    """Its size kept the variable of the wide loop, which was there no more."""
    rows = decl_buffer((i + 1,), "float32", "rows")
    uses = seq(BufferStore(rows, A[i], (i,)), BufferStore(B, rows[i], (i,)))
    before = make_func(
        wide_loop(i, 8, Allocate(rows.data, rows.dtype, rows.shape, TRUE, uses)), A, B
    )
    after = NarrowDataType()(before)
    verify(after)
    narrow = as_a(For, after.body)
    (stored,) = {s.buffer for s in stmts(narrow) if isinstance(s, BufferStore)} - {B}
    assert free_vars(stored.shape[0]) == {narrow.loop_var}
    same_result(before, after)


def test_narrow_functions_are_unchanged(make_func: MakeFunc) -> None:
    j = Var("j")
    body = For(j, IntImm(0), IntImm(8), ForKind.SERIAL, BufferStore(B, A[j], (j,)))
    before = make_func(body, A, B)
    assert NarrowDataType()(before) is before


def test_what_may_not_fit_stays(make_func: MakeFunc) -> None:
    big = mul(i, wide(2**30))
    before = make_func(wide_loop(i, 8, BufferStore(B, A[floormod(big, wide(64))], (i,))), A, B)
    after = NarrowDataType()(before)
    assert as_a(For, after.body).loop_var.dtype is int64


def test_64_bits_change_nothing(make_func: MakeFunc) -> None:
    before = make_func(wide_loop(i, 8, BufferStore(B, A[i], (i,))), A, B)
    assert NarrowDataType(64)(before) is before


def test_other_widths_are_refused(make_func: MakeFunc) -> None:
    with pytest.raises(ConfigError, match="target_bits must be 32 or 64"):
        NarrowDataType(16)(make_func(wide_loop(i, 8, BufferStore(B, A[i], (i,))), A, B))


def test_values_keep_their_type(make_func: MakeFunc, same_result: SameResult) -> None:
    store = BufferStore(I64, i * wide(3), (i,))
    before = make_func(wide_loop(i, 8, store), I64)
    after = NarrowDataType()(before)
    assert as_a(BufferStore, as_a(For, after.body).body).value.dtype is int64
    same_result(before, after)


def test_loaded_indices_stay_wide(make_func: MakeFunc) -> None:
    index = floormod(I64[i], wide(64))
    before = make_func(wide_loop(i, 8, BufferStore(B, A[index], (i,))), I64, A, B)
    after = NarrowDataType()(before)
    assert as_a(For, after.body).loop_var.dtype is int32
    assert any(e.dtype is int64 for e in all_exprs(after.body))


def test_casts_and_branches_narrow(make_func: MakeFunc, same_result: SameResult) -> None:
    j = Var("j")
    index = select(lt(i, wide(4)), cast(int64, j) + i, wide(0))
    inner = For(
        j, IntImm(0), IntImm(4), ForKind.SERIAL, BufferStore(B, A[index] + const(1.0), (i,))
    )
    before = make_func(wide_loop(i, 8, inner), A, B)
    after = NarrowDataType()(before)
    assert not has_int64(after)
    same_result(before, after)


def test_parameters_keep_their_type(make_func: MakeFunc) -> None:
    n = Var("n", "int64")
    body = wide_loop(i, 8, IfThenElse(lt(i, n), BufferStore(B, A[i], (i,))))
    after = NarrowDataType()(make_func(body, A, B, scalars=(n,)))
    assert after.params[-1] is n
    assert any(e is n for e in all_exprs(after.body))


@pytest.mark.parametrize("offset", [0, 5, 2**33])
@pytest.mark.parametrize("stride", [1, 3])
def test_after_vectorize_the_types_agree(
    make_func: MakeFunc, same_result: SameResult, offset: int, stride: int
) -> None:
    """Ramps and broadcasts of int64, where all, some or none of the parts fit in 32 bits."""
    lane, k = Var("lane", "int64"), Var("k", "int64")
    at = (k * 4 + lane) * stride + offset - offset
    shifted = floormod(at + wide(offset), wide(offset + 60)) % 48
    inside = lt(at + wide(offset), wide(offset + 40))
    store = IfThenElse(inside, BufferStore(B, A[shifted] + A[k], (k * 4 + lane,)))
    body = For(
        k, wide(0), wide(4), ForKind.SERIAL, For(lane, wide(0), wide(4), ForKind.VECTORIZED, store)
    )
    before = make_func(body, A, B)
    vector = VectorizeLoop()(before)
    after = NarrowDataType()(vector)
    verify(after)
    assert not any(e.dtype.element is int64 for e in all_exprs(after.body)) or offset > 2**31
    same_result(before, after)


def test_predicates_are_narrowed_with_their_variables(make_func: MakeFunc) -> None:
    lane = Ramp(i * 4, wide(1), 4)
    predicate = lt(lane, Broadcast(wide(30), 4))
    load = BufferLoad(A, (lane,), predicate)
    func = make_func(loop(i, 8, BufferStore(B, load, (lane,), predicate)), A, B)
    after = NarrowDataType()(func)
    verify(after)
    assert not any(e.dtype.element is int64 for e in all_exprs(after.body))


def test_a_variable_of_two_loops(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    """The second loop was given another narrow variable than its body used."""
    body = seq(
        wide_loop(i, 8, BufferStore(B, A[i * 2], (i,))),
        wide_loop(i, 4, BufferStore(B, A[i * 2] + B[i], (i + 8,))),
    )
    before = make_func(body, A, B)
    after = NarrowDataType()(before)
    verify(after)
    assert not has_int64(after)
    same_result(before, after)


@pytest.mark.parametrize("extents", [(2, 4), (4, 2)])
def test_what_fits_in_one_of_two_loops_only(
    make_func: MakeFunc, same_result: SameResult, extents: tuple[int, int]
) -> None:
    index = floormod(mul(i, wide(2**30)) + 63, wide(64))
    body = seq(*(wide_loop(i, n, BufferStore(B, A[index], (i + 8 * n,))) for n in extents))
    before = make_func(body, A, B)
    after = NarrowDataType()(before)
    verify(after)
    assert has_int64(after)
    same_result(before, after)


def test_a_variable_of_a_loop_and_a_let(make_func: MakeFunc, same_result: SameResult) -> None:
    copy = BufferStore(B, A[i * 2], (i,))
    before = make_func(seq(wide_loop(i, 4, copy), LetStmt(i, wide(9), copy)), A, B)
    after = NarrowDataType()(before)
    verify(after)
    same_result(before, after)
