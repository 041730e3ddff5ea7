from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir import interp, op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import float32, int32
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Let, Ramp, StringImm, Var
from autosched.tir.op import (
    all_,
    call,
    cast,
    floordiv,
    if_then_else,
    likely,
    lt,
    max_,
    not_,
    select,
    sub,
)
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    seq,
)
from autosched.tir.walk import direct_exprs, pre_order, stmts
from autosched.transform.device.inject_virtual_thread import InjectVirtualThread
from autosched.transform.from_te.storage_flatten import StorageFlatten
from autosched.transform.vector.vectorize_loop import VectorizeLoop
from kit.stmts import as_a, loop
from kit.types import BodyText, MakeFunc, SameResult

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
i, j, k = Var("i"), Var("j"), Var("k")


def vector(body: Stmt, lanes: int = 4, outer: int = 4) -> For:
    return loop(i, outer, loop(j, lanes, body, ForKind.VECTORIZED))


@pytest.fixture
def check(make_func: MakeFunc, body_text: BodyText, same_result: SameResult) -> Callable[..., None]:
    """check(body, text, **options): the body's vector form, equal to it when run."""

    def run(body: For, expected: str, **options: bool) -> None:
        before = make_func(body, A, B)
        after = VectorizeLoop(**options)(before)
        assert body_text(after) == expected
        same_result(before, after)

    return run


def test_golden(check: Callable[..., None]) -> None:
    check(
        vector(BufferStore(B, A[j] * 2.0 + A[i], (i * 4 + j,))),
        """\
for i in range(4):
    B[i * 4:i * 4 + 4] = A[0:4] * broadcast(2.0, 4) + broadcast(A[i], 4)""",
    )


def test_nothing_vectorized_returns_the_same_object(make_func: MakeFunc) -> None:
    func = make_func(loop(i, 4, BufferStore(B, A[i], (i,))), A, B)
    assert VectorizeLoop()(func) is func


@pytest.mark.parametrize(
    ("low", "extent", "message"),
    [
        (IntImm(1), IntImm(4), "the loop j must start at 0, found 1"),
        (IntImm(0), Var("n"), "extent of the loop j must be a positive constant, found n"),
        (IntImm(0), IntImm(0), "extent of the loop j must be a positive constant, found 0"),
    ],
)
def test_refuses_loops_it_cannot_vectorise(
    make_func: MakeFunc, low: Expr, extent: Expr, message: str
) -> None:
    func = make_func(For(j, low, extent, ForKind.VECTORIZED, BufferStore(B, A[j], (j,))), A, B)
    with pytest.raises(ScheduleError, match=message):
        VectorizeLoop()(func)


def test_lenient_makes_loops_of_unknown_extent_serial(check: Callable[..., None]) -> None:
    unknown = For(j, IntImm(0), i + 1, ForKind.VECTORIZED, BufferStore(B, A[j], (j,)))
    check(
        loop(i, 4, unknown),
        "for i in range(4):\n    for j in range(i + 1):\n        B[j] = A[j]",
        lenient=True,
    )


def test_disabled_makes_loops_serial(check: Callable[..., None]) -> None:
    check(
        vector(BufferStore(B, A[j], (i * 4 + j,))),
        "for i in range(4):\n    for j in range(4):\n        B[i * 4 + j] = A[j]",
        enable=False,
    )


def test_one_lane_is_no_vector(check: Callable[..., None]) -> None:
    check(vector(BufferStore(B, A[j], (i + j,)), lanes=1), "for i in range(4):\n    B[i] = A[0]")


def test_ramps_survive_sums_and_products(check: Callable[..., None]) -> None:
    check(
        vector(BufferStore(B, A[(j + 1) * 3], (sub(i * 4 + 3, j),))),
        """\
for i in range(4):
    B[ramp(i * 4 + 3, -1, 4)] = A[ramp(3, 3, 4)]""",
    )
    check(
        vector(BufferStore(B, A[j * i], (i * 4 + j,))),
        "for i in range(4):\n    B[i * 4:i * 4 + 4] = A[ramp(0, i, 4)]",
    )
    check(
        vector(BufferStore(B, A[i * 4 + j - j], (i * 4 + j,))),
        "for i in range(4):\n    B[i * 4:i * 4 + 4] = broadcast(A[i * 4], 4)",
    )


