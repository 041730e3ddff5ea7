import numpy as np
import pytest

from autosched import te
from autosched.errors import ConfigError, ScheduleError
from autosched.te.intrin.tile_dot import tile_address, tile_call
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir import interp
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import int64
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    Stmt,
    seq,
)
from autosched.tir.tiles import STORE, ZERO
from autosched.tir.verify import verify
from autosched.tir.walk import all_exprs, stmts
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.framework.context import PassContext
from autosched.transform.from_te.storage_flatten import StorageFlatten
from autosched.transform.loops.inject_double_buffer import InjectDoubleBuffer
from kit.stmts import loop
from kit.types import MakeFunc, SameResult

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
L = decl_buffer((4,), "float32", "L", scope="shared")
M = decl_buffer((4,), "float32", "M", scope="shared")
i, j, k = Var("i"), Var("j"), Var("k")


def allocate(buffer: Buffer, *body: Stmt) -> Allocate:
    return Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, seq(*body))


def fill(buffer: Buffer, body: Stmt) -> AttrStmt:
    return AttrStmt(buffer, "double_buffer_scope", IntImm(1), body)


def copy(target: Buffer, offset: int = 0) -> For:
    return loop(j, 4, BufferStore(target, A[i * 4 + j + offset], (j,)))


def use(value: Expr) -> For:
    return loop(k, 4, BufferStore(B, value, (i * 4 + k,)))


@pytest.mark.parametrize("extent", [0, 1, 5])
def test_a_symbolic_extent(make_func: MakeFunc, same_result: SameResult, extent: int) -> None:
    n = Var("n")
    body = loop(i, n, allocate(L, fill(L, copy(L)), use(L[k])))
    before = make_func(body, A, B, scalars=(n,))
    same_result(before, InjectDoubleBuffer()(before), extent)


def test_from_a_schedule() -> None:
    X = te.placeholder((32, 8), name="X")
    Y = te.compute((32, 8), lambda a, b: X[a, b] * 2.0, name="Y")
    Z = te.compute((32, 8), lambda a, b: Y[a, 7 - b] + 1.0, name="Z")
    s = te.create_schedule([Z.op])
    s[Y].compute_at(s[Z], Z.op.axis[0])
    s[Y].double_buffer()
    func = StorageFlatten()(schedule_to_prim_func(s, [X, Z]))
    doubled = InjectDoubleBuffer()(func)
    assert doubled is not func
    rng = np.random.default_rng(0)
    x, z = rng.random((32, 8), dtype=np.float32), np.zeros((32, 8), np.float32)
    interp.run(doubled, [x, z])
    np.testing.assert_array_equal(z, x[:, ::-1] * np.float32(2) + np.float32(1))


def test_fills_from_an_argument_that_may_be_another_one(make_func: MakeFunc) -> None:
    """The loop writes B; without tir.noalias, the A of the next iteration may be that memory."""
    func = make_func(loop(i, 5, allocate(L, fill(L, copy(A)), use(L[k]))), A, B)
    assert InjectDoubleBuffer()(func) is not func
    with pytest.raises(ScheduleError, match="but from A, which the loop computes itself"):
        InjectDoubleBuffer()(func.with_attrs(**{"tir.noalias": False}))


def test_fills_from_what_the_iteration_computes(
    make_func: MakeFunc, same_result: SameResult
) -> None:
    """The next iteration's M would be made of this iteration's L, unless L is ahead, too."""
    plain = allocate(L, allocate(M, copy(L), fill(M, loop(j, 4, BufferStore(M, L[j], (j,))))))
    with pytest.raises(
        ScheduleError, match="one iteration ahead, but from L, which the loop computes itself"
    ):
        InjectDoubleBuffer()(make_func(loop(i, 5, seq(plain, use(A[k]))), A, B))
    before = make_func(
        loop(
            i,
            5,
            allocate(
                L,
                allocate(
                    M,
                    fill(L, copy(L)),
                    fill(M, loop(j, 4, BufferStore(M, L[j] + 1.0, (j,)))),
                    use(M[3 - k] + L[k]),
                ),
            ),
        ),
        A,
        B,
    )
    same_result(before, InjectDoubleBuffer()(before))


