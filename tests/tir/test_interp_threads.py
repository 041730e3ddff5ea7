"""The interpreter on kernels: lockstep threads, divergence, reductions, shuffles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched.tir import interp, op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType, float32, handle, int32
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    CommReducer,
    Expr,
    IntImm,
    Let,
    Ramp,
    Range,
    StringImm,
    Var,
    pointer,
)
from autosched.tir.interp_memory import InterpreterError
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferRealize,
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
from kit.programs import Programs
from kit.types import Array

I, J, K = Var("i"), Var("j"), Var("k")
ZERO = IntImm(0)


def sync(scope: str = "shared") -> Evaluate:
    return Evaluate(Call(int32, "tvm_storage_sync", (StringImm(scope),)))


def ints(n: int, name: str) -> Buffer:
    return decl_buffer((n,), "int32", name)


def kernel(
    tir: type[Programs],
    make: Callable[[Var, Var, Buffer, Buffer], Stmt],
    n: int = 64,
    blocks: int = 1,
    inputs: int = 1,
) -> Array:
    """Runs make(thread variable, block variable, buffers...) on iota inputs; returns the output."""
    buffers = [ints(n * blocks, f"A{k}") for k in range(inputs)] + [ints(n * blocks, "out")]
    bx, tx = tir.thread("blockIdx.x"), tir.thread("threadIdx.x")
    body = tir.launch(make(tx.var, bx.var, *buffers), (bx, blocks), (tx, n))
    arrays = [np.arange(n * blocks, dtype="int32") for _ in range(inputs)]
    out = np.full(n * blocks, -9, "int32")
    interp.run(tir.func(buffers, body), [*arrays, out])
    return out


def test_divergent_conditions(tir: type[Programs]) -> None:
    def make(t: Var, b: Var, A: Buffer, out: Buffer) -> Stmt:
        inner = IfThenElse(t < 8, BufferStore(out, A[t] * 10, (t,)))
        return IfThenElse(op.eq(t % 2, 0), inner, BufferStore(out, IntImm(-1), (t,)))

    t = np.arange(64)
    wanted = np.where(t % 2 == 0, np.where(t < 8, t * 10, -9), -1)
    np.testing.assert_array_equal(kernel(tir, make), wanted)


def test_divergent_loop_bounds(tir: type[Programs]) -> None:
    L = decl_buffer((1,), "int32", "L", "local")

    def make(t: Var, b: Var, A: Buffer, out: Buffer) -> Stmt:
        add = BufferStore(L, L[0] + I, (ZERO,))
        loop = For(I, t % 3, t % 5, ForKind.SERIAL, add)
        body = seq(BufferStore(L, ZERO, (ZERO,)), loop, BufferStore(out, L[0], (t,)))
        return BufferRealize(L, (Range.of(1),), TRUE, body)

    wanted = [sum(range(t % 3, t % 3 + t % 5)) for t in range(64)]
    assert kernel(tir, make).tolist() == wanted


def test_divergent_while(tir: type[Programs]) -> None:
    L = decl_buffer((1,), "int32", "L", "local")

    def make(t: Var, b: Var, A: Buffer, out: Buffer) -> Stmt:
        body = seq(
            BufferStore(L, t + 1, (ZERO,)),
            While(L[0] < 40, BufferStore(L, L[0] * 2, (ZERO,))),
            BufferStore(out, L[0], (t,)),
        )
        return BufferRealize(L, (Range.of(1),), TRUE, body)

    def last(x: int) -> int:
        while x < 40:
            x *= 2
        return x

    assert kernel(tir, make).tolist() == [last(t + 1) for t in range(64)]


def test_lets_do_not_alias_memory(tir: type[Programs]) -> None:
    L = decl_buffer((1,), "int32", "L", "local")

    def make(t: Var, b: Var, A: Buffer, out: Buffer) -> Stmt:
        x = Var("x")
        change = seq(BufferStore(L, ZERO, (ZERO,)), BufferStore(out, x, (t,)))
        body = seq(BufferStore(L, t * 3, (ZERO,)), LetStmt(x, L[0], change))
        return BufferRealize(L, (Range.of(1),), TRUE, body)

    assert kernel(tir, make).tolist() == [t * 3 for t in range(64)]


def test_lazy_branch_per_thread(tir: type[Programs]) -> None:
    def make(t: Var, b: Var, A: Buffer, out: Buffer) -> BufferStore:
        guarded = op.if_then_else(t < 60, A[t + 4], op.if_then_else(t < 62, A[t - 60], -7))
        return BufferStore(out, guarded, (t,))

    wanted = [*range(4, 64), 0, 1, -7, -7]
    assert kernel(tir, make).tolist() == wanted


def test_out_of_bounds_counts_only_for_running_threads(tir: type[Programs]) -> None:
    def make(t: Var, b: Var, A: Buffer, out: Buffer) -> Stmt:
        return IfThenElse(t < 60, BufferStore(out, A[t + 4], (t,)))

    kernel(tir, make)
    with pytest.raises(
        interp.AccessError, match=r"A0, index in dimension 0 64 is not in \[0, 64\)"
    ):
        kernel(tir, lambda t, b, A, out: BufferStore(out, A[t + 4], (t,)))


def test_scopes_have_their_instances(tir: type[Programs]) -> None:
    """Shared memory is per block, local memory per thread."""
    S = decl_buffer((4,), "int32", "S", "shared")
    L = decl_buffer((4,), "int32", "L", "local")

    def make(t: Var, b: Var, A: Buffer, out: Buffer) -> Stmt:
        body = seq(
            BufferStore(S, b * 100 + t, (t,)),
            tir.loop(I, 4, BufferStore(L, S[I] + t * 1000, (I,))),
            BufferStore(out, L[3 - t], (b * 4 + t,)),
        )
        for buffer in (S, L):
            body = BufferRealize(buffer, (Range.of(4),), TRUE, body)
        return body

    wanted = [b * 100 + 3 - t + t * 1000 for b in range(3) for t in range(4)]
    assert kernel(tir, make, n=4, blocks=3).tolist() == wanted


def test_scopes_are_inferred_from_the_enclosing_axis(tir: type[Programs]) -> None:
    """Before StorageFlatten: block level means shared, thread level local."""
    S, L = ints(4, "S"), ints(4, "L")
    for b in (S, L):
        b.data.scope = ""
    out = ints(4, "out")
    bx, tx = tir.thread("blockIdx.x"), tir.thread("threadIdx.x")
    use = BufferStore(out, L[0] + S[3 - tx.var], (tx.var,))
    inside = BufferRealize(L, (Range.of(1),), TRUE, seq(BufferStore(L, tx.var, (ZERO,)), use))
    fill = seq(BufferStore(S, tx.var * 10, (tx.var,)), inside)
    body = tir.launch(BufferRealize(S, (Range.of(4),), TRUE, tir.launch(fill, (tx, 4))), (bx, 1))
    found = np.zeros(4, "int32")
    interp.run(tir.func([out], body), [found])
    assert found.tolist() == [30, 21, 12, 3]


def test_nested_axes_of_one_name_are_the_same_threads(tir: type[Programs]) -> None:
    out = ints(8, "out")
    a, b = tir.thread("threadIdx.x"), tir.thread("threadIdx.x")
    store = BufferStore(out, a.var * 10 + b.var, (a.var,))
    found = np.zeros(8, "int32")
    interp.run(tir.func([out], tir.launch(store, (a, 8), (b, 8))), [found])
    assert found.tolist() == [11 * t for t in range(8)]
    with pytest.raises(interp.InterpreterError, match=r"threadIdx\.x with the extents 8 and 4"):
        interp.run(tir.func([out], tir.launch(store, (a, 8), (b, 4))), [found])


def test_thread_binding_loops(tir: type[Programs]) -> None:
    out = ints(8, "out")
    iv = tir.thread("threadIdx.x")
    store = BufferStore(out, I * 2, (I,))
    loop = For(I, ZERO, IntImm(8), ForKind.THREAD_BINDING, store, iv)
    found = np.zeros(8, "int32")
    interp.run(tir.func([out], loop), [found])
    assert found.tolist() == [2 * t for t in range(8)]


def test_virtual_threads_have_their_own_memory(tir: type[Programs]) -> None:
    L = decl_buffer((1,), "int32", "L", "local")
    vthread = tir.thread("vthread")

    def make(t: Var, b: None, A: Buffer, out: Buffer) -> AttrStmt:
        v = vthread.var
        body = seq(BufferStore(L, A[v * 4 + t] + v, (ZERO,)), BufferStore(out, L[0], (v * 4 + t,)))
        body = BufferRealize(L, (Range.of(1),), TRUE, body)
        return AttrStmt(vthread, "virtual_thread", IntImm(2), body)

    out = ints(8, "out")
    A = ints(8, "A")
    tx = tir.thread("threadIdx.x")
    found = np.zeros(8, "int32")
    func = tir.func([A, out], tir.launch(make(tx.var, None, A, out), (tx, 4)))
    interp.run(func, [np.arange(8, dtype="int32") * 10, found])
    assert found.tolist() == [0, 10, 20, 30, 41, 51, 61, 71]


def test_a_virtual_thread_goes_on_after_a_stage_bound_to_it(tir: type[Programs]) -> None:
    """The stage runs for all values of the axis, whose variable then is again what it was."""
    vthread, out = tir.thread("vthread"), ints(4, "out")
    filled = decl_buffer((4,), "int32", "filled", "shared")
    v = vthread.var
    stage = AttrStmt(vthread, "virtual_thread", IntImm(4), BufferStore(filled, v * 10, (v,)))
    body = seq(stage, BufferStore(out, filled[v] + v, (v,)))
    body = AttrStmt(vthread, "virtual_thread", IntImm(4), body)
    body = BufferRealize(filled, (Range.of(4),), TRUE, body)
    found = np.zeros(4, "int32")
    interp.run(tir.func([out], tir.launch(body, (tir.thread("threadIdx.x"), 1))), [found])
    assert found.tolist() == [0, 11, 22, 33]


def test_vectors_in_threads(tir: type[Programs]) -> None:
    A, out = decl_buffer((32,), name="A"), decl_buffer((32,), name="out")
    tx = tir.thread("threadIdx.x")
    index = Ramp(tx.var * 4, IntImm(1), 4)
    scale = Broadcast(op.cast("float32", tx.var), 4)
    value = op.select(op.lt(index, 16), BufferLoad(A, (index,)) * scale, -1.0)
    func = tir.func([A, out], tir.launch(BufferStore(out, value, (index,)), (tx, 8)))
    a, found = np.arange(32, dtype="float32"), np.zeros(32, "float32")
    interp.run(func, [a, found])
    np.testing.assert_array_equal(found, np.where(a < 16, a * (np.arange(32) // 4), -1))


@pytest.mark.parametrize("choose", [op.select, op.if_then_else])
def test_chosen_constants_calculate_in_their_type(
    choose: Callable[..., Expr], tir: type[Programs]
) -> None:
    """Arrays of Python ints would be of int64: sums of int8 do not wrap, with uint64 float64."""
    found: dict[str, list[int]] = {}
    for dtype in ("int8", "uint64"):
        A, out = decl_buffer((4,), dtype, "A"), decl_buffer((4,), "int64", "out")
        tx = tir.thread("threadIdx.x")
        chosen = choose(op.lt(tx.var, 2), op.const(100, dtype), op.const(50, dtype))
        value = op.call("bitwise_or", op.add(chosen, A[tx.var]), op.const(1, dtype))
        store = BufferStore(out, op.cast("int64", value), (tx.var,))
        result = np.zeros(4, "int64")
        func = tir.func([A, out], tir.launch(store, (tx, 4)))
        interp.run(func, [np.array([27, 28, 77, 78], dtype), result])
        found[dtype] = result.tolist()
    assert found == {"int8": [127, -127, 127, -127], "uint64": [127, 129, 127, 129]}


def reducer(
    combine: Callable[..., tuple[Expr, ...]],
    identity: tuple[Expr, ...],
    dtypes: tuple[str, ...] = ("float32",),
) -> CommReducer:
    lhs = tuple(Var(f"x{k}", d) for k, d in enumerate(dtypes))
    rhs = tuple(Var(f"y{k}", d) for k, d in enumerate(dtypes))
    return CommReducer(lhs, rhs, combine(*lhs, *rhs), identity)


def allreduce(
    tir: type[Programs],
    combiner: CommReducer,
    values: tuple[Expr, ...],
    results: tuple[Buffer, ...],
    condition: Expr,
    axes: tuple[Var, ...],
) -> AttrStmt:
    """Allocate the results, reduce into them under reduce_scope."""
    n = IntImm(len(values))
    loads = tuple(r[0] for r in results)
    call = Call(handle, "tvm_thread_allreduce", (n, *values, condition, *loads, *axes))
    return AttrStmt(combiner, "reduce_scope", ZERO, Evaluate(call))


def temporaries(body: Stmt, *buffers: Buffer) -> Stmt:
    for b in buffers:
        body = Allocate(b.data, b.dtype, (IntImm(1),), TRUE, body)
    return body


@pytest.mark.parametrize("shape", [(1, 32), (2, 16), (3, 10), (1, 33), (4, 1)])
def test_sum_over_threads(tir: type[Programs], shape: tuple[int, int]) -> None:
    rows, cols = shape
    A, out = decl_buffer(shape, name="A"), decl_buffer(shape, name="out")
    tx, ty = tir.thread("threadIdx.x"), tir.thread("threadIdx.y")
    temp = decl_buffer((1,), name="reduce_temp0", scope="local")
    total = reducer(lambda x, y: (x + y,), (op.const(0.0),))
    values = (A[ty.var, tx.var],)
    body = seq(
        allreduce(tir, total, values, (temp,), TRUE, (tx.var,)),
        BufferStore(out, temp[0], (ty.var, tx.var)),
    )
    func = tir.func([A, out], tir.launch(temporaries(body, temp), (ty, rows), (tx, cols)))
    a = np.random.default_rng(0).integers(-9, 9, shape).astype("float32")
    found = np.zeros(shape, "float32")
    interp.run(func, [a, found])
    np.testing.assert_array_equal(found, np.broadcast_to(a.sum(1, keepdims=True), shape))


def test_reduction_over_two_axes_takes_only_what_the_condition_allows(tir: type[Programs]) -> None:
    A, out = decl_buffer((4, 8), name="A"), decl_buffer((1,), name="out")
    tx, ty = tir.thread("threadIdx.x"), tir.thread("threadIdx.y")
    temp = decl_buffer((1,), name="reduce_temp0", scope="local")
    largest = reducer(lambda x, y: (op.max_(x, y),), (op.min_value("float32"),))
    condition = op.lt(tx.var + ty.var, 5)
    values = (A[ty.var, tx.var],)
    first = op.and_(op.eq(tx.var, 0), op.eq(ty.var, 0))
    body = seq(
        allreduce(tir, largest, values, (temp,), condition, (tx.var, ty.var)),
        IfThenElse(first, BufferStore(out, temp[0], (ZERO,))),
    )
    func = tir.func([A, out], tir.launch(temporaries(body, temp), (ty, 4), (tx, 8)))
    a = np.arange(32, dtype="float32").reshape(4, 8)
    found = np.zeros(1, "float32")
    interp.run(func, [a, found])
    ys, xs = np.indices((4, 8))
    assert found[0] == a[xs + ys < 5].max()


def test_two_values_reduced_together(tir: type[Programs]) -> None:
    """argmax: the first index of the largest value."""
    A, out = decl_buffer((16,), name="A"), ints(1, "out")
    tx = tir.thread("threadIdx.x")
    best = decl_buffer((1,), name="best", scope="local")
    where = decl_buffer((1,), "int32", "where", "local")

    def combine(v: Var, i: Var, w: Var, j: Var) -> tuple[Expr, Expr]:
        left = op.or_(op.gt(v, w), op.and_(op.eq(v, w), op.lt(i, j)))
        return op.select(left, v, w), op.select(left, i, j)

    argmax = reducer(combine, (op.min_value("float32"), IntImm(-1)), ("float32", "int32"))
    body = seq(
        allreduce(tir, argmax, (A[tx.var], tx.var), (best, where), TRUE, (tx.var,)),
        IfThenElse(op.eq(tx.var, 0), BufferStore(out, where[0], (ZERO,))),
    )
    func = tir.func([A, out], tir.launch(temporaries(body, best, where), (tx, 16)))
    a = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 9, 7, 9, 3, 2], "float32")
    found = np.zeros(1, "int32")
    interp.run(func, [a, found])
    assert found[0] == 5


@pytest.mark.parametrize(
    ("name", "offset", "width", "source"),
    [
        ("tvm_warp_shuffle_down", 4, 32, lambda t: t + 4 if t % 32 + 4 < 32 else t),
        ("tvm_warp_shuffle_up", 4, 8, lambda t: t - 4 if t % 8 >= 4 else t),
        ("tvm_warp_shuffle", 3, 16, lambda t: t // 16 * 16 + 3),
    ],
)
def test_warp_shuffles(
    tir: type[Programs], name: str, offset: int, width: int, source: Callable[[int], int]
) -> None:
    def make(t: Var, b: Var, A: Buffer, out: Buffer) -> BufferStore:
        args = (IntImm(-1), A[t] * 2, IntImm(offset), IntImm(width), IntImm(32))
        return BufferStore(out, Call(int32, name, args), (t,))

    assert kernel(tir, make).tolist() == [2 * source(t) for t in range(64)]


def test_many_blocks_run_in_parts(tir: type[Programs]) -> None:
    def make(t: Var, b: Var, A: Buffer, out: Buffer) -> BufferStore:
        return BufferStore(out, A[b * 1024 + t] + 1, (b * 1024 + t,))

    out = kernel(tir, make, n=1024, blocks=70)
    np.testing.assert_array_equal(out, np.arange(1024 * 70) + 1)


def test_barriers_must_be_reached_by_whole_blocks(tir: type[Programs]) -> None:
    def make(condition: Callable[[Var, Var], Expr]) -> Callable[[Var, Var, Buffer, Buffer], Stmt]:
        return lambda t, b, A, out: seq(
            IfThenElse(condition(t, b), sync()), BufferStore(out, t, (b * 64 + t,))
        )

    kernel(tir, make(lambda t, b: op.eq(b, 1)), blocks=3)
    with pytest.raises(interp.InterpreterError, match="reached by only some threads of a block"):
        kernel(tir, make(lambda t, b: op.lt(t, 32)))


@pytest.mark.parametrize("threads", [32, 1])
def test_merged_shared_memory_is_viewed_as_several_types(tir: type[Programs], threads: int) -> None:
    """In blocks of one thread, too, whose memory no two threads share."""
    last = threads - 1
    out = decl_buffer((2 * threads,), name="out")
    data = pointer("buf", DType("uint8"), "shared.dyn")
    halves = Buffer(data, DType("float16"), (IntImm(32),), name="H")
    floats = Buffer(data, float32, (IntImm(32),), name="F")
    bx, tx = tir.thread("blockIdx.x"), tir.thread("threadIdx.x")
    body = seq(
        BufferStore(halves, op.cast("float16", tx.var), (tx.var,)),
        BufferStore(floats, op.cast("float32", tx.var + bx.var * 100), (tx.var + 16,)),
        sync("shared.dyn"),
        BufferStore(
            out,
            op.cast("float32", halves[last - tx.var]) + floats[16 + last - tx.var],
            (bx.var * threads + tx.var,),
        ),
    )
    body = Allocate(data, DType("uint8"), (IntImm(192),), TRUE, body)
    found = np.zeros(2 * threads, "float32")
    interp.run(tir.func([out], tir.launch(body, (bx, 2), (tx, threads))), [found])
    np.testing.assert_array_equal(
        found, [2 * (last - t) + 100 * b for b in range(2) for t in range(threads)]
    )


@pytest.mark.parametrize("blocks", [1, 4])
def test_memory_of_broken_elements_is_not_viewed(tir: type[Programs], blocks: int) -> None:
    """NumPy refused it, or the blocks had parts of each other's elements."""
    out = decl_buffer((blocks,), name="out")
    data = pointer("buf", DType("uint8"), "shared.dyn")
    floats = Buffer(data, float32, (IntImm(1),), name="F")
    bx, tx = tir.thread("blockIdx.x"), tir.thread("threadIdx.x")
    body = seq(
        BufferStore(floats, op.cast("float32", bx.var), (IntImm(0),)),
        BufferStore(out, floats[0], (bx.var,)),
    )
    body = Allocate(data, DType("uint8"), (IntImm(7),), TRUE, body)
    func = tir.func([out], tir.launch(body, (bx, blocks), (tx, 1)))
    with pytest.raises(InterpreterError, match="7 elements of uint8 cannot be viewed as float32"):
        interp.run(func, [np.zeros(blocks, "float32")])