def test_a_quotient_that_alignment_shows_to_be_one_value(check: Callable[..., None]) -> None:
    check(
        vector(BufferStore(B, A[(i * 4 + j) // 8] + A[(i * 4 + j) % 8], (i * 4 + j,))),
        """\
for i in range(4):
    B[i * 4:i * 4 + 4] = broadcast(A[i * 4 // 8], 4) + A[i * 4 % 8:i * 4 % 8 + 4]""",
    )
    check(
        vector(BufferStore(B, A[(i * 4 + j) // 3], (i * 4 + j,))),
        """\
for i in range(4):
    B[i * 4:i * 4 + 4] = A[ramp(i * 4, 1, 4) // broadcast(3, 4)]""",
    )


def test_casts_selects_calls_and_comparisons(check: Callable[..., None]) -> None:
    value = select(not_(j > 1), max_(A[j], cast(float32, j)), call("sqrt", A[j] * A[j]))
    check(
        vector(BufferStore(B, value, (i * 4 + j,))),
        """\
for i in range(4):
    B[i * 4:i * 4 + 4] = Select(not ramp(0, 1, 4) > broadcast(1, 4), \
max(A[0:4], float32x4(ramp(0, 1, 4))), sqrt(A[0:4] * A[0:4]))""",
    )


def test_a_store_of_different_values_to_one_place_is_broadcast(
    make_func: MakeFunc, body_text: BodyText
) -> None:
    func = make_func(vector(BufferStore(B, A[j], (i,))), A, B)
    assert body_text(VectorizeLoop()(func)).endswith("B[broadcast(i, 4)] = A[0:4]")


def test_lets_become_vectors(check: Callable[..., None]) -> None:
    t = Var("t", float32)
    check(
        vector(LetStmt(t, A[j], BufferStore(B, t + t, (i * 4 + j,)))),
        """\
for i in range(4):
    t: float32x4 = A[0:4]
    B[i * 4:i * 4 + 4] = t + t""",
    )
    u = Var("u", int32)
    inner = BufferStore(B, Let(u, j * 2, A[u] + A[u + 1]), (i * 4 + j,))
    check(
        vector(inner),
        """\
for i in range(4):
    B[i * 4:i * 4 + 4] = let u = ramp(0, 2, 4) in A[u] + A[u + broadcast(1, 4)]""",
    )


def test_allocations_are_widened(check: Callable[..., None]) -> None:
    t = decl_buffer((2,), "float32", "t")
    body = seq(
        loop(k, 2, BufferStore(t, A[j + k], (k,))), BufferStore(B, t[0] + t[1], (i * 4 + j,))
    )
    check(
        vector(Allocate(t.data, t.dtype, (IntImm(2),), TRUE, body)),
        """\
for i in range(4):
    t = allocate((8,), float32, "global")
    for k in range(2):
        t[k * 4:k * 4 + 4] = A[k:k + 4]
    B[i * 4:i * 4 + 4] = t[0:4] + t[4:8]""",
    )


@pytest.mark.parametrize("known", [False, True])
def test_memory_of_another_size_for_each_lane(check: Callable[..., None], known: bool) -> None:
    """Where all lanes' sizes are equal in the end, the variable of the lanes stayed in it."""
    size = floordiv(j + 1, 4) + 1  # 1, but for the last lane
    t = decl_buffer((size,), "float32", "t")
    body = seq(BufferStore(t, A[j], (IntImm(0),)), BufferStore(B, t[0], (i * 3 + j,)))
    extents = (IntImm(1),) if known else (size,)
    own = "(j.s + 1) // 4 + 1"
    lines = f't = allocate(({1 if known else own},), float32, "global")'
    if known:
        lines += f"\n        t = view(t, ({own},), float32)"
    check(
        vector(Allocate(t.data, t.dtype, extents, TRUE, body), lanes=3),
        f"""\
for i in range(4):
    for j.s in range(3):
        {lines}
        t[0] = A[j.s]
        B[i * 3 + j.s] = t[0]""",
    )


GUARDED = BufferStore(B, A[i * 4 + j] + A[0], (i * 4 + j,))


def test_a_condition_that_differs_makes_a_loop_over_lanes(check: Callable[..., None]) -> None:
    check(
        vector(IfThenElse(likely(i * 4 + j < 10), GUARDED), outer=3),
        """\
for i in range(3):
    for j.s in range(4):
        if likely(i * 4 + j.s < 10):
            B[i * 4 + j.s] = A[i * 4 + j.s] + A[0]""",
    )
    check(
        vector(seq(IfThenElse(i < 2, GUARDED), IfThenElse(j < 2, GUARDED))),
        """\
for i in range(4):
    if i < 2:
        B[i * 4:i * 4 + 4] = A[i * 4:i * 4 + 4] + broadcast(A[0], 4)
    for j.s in range(4):
        if j.s < 2:
            B[i * 4 + j.s] = A[i * 4 + j.s] + A[0]""",
    )


def test_a_lane_loop_sees_the_values_of_lets(check: Callable[..., None]) -> None:
    t = Var("t", int32)
    body = LetStmt(t, j + 1, IfThenElse(t < 3, BufferStore(B, A[t], (i * 4 + j,))))
    check(
        vector(body),
        """\
for i in range(4):
    t: int32x4 = ramp(1, 1, 4)
    for j.s in range(4):
        if j.s + 1 < 3:
            B[i * 4 + j.s] = A[j.s + 1]""",
    )


def test_a_lane_loop_does_not_read_again_what_a_let_holds(check: Callable[..., None]) -> None:
    """The let, and what follows from it, is part of the lane loop then."""
    t, u, at = Var("t", A.dtype), Var("u", A.dtype), i * 4 + j
    again = loop(k, j, BufferStore(B, B[at] * 2.0 + u, (at,)))
    body = seq(BufferStore(B, A[j], (at,)), LetStmt(t, B[at], LetStmt(u, t + 1.0, again)))
    check(
        vector(body),
        """\
for i in range(4):
    B[i * 4:i * 4 + 4] = A[0:4]
    for j.s in range(4):
        t: float32 = B[i * 4 + j.s]
        u: float32 = t + 1.0
        for k in range(j.s):
            B[i * 4 + j.s] = B[i * 4 + j.s] * 2.0 + u""",
    )


def test_calls_that_are_not_elementwise(make_func: MakeFunc, body_text: BodyText) -> None:
    extern = Evaluate(Call(int32, "call_extern", (StringImm("f"), j)))
    func = make_func(loop(j, 4, extern, ForKind.VECTORIZED))
    assert (
        body_text(VectorizeLoop()(func))
        == """\
for j.s in range(4):
    call_extern("f", j.s, dtype=int32)"""
    )


def test_a_vectorized_loop_inside_becomes_serial(
    check: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    inner = loop(k, 2, BufferStore(B, A[k], (i * 8 + j * 2 + k,)), ForKind.VECTORIZED)
    check(
        vector(inner),
        """\
for i in range(4):
    for k in range(2):
        B[ramp(i * 8 + k, 2, 4)] = broadcast(A[k], 4)""",
    )
    assert "k is inside a vectorized loop" in caplog.text


def test_masked_store(check: Callable[..., None]) -> None:
    check(
        vector(IfThenElse(likely(all_(i < 3, i * 4 + j < 10)), GUARDED)),
        """\
for i in range(4):
    if i < 3:
        store(B[i * 4:i * 4 + 4], load(A[i * 4:i * 4 + 4], predicate=ramp(i * 4, 1, 4) \
< broadcast(10, 4)) + broadcast(A[0], 4), predicate=ramp(i * 4, 1, 4) < broadcast(10, 4))""",
        masked=True,
    )


def test_masked_arms_of_if_then_else(check: Callable[..., None]) -> None:
    value = if_then_else(all_(i > 0, i * 4 + j < 10), A[i * 4 + j - 4], 0.0)
    check(
        vector(BufferStore(B, value, (i * 4 + j,))),
        """\
for i in range(4):
    B[i * 4:i * 4 + 4] = if_then_else(i > 0, Select(ramp(i * 4, 1, 4) < broadcast(10, 4), \
load(A[i * 4 - 4:i * 4 - 4 + 4], predicate=ramp(i * 4, 1, 4) < broadcast(10, 4)), \
broadcast(0.0, 4)), broadcast(0.0, 4))""",
        masked=True,
    )


def test_masked_keeps_scalar_loads_under_a_condition(check: Callable[..., None]) -> None:
    # A[i * 30] is read for all lanes at once: only where lane 0, hence some lane, wants it.
    small = BufferStore(B, A[i * 30] + A[j], (i * 4 + j,))
    check(
        vector(IfThenElse(i * 4 + j < 10, small)),
        """\
for i in range(4):
    if i * 4 < 10:
        store(B[i * 4:i * 4 + 4], broadcast(A[i * 30], 4) + load(A[0:4], predicate=\
ramp(i * 4, 1, 4) < broadcast(10, 4)), predicate=ramp(i * 4, 1, 4) < broadcast(10, 4))""",
        masked=True,
    )
    # No single lane stands for the others here, so lanes are taken one by one.
    check(
        vector(IfThenElse(i * 4 + j > 5, small), outer=3),
        """\
for i in range(3):
    for j.s in range(4):
        if i * 4 + j.s > 5:
            B[i * 4 + j.s] = A[i * 30] + A[j.s]""",
        masked=True,
    )


def test_masked_else_branch(check: Callable[..., None]) -> None:
    body = IfThenElse(j < 2, GUARDED, BufferStore(B, A[j], (i * 4 + j,)))
    check(
        vector(body),
        """\
for i in range(4):
    store(B[i * 4:i * 4 + 4], load(A[i * 4:i * 4 + 4], predicate=ramp(0, 1, 4) \
< broadcast(2, 4)) + broadcast(A[0], 4), predicate=ramp(0, 1, 4) < broadcast(2, 4))
    store(B[i * 4:i * 4 + 4], load(A[0:4], predicate=not ramp(0, 1, 4) < broadcast(2, 4)), \
predicate=not ramp(0, 1, 4) < broadcast(2, 4))""",
        masked=True,
    )


def test_masked_leaves_division_by_what_it_reads_alone(make_func: MakeFunc) -> None:
    n = decl_buffer((64,), "int32", "N")
    store = BufferStore(B, A[(i + 60) // n[i * 4 + j]], (i * 4 + j,))
    func = make_func(vector(IfThenElse(i * 4 + j < 10, store), outer=3), A, B, n)
    assert (
        repr(VectorizeLoop(masked=True)(func).body)
        == """\
for i in range(3):
    for j.s in range(4):
        if i * 4 + j.s < 10:
            B[i * 4 + j.s] = A[(i + 60) // N[i * 4 + j.s]]"""
    )


def test_masked_condition_that_the_body_may_change(check: Callable[..., None]) -> None:
    body = seq(BufferStore(B, A[j], (i * 4 + j,)), BufferStore(B, B[i * 4 + j], (i * 4 + j,)))
    check(
        vector(IfThenElse(B[i * 4 + j] > 0.0, body)),
        """\
for i in range(4):
    for j.s in range(4):
        if B[i * 4 + j.s] > 0.0:
            B[i * 4 + j.s] = A[j.s]
            B[i * 4 + j.s] = B[i * 4 + j.s]""",
        masked=True,
    )


def test_masked_leaves_gathers_and_scatters_to_a_loop(check: Callable[..., None]) -> None:
    gather = BufferStore(B, A[(i * 4 + j) // 3], (i * 4 + j,))
    check(
        vector(IfThenElse(i * 4 + j < 10, gather), outer=3),
        """\
for i in range(3):
    for j.s in range(4):
        if i * 4 + j.s < 10:
            B[i * 4 + j.s] = A[(i * 4 + j.s) // 3]""",
        masked=True,
    )
    scatter = BufferStore(B, A[i * 4 + j], ((i * 4 + j) % 3,))
    check(
        vector(IfThenElse(i * 4 + j < 10, scatter), outer=3),
        """\
for i in range(3):
    for j.s in range(4):
        if i * 4 + j.s < 10:
            B[(i * 4 + j.s) % 3] = A[i * 4 + j.s]""",
        masked=True,
    )


def test_a_vector_stage_under_a_virtual_thread_stays_contiguous(same_result: SameResult) -> None:
    X = te.placeholder((8, 64), name="X")
    P = te.compute((8, 64), lambda i, j: X[i, j] * 2.0, name="P")
    Y = te.compute((8, 64), lambda i, j: P[i, j] + 1.0, name="Y")
    s = te.create_schedule(Y.op)
    i, j = Y.op.axis
    outer, inner = s[Y].split(i, nparts=2)
    s[Y].bind(outer, te.thread_axis("vthread"))
    tile, lane = s[Y].split(j, factor=16)
    s[Y].reorder(outer, inner, tile, lane)
    s[Y].vectorize(lane)
    s[P].compute_at(s[Y], tile)
    s[P].vectorize(P.op.axis[1])
    before = StorageFlatten()(schedule_to_prim_func(s, [X, Y]))
    after = InjectVirtualThread()(VectorizeLoop()(before))
    indices = [
        e.indices[-1]
        for s_ in stmts(after.body)
        for e in (s_, *(x for d in direct_exprs(s_) for x in pre_order(d)))
        if isinstance(e, BufferStore | BufferLoad)
    ]
    assert len(indices) > 4
    assert all(isinstance(index, Ramp) for index in indices)
    same_result(before, after)


def counted(shared: bool) -> tuple[Buffer, Buffer, For]:
    """for j in vectorized(4): n[0] = 0; while n[0] < j: n[0] += 1; total[0] += n[0]."""
    j = Var("j")
    n, total = decl_buffer((1,), "int32", "n"), decl_buffer((1,), "int32", "total")
    zero = IntImm(0)
    count = seq(
        BufferStore(n, zero, (zero,)),
        While(lt(n[0], j), BufferStore(n, n[0] + 1, (zero,))),
        BufferStore(total, total[0] + n[0], (zero,)),
    )
    if not shared:
        count = Allocate(n.data, n.dtype, (IntImm(1),), TRUE, count)
    return n, total, For(j, zero, IntImm(4), ForKind.VECTORIZED, count)


def test_iterations_that_share_memory_become_serial(
    make_func: MakeFunc, same_result: SameResult
) -> None:
    n, total, loop = counted(shared=True)
    before = make_func(loop, n, total)
    after = VectorizeLoop()(before)
    assert as_a(For, after.body).kind is ForKind.SERIAL
    same_result(before, after)


@pytest.mark.parametrize("kind", ["sum", "chain", "own"])
def test_what_lanes_leave_for_each_other(
    make_func: MakeFunc, same_result: SameResult, kind: str
) -> None:
    """Stores to one place for all lanes: carried on, passed along, or each lane's own."""
    j, zero = Var("j"), IntImm(0)
    X, Y = decl_buffer((8,), "float32", "X"), decl_buffer((8,), "float32", "Y")
    c = decl_buffer((1,), "float32", "c")
    put = BufferStore(c, (c[0] + 1.0) if kind == "sum" else X[j] * 2.0, (zero,))
    body = seq(put, BufferStore(Y, c[0], (j,)))
    if kind == "own":
        body = Allocate(c.data, c.dtype, (IntImm(1),), TRUE, body)
    params = (X, Y) if kind == "own" else (X, Y, c)
    before = make_func(For(j, zero, IntImm(8), ForKind.VECTORIZED, body), *params)
    after = VectorizeLoop()(before)
    serial = [s for s in stmts(after.body) if isinstance(s, For)]
    assert bool(serial) == (kind != "own")
    plain = make_func(For(j, zero, IntImm(8), ForKind.SERIAL, body), *params)
    same_result(plain, after)


def test_a_value_that_is_one_for_all_lanes_may_be_stored_once(make_func: MakeFunc) -> None:
    j, zero = Var("j"), IntImm(0)
    X, Y = decl_buffer((8,), "float32", "X"), decl_buffer((8,), "float32", "Y")
    c = decl_buffer((1,), "float32", "c")
    body = seq(BufferStore(c, X[3] * 2.0, (zero,)), BufferStore(Y, c[0], (j,)))
    after = VectorizeLoop()(make_func(For(j, zero, IntImm(8), ForKind.VECTORIZED, body), X, Y, c))
    assert not any(isinstance(s, For) for s in stmts(after.body))


@pytest.mark.parametrize("swapped", [False, True])
def test_lane_zero_does_not_stand_for_lanes_that_fall(swapped: bool, make_func: MakeFunc) -> None:
    """12 - i*4 - j < 10 holds for later lanes and not for lane 0: A[i * 30] is for them to read."""
    value = 12 - i * 4 - j
    condition = op.gt(op.const(10), value) if swapped else op.lt(value, 10)
    store = BufferStore(B, A[i * 30 + 4] + A[j], (i * 4 + j,))
    func = make_func(vector(IfThenElse(condition, store), outer=2), A, B)
    arrays = [np.arange(64, dtype=np.float32), np.full(64, -1, np.float32)]
    after = [a.copy() for a in arrays]
    interp.run(func, arrays)
    interp.run(VectorizeLoop(masked=True)(func), after)
    np.testing.assert_array_equal(after[1], arrays[1])
    assert arrays[1][:8].tolist() == [-1, -1, -1, 7, 34, 35, 36, 37]