@pytest.mark.parametrize("ahead", [ZERO, STORE])
def test_tiles_between_a_fill_and_the_rest_of_an_iteration(ahead: str, make_func: MakeFunc) -> None:
    """The next iteration's sums took the place of this one's before they were stored."""
    clear = tile_call(ZERO, 0)
    put = tile_call(STORE, 0, tile_address(L, IntImm(0), IntImm(4), 2), IntImm(64, int64))
    first, second = (fill(L, clear), put) if ahead == ZERO else (clear, fill(L, put))
    func = make_func(loop(i, 5, allocate(L, first, second, use(L[k]))), A, B)
    with pytest.raises(ScheduleError, match="but from AMX tiles, which the loop computes itself"):
        InjectDoubleBuffer()(func)
    whole = make_func(loop(i, 5, allocate(L, fill(L, seq(clear, put)), use(L[k]))), A, B)
    assert InjectDoubleBuffer()(whole) is not whole


@pytest.mark.parametrize("split", [0, 1, 2])
def test_a_stage_with_two_results(split: int) -> None:
    X = te.placeholder((8, 8), name="X")
    Y, Z = te.compute((8, 8), lambda a, b: (X[a, b] * 2.0, X[a, b] + 3.0), name="Y")
    W = te.compute((8, 8), lambda a, b: Y[a, 7 - b] + Z[a, b], name="W")
    s = te.create_schedule([W.op])
    s[Y].compute_at(s[W], W.op.axis[0])
    s[Y].double_buffer()
    func = StorageFlatten()(schedule_to_prim_func(s, [X, W]))
    doubled = InjectDoubleBuffer(split_loop=split)(func)
    verify(doubled)
    assert "Y.v1 = allocate((16,)" in str(doubled)
    x = np.random.default_rng(0).integers(-9, 9, (8, 8)).astype(np.float32)
    w = np.zeros((8, 8), np.float32)
    interp.run(doubled, [x, w])
    np.testing.assert_array_equal(w, x[:, ::-1] * 2 + x + 3)


def test_memory_of_threads_stays_inside_of_them(make_func: MakeFunc) -> None:
    thread = te.thread_axis("threadIdx.x")
    inside = allocate(L, fill(L, copy(L)), use(L[k]))
    launch = AttrStmt(thread, "thread_extent", IntImm(4), inside)
    with pytest.raises(
        ScheduleError, match="no serial loop of two or more iterations encloses its allocation"
    ):
        InjectDoubleBuffer()(make_func(loop(i, 8, launch), A, B))


def test_a_loop_of_one_iteration_is_none() -> None:
    """The message had asked for a loop, which the stage was computed at."""
    X = te.placeholder((1, 8), name="X")
    Y = te.compute((1, 8), lambda a, b: X[a, b] * 2.0, name="Y")
    W = te.compute((1, 8), lambda a, b: Y[a, b] + 3.0, name="W")
    s = te.create_schedule([W.op])
    s[Y].compute_at(s[W], W.op.axis[0])
    s[Y].double_buffer()
    func = StorageFlatten()(schedule_to_prim_func(s, [X, W]))
    message = (
        "Y is double-buffered, but no serial loop of two or more iterations encloses its "
        "allocation; compute it at such a loop of its consumer, or leave double_buffer out"
    )
    with pytest.raises(ScheduleError, match=message):
        InjectDoubleBuffer()(func)