def test_externs_are_called_per_running_thread(tir: type[Programs]) -> None:
    calls: list[int] = []

    def square(x: int) -> int:
        calls.append(int(x))
        return int(x) ** 2

    interp.register_extern("test.square", square)

    def make(t: Var, b: Var, A: Buffer, out: Buffer) -> Stmt:
        value = Call(int32, "call_pure_extern", (StringImm("test.square"), A[t]))
        return IfThenElse(t < 3, BufferStore(out, value, (t,)))

    assert kernel(tir, make)[:4].tolist() == [0, 1, 4, -9]
    assert calls == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "uint64"])
def test_indices_of_any_type_are_numbers_of_elements(tir: type[Programs], dtype: str) -> None:
    """9 rows of 32 elements are further than an int8 counts."""
    rows = decl_buffer((4,), dtype, "rows")
    A, out = decl_buffer((16, 32), "int32", "A"), ints(4, "out")
    tx = tir.thread("threadIdx.x")
    row = BufferLoad(rows, (tx.var,))
    body = BufferStore(out, BufferLoad(A, (row, row + op.const(9, dtype))), (tx.var,))
    given = np.array([3, 5, 9, 15], dtype)
    values, found = np.arange(512, dtype="int32").reshape(16, 32), np.zeros(4, "int32")
    interp.run(tir.func([rows, A, out], tir.launch(body, (tx, 4))), [given, values, found])
    np.testing.assert_array_equal(found, values[given, given + 9])