def test_a_fill_inside_of_a_fill_is_refused(make_func: MakeFunc) -> None:
    inner = allocate(M, fill(M, copy(M)), loop(k, 4, BufferStore(L, M[k], (k,))))
    outer = AttrStmt(L, "double_buffer_scope", IntImm(1), inner)
    with pytest.raises(ScheduleError, match="M must be filled once in every iteration"):
        InjectDoubleBuffer()(make_func(loop(i, 8, allocate(L, outer, use(L[k]))), A, B))


def test_what_the_same_iteration_computes_cannot_fill() -> None:
    X = te.placeholder((4, 8), name="X")
    Y = te.compute((4, 8), lambda a, b: X[a, b] * 2.0, name="Y")
    Z = te.compute((4, 8), lambda a, b: Y[a, 7 - b] + 1.0, name="Z")
    s = te.create_schedule([Z.op])
    cache = s.cache_read(Y, "local", [Z])
    for tensor in (Y, cache):
        s[tensor].compute_at(s[Z], Z.op.axis[0])
    s[cache].double_buffer()
    alone = StorageFlatten()(schedule_to_prim_func(s, [X, Z]))
    with pytest.raises(
        ScheduleError, match="loop a is filled one iteration ahead, but from Y, which"
    ):
        InjectDoubleBuffer()(alone)
    s[Y].double_buffer()
    both = InjectDoubleBuffer()(StorageFlatten()(schedule_to_prim_func(s, [X, Z])))
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    z = np.zeros_like(x)
    interp.run(both, [x, z])
    np.testing.assert_array_equal(z, x[:, ::-1] * 2 + 1)


@pytest.mark.parametrize("split", [1, 2, 4, 6])
@pytest.mark.parametrize("extent", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("low", [0, 3])
def test_split_loops(
    make_func: MakeFunc, same_result: SameResult, split: int, extent: int, low: int
) -> None:
    """Constant lengths need no condition; an even split needs no remainder either."""
    both = allocate(L, allocate(M, fill(L, copy(L)), fill(M, copy(M, 1)), use(L[3 - k] + M[k])))
    before = make_func(loop(i, extent, both, low=low), A, B)
    after = InjectDoubleBuffer(split_loop=split)(before)
    verify(after)
    same_result(before, after)
    assert not [s for s in stmts(after.body) if isinstance(s, IfThenElse)]
    remainders = [e for e in all_exprs(Simplify()(after).body) if type(e).__name__ == "FloorMod"]
    assert not remainders or split == 1


@pytest.mark.parametrize("split", [1, 2, 4])
@pytest.mark.parametrize("low", [0, 2])
def test_split_loops_of_symbolic_length(
    make_func: MakeFunc, same_result: SameResult, split: int, low: int
) -> None:
    """Inside the loop there is no condition; only the iterations left over have them."""
    n = Var("n")
    body = loop(i, n, allocate(L, fill(L, copy(L)), use(L[3 - k])), low=low)
    before = make_func(body, A, B, scalars=(n,))
    after = InjectDoubleBuffer(split_loop=split)(before)
    for extent in range(10):
        same_result(before, after, extent)
    main = next(s for s in stmts(after.body) if isinstance(s, For) and "outer" in s.loop_var.name)
    assert not [s for s in stmts(main.body) if isinstance(s, IfThenElse)]


def test_the_configuration_splits_loops_unless_the_pass_does(make_func: MakeFunc) -> None:
    func = make_func(loop(i, 8, allocate(L, fill(L, copy(L)), use(L[k]))), A, B)
    with PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": 2}}):
        by_key = str(InjectDoubleBuffer()(func))
        assert str(InjectDoubleBuffer(split_loop=4)(func)) != by_key
    assert str(InjectDoubleBuffer(split_loop=2)(func)) == by_key


@pytest.mark.parametrize("split", [-2, 3, 5])
def test_odd_splits_are_refused(split: int) -> None:
    with pytest.raises(ConfigError, match=f"0, 1 or an even number, found {split}"):
        InjectDoubleBuffer(split_loop=split)