@pytest.mark.parametrize("choose", ["Select", "if_then_else"])
def test_one_of_two_values_has_its_type_where_the_other_is_of_each_thread(
    tir: type[Programs], choose: str
) -> None:
    """0 - 3 * 2^63 is 2^63 in uint64, and NumPy makes no number of two ints of Python so large."""
    dtype = DType("uint64")
    A, out = decl_buffer((4,), dtype, "A"), decl_buffer((4,), dtype, "out")
    tx = tir.thread("threadIdx.x")
    one, own = BufferLoad(A, (IntImm(3),)), BufferLoad(A, (tx.var,))
    chosen = op.select(I < 1, own, one) if choose == "Select" else op.if_then_else(I < 1, own, one)
    store = BufferStore(out, op.const(0, dtype) - chosen * 3, (tx.var,))
    body = For(I, ZERO, IntImm(2), ForKind.SERIAL, store)
    given, found = np.array([1, 2, 3, 1 << 63], np.uint64), np.zeros(4, np.uint64)
    func = tir.func([A, out], tir.launch(body, (tx, 4)))
    for eager in (False, True):
        interp.run(func, [given, found], eager_select=eager)
        np.testing.assert_array_equal(found, np.full(4, 1 << 63, np.uint64))


@pytest.mark.parametrize("threads", [True, False])
def test_an_expression_that_is_nested_deeply(tir: type[Programs], threads: bool) -> None:
    """Python takes 200 parentheses in one another. Values stay behind their conditions."""
    A, B = decl_buffer((8,), name="A"), decl_buffer((8,), name="B")
    axis = tir.thread("threadIdx.x")
    t = axis.var if threads else I
    value: Expr = BufferLoad(A, (t,))
    for k in range(150):
        x = Var("x", float32)
        less = Let(x, value, x - op.const(1.0))
        before = BufferLoad(A, (t - 1,))  # out of bounds for the first, which never takes it
        value = Call(float32, "if_then_else", (t < k % 8 + 1, less, before))
    store = BufferStore(B, value, (t,))
    body = tir.launch(store, (axis, 8)) if threads else tir.loop(I, 8, store)
    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    interp.run(tir.func([A, B], body), [a, b])
    expected = a
    for k in range(150):
        expected = np.where(np.arange(8) < k % 8 + 1, expected - 1, a - 1)
    assert b.tolist() == expected.tolist()
