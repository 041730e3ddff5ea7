"""Schedules for the CPU and for a GPU in which every pass of the pipelines has work to do.

Sizes are not multiples of tiles, buffers live one after another, and conditions stand inside loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched import te
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir.expr import BufferLoad, IntImm, IterVar, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import const, eq, if_then_else
from autosched.tir.stmt import (
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    SeqStmt,
    Stmt,
)
from kit.te import both_axes, compute_of

FLOAT8 = "float8_e4m3fn"


def lowered(name: str, gpu: bool) -> PrimFunc:
    """The function of a schedule, as it enters the pipeline."""
    return schedule_to_prim_func(*CASES[name](gpu))


def _threads(sch: Any, stage: Any, block: Any, thread: Any) -> None:
    sch[stage].bind(block, te.thread_axis("blockIdx.x"))
    sch[stage].bind(thread, te.thread_axis("threadIdx.x"))


def tiled_matmul(gpu: bool) -> tuple[Any, list[Any]]:
    """Tiles that do not divide the sizes, a cached output and an epilogue."""
    A, B = te.placeholder((21, 18), name="A"), te.placeholder((18, 36), name="B")
    k = te.reduce_axis((0, 18), name="k")
    C = te.compute((21, 36), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((21, 36), lambda i, j: te.max(C[i, j], 0.0), name="D")
    sch = te.create_schedule(D.op)
    io, jo, _, ji = sch[D].tile(*both_axes(D), 4, 16)
    if gpu:
        _threads(sch, D, io, ji)
        sch[C].compute_at(sch[D], ji)
        shared = sch.cache_read(B, "shared", [C])
        sch[shared].compute_at(sch[C], C.op.reduce_axis[0])
        return sch, [A, B, D]
    sch[D].parallel(sch[D].fuse(io, jo))
    sch[D].vectorize(ji)
    sch[C].compute_at(sch[D], sch[D].leaf_iter_vars[0])
    ko, ki = sch[C].split(k, factor=4)
    i, j = C.op.axis
    sch[C].reorder(ko, i, ki, j)
    sch[C].vectorize(j)
    sch[C].pragma(ko, "auto_unroll_max_step", 64)
    return sch, [A, B, D]


def padded_window(gpu: bool) -> tuple[Any, list[Any]]:
    """A padded input that is computed where it is used, and sums over a window."""
    A = te.placeholder((30, 10), name="A")
    P = te.compute(
        (32, 10),
        lambda i, c: te.if_then_else(te.all(i >= 1, i < 31), A[i - 1, c], 0.0),
        name="P",
    )
    k = te.reduce_axis((0, 3), name="k")
    B = te.compute((30, 10), lambda i, c: te.sum(P[i + k, c], axis=k), name="B")
    sch = te.create_schedule(B.op)
    outer, inner = sch[B].split(B.op.axis[0], factor=7)
    sch[P].compute_at(sch[B], outer)
    if gpu:
        _threads(sch, B, outer, inner)
        thread = te.thread_axis((0, 7), "threadIdx.x")
        sch[P].bind(sch[P].split(P.op.axis[0], nparts=7)[0], thread)
        sch[P].set_scope("shared")
        sch[B].pragma(sch[B].leaf_iter_vars[2], "auto_unroll_max_step", 64)
        sch[B].pragma(sch[B].leaf_iter_vars[2], "unroll_explicit", 1)
    return sch, [A, B]


def pooled_border(gpu: bool) -> tuple[Any, list[Any]]:
    """Maxima over a window that checks for the border itself."""
    A = te.placeholder((24,), name="A")
    P = te.compute(
        (26,), lambda i: te.if_then_else(te.all(i >= 1, i < 25), A[i - 1], -9.0), name="P"
    )
    k = te.reduce_axis((0, 3), name="k")
    B = te.compute((24,), lambda i: te.max(P[i + k], axis=k), name="B")
    sch = te.create_schedule(B.op)
    sch[P].compute_inline()
    if gpu:
        _threads(sch, B, *sch[B].split(B.op.axis[0], factor=8))
    return sch, [A, B]


def pooled_image(gpu: bool) -> tuple[Any, list[Any]]:
    """Maxima over overlapping windows."""
    A = te.placeholder((7, 43), name="A")
    r, s = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 3), name="s")
    B = te.compute((3, 21), lambda i, j: te.max(A[i * 2 + r, j * 2 + s], axis=[r, s]), name="B")
    sch = te.create_schedule(B.op)
    if gpu:
        _threads(sch, B, *both_axes(B))
    return sch, [A, B]


def pooled_frame(gpu: bool) -> tuple[Any, list[Any]]:
    """Maxima over windows that check for the border on all sides."""
    A = te.placeholder((5, 21), name="A")

    def padded(i: Var, j: Var) -> Any:
        inside = te.all(i >= 1, i < 6, j >= 1, j < 22)
        return te.if_then_else(inside, A[i - 1, j - 1], te.min_value("float32"))

    P = te.compute((7, 23), padded, name="P")
    r, s = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 3), name="s")
    B = te.compute((5, 21), lambda i, j: te.max(P[i + r, j + s], axis=[r, s]), name="B")
    sch = te.create_schedule(B.op)
    sch[P].compute_inline()
    if gpu:
        _threads(sch, B, *both_axes(B))
    return sch, [A, B]


def filtered_border(gpu: bool) -> tuple[Any, list[Any]]:
    """Sums over windows of four channels, with the border in the same loop as other tiles.

    Four channels are whole vectors for SSE alone: the border gets loops of its own for wider ones.
    """
    A, W = te.placeholder((4, 32, 4), name="A"), te.placeholder((3, 4), name="W")
    P = te.compute(
        (4, 34, 4),
        lambda n, i, c: te.if_then_else(te.all(i >= 1, i < 33), A[n, i - 1, c], 0.0),
        name="P",
    )
    k = te.reduce_axis((0, 3), name="k")
    B = te.compute((4, 32, 4), lambda n, i, c: te.sum(P[n, i + k, c] * W[k, c], axis=k), name="B")
    sch = te.create_schedule(B.op)
    sch[P].compute_inline()
    n, i, c = compute_of(B).axis
    outer, inner = sch[B].split(i, factor=4)
    if gpu:
        _threads(sch, B, n, outer)
        return sch, [A, W, B]
    sch[B].reorder(n, outer, k, inner, c)
    sch[B].parallel(sch[B].fuse(n, outer))
    return sch, [A, W, B]


def chain_of_copies(gpu: bool) -> tuple[Any, list[Any]]:
    """Fused loops over stages that can share memory, and quotients of remainders."""
    A = te.placeholder((24, 8), name="A")
    B = te.compute((24, 8), lambda i, j: A[23 - i, j] + 1.0, name="B")
    C = te.compute((24, 8), lambda i, j: te.exp(B[23 - i, j]), name="C")
    D = te.compute((24, 8), lambda i, j: C[23 - i, j] * 2.0, name="D")
    E = te.compute((8, 24), lambda i, j: D[(i + 2) % 8 // 2 + j % 2, i], name="E")
    sch = te.create_schedule(E.op)
    sch[E].reorder(*reversed(E.op.axis))
    for stage in (B, C, D, E):
        fused = sch[stage].fuse(*sch[stage].leaf_iter_vars)
        outer, inner = sch[stage].split(fused, factor=32)
        if stage is not E:
            inner, last = sch[stage].split(inner, factor=4)
            sch[stage].unroll(last)
        if gpu:
            _threads(sch, stage, outer, inner)
    return sch, [A, E]


def prefetched_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """Rows that are prefetched and double-buffered, in two virtual threads."""
    A = te.placeholder((32, 12), name="A")
    B = te.compute((32, 12), lambda i, j: A[i, j] * A[i, j], name="B")
    C = te.compute((32, 12), lambda i, j: B[i, 11 - j] + 1.0, name="C")
    sch = te.create_schedule(C.op)
    i, j = C.op.axis
    half, row = sch[C].split(i, nparts=2)
    if gpu:
        block, row = sch[C].split(row, nparts=4)
        sch[C].bind(block, te.thread_axis("blockIdx.x"))
    sch[C].reorder(half, row)
    sch[C].bind(half, te.thread_axis("vthread"))
    sch[B].compute_at(sch[C], row)
    sch[B].double_buffer()
    sch[B].prefetch(A, B.op.axis[0], 1)
    if gpu:
        sch[B].set_scope("shared")
        for stage, axis in ((C, j), (B, B.op.axis[1])):
            sch[stage].bind(axis, te.thread_axis((0, 12), "threadIdx.x"))
    return sch, [A, C]


def narrow_types(gpu: bool) -> tuple[Any, list[Any]]:
    """bfloat16, floats of 8 bits, and indices of 64 bits that fit into 32."""
    n = te.const(50, "int64")
    A, E = te.placeholder((n,), "bfloat16", name="A"), te.placeholder((n,), FLOAT8, name="E")
    B = te.compute((n,), lambda i: A[i] * A[i] + te.const(1, "bfloat16"), name="B")

    def rounded_on_the_way(i: Any) -> Any:
        small = te.cast("float8_e5m2", te.cast("float32", E[i]) * 0.37)
        return te.cast("float32", E[i] * E[i]) + te.cast("float32", small)

    C = te.compute((n,), rounded_on_the_way, name="C")
    sch = te.create_schedule([B.op, C.op])
    for stage in (B, C):
        outer, inner = sch[stage].split(stage.op.axis[0], factor=10)
        if gpu:
            inner, last = sch[stage].split(inner, factor=2)
            _threads(sch, stage, outer, inner)
            inner = last
        sch[stage].vectorize(inner)
    return sch, [A, E, B, C]


def guarded_select(gpu: bool) -> tuple[Any, list[Any]]:
    """A Select that must not read out of bounds, and a condition that unrolling decides."""
    A = te.placeholder((20,), name="A")
    B = te.compute(
        (8, 5, 6),
        lambda i, j, k: te.select(i < 4, A[te.max(i * 5 + j, 0)], te.const(0.0)),
        name="B",
    )
    C = te.compute((8, 5, 6), lambda i, j, k: B[i, j, k] + 1.0, name="C")
    sch = te.create_schedule(C.op)
    i, j, k = C.op.axis
    outer, inner = sch[C].split(i, factor=3)
    sch[C].unroll(j)
    sch[C].set_store_predicate(j * 6 + k < 20)
    if gpu:
        _threads(sch, C, outer, inner)
        sch[B].compute_inline()
    else:
        sch[B].compute_at(sch[C], inner)
        sch[B].set_scope("local")
    return sch, [A, C]


def shifted_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """A vector Select that must not read before its tensor, and one that reads existing data."""
    A = te.placeholder((17, 20), name="A")
    B = te.compute((6, 20), lambda i, j: te.select(j >= 1, A[i, j - 1], te.const(0.0)), name="B")
    C = te.compute(
        (17,), lambda i: te.exp(te.select(A[i, 0] < 0.5, A[i, 1], A[16 - i, 2])), name="C"
    )
    sch = te.create_schedule([B.op, C.op])
    i, j = B.op.axis
    outer, inner = sch[B].split(j, factor=4)
    sch[B].vectorize(inner)
    if gpu:
        _threads(sch, B, i, outer)
        _threads(sch, C, *sch[C].split(C.op.axis[0], factor=2))
    return sch, [A, B, C]


def divided_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """Each element divided by the sum of its row, which is recomputed for every element."""
    A = te.placeholder((6, 40), name="A")
    k = te.reduce_axis((0, 40), name="k")
    total = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="total")
    D = te.compute((6, 40), lambda i, j: A[i, j] / total[i], name="D")
    sch = te.create_schedule(D.op)
    i, j = D.op.axis
    if gpu:
        _threads(sch, D, i, j)
    sch[total].compute_at(sch[D], j)
    if gpu:
        sch[total].set_scope("local")
    return sch, [A, D]


def scaled_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """The squares of a row, divided by their sum."""
    A = te.placeholder((6, 40), name="A")
    E = te.compute((6, 40), lambda i, j: A[i, j] * A[i, j], name="E")
    k = te.reduce_axis((0, 40), name="k")
    total = te.compute((6,), lambda i: te.sum(E[i, k], axis=k), name="total")
    D = te.compute((6, 40), lambda i, j: E[i, j] / total[i], name="D")
    sch = te.create_schedule(D.op)
    i, j = D.op.axis
    if gpu:
        _threads(sch, D, i, j)
    for stage in (E, total):
        sch[stage].compute_at(sch[D], i)
        if gpu:
            sch[stage].set_scope("local")
    return sch, [A, D]


def short_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """Windows with three outputs, over rows of five elements."""
    A, W = te.placeholder((4, 5), name="A"), te.placeholder((3,), name="W")
    k = te.reduce_axis((0, 3), name="k")
    B = te.compute((4, 3), lambda i, j: te.sum(A[i, j + k] * W[k], axis=k), name="B")
    sch = te.create_schedule(B.op)
    i, j = both_axes(B)
    if gpu:
        _threads(sch, B, i, j)
    else:
        sch[B].reorder(k, i, j)
        sch[B].vectorize(j)
    return sch, [A, W, B]


def summed_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """Sums that the threads of a block compute together."""
    A = te.placeholder((6, 40), name="A")
    k = te.reduce_axis((0, 40), name="k")
    total = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="total")
    C = te.compute((6, 8), lambda i, j: A[i, j] * total[i], name="C")
    sch = te.create_schedule(C.op)
    i, j = C.op.axis
    inner = sch[total].split(k, factor=8)[1]
    sch[total].compute_at(sch[C], i)
    if gpu:
        thread = te.thread_axis((0, 8), "threadIdx.x")
        sch[C].bind(i, te.thread_axis("blockIdx.x"))
        sch[C].bind(j, thread)
        sch[total].bind(inner, thread)
        sch[total].set_scope("shared")
    return sch, [A, C]


def turned_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """Rows in reverse order, on a GPU through dynamic shared memory."""
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((6, 8), lambda i, j: B[i, 7 - j] * 2.0, name="C")
    sch = te.create_schedule(C.op)
    i, j = C.op.axis
    sch[B].compute_at(sch[C], i)
    if gpu:
        thread = te.thread_axis((0, 8), "threadIdx.x")
        sch[C].bind(i, te.thread_axis("blockIdx.x"))
        sch[C].bind(j, thread)
        sch[B].bind(B.op.axis[1], thread)
        sch[B].set_scope("shared.dyn")
    return sch, [A, C]


def idle_loop(gpu: bool) -> tuple[Any, list[Any]]:
    """An extern operation whose statement ends with a loop that does nothing."""
    A = te.placeholder((4,), name="A")

    def body(ins: list[Any], outs: list[Any]) -> Stmt:
        i, j = te.thread_axis((0, 4), "threadIdx.x") if gpu else Var("i"), Var("j")
        var = i.var if isinstance(i, IterVar) else i
        store: Stmt = BufferStore(outs[0], BufferLoad(ins[0], (var,)), (var,))
        if isinstance(i, IterVar):
            copy: Stmt = AttrStmt(i, "thread_extent", IntImm(4), store)
        else:
            copy = For(i, IntImm(0), IntImm(4), ForKind.SERIAL, store)
        idle = For(j, IntImm(0), IntImm(4), ForKind.SERIAL, Evaluate(IntImm(0)))
        return SeqStmt((copy, idle))

    B = te.extern((4,), [A], body, dtype="float32", name="B")
    return te.create_schedule(B.op), [A, B]


def spread_image(gpu: bool) -> tuple[Any, list[Any]]:
    """A transposed convolution: sums over an input with zeros between its elements."""
    X, K = te.placeholder((5, 3), name="X"), te.placeholder((3, 3, 4), name="K")

    def image(i: Any, c: Any) -> Any:
        inside = te.all(i >= 1, i < 10, eq((i - 1) % 2, 0))
        return te.if_then_else(inside, X[(i - 1) // 2, c], 0.0)

    P = te.compute((11, 3), image, name="P")
    r, c = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 3), name="c")
    Y = te.compute((9, 4), lambda i, o: te.sum(P[i + r, c] * K[r, c, o], axis=[r, c]), name="Y")
    sch = te.create_schedule(Y.op)
    if gpu:
        sch[P].compute_inline()
        _threads(sch, Y, *both_axes(Y))
    else:
        sch[Y].vectorize(Y.op.axis[1])
    return sch, [X, K, Y]


def packed_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """On a CPU, parts of B are copied for all rows, so that the reduction has several places."""
    A, B = te.placeholder((4, 8), name="A"), te.placeholder((8, 5), name="B")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((4, 5), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    sch = te.create_schedule(C.op)
    i, j = both_axes(C)
    if gpu:
        _threads(sch, C, i, j)
        return sch, [A, B, C]
    packed = sch.cache_read(B, "global", [C])
    outer, inner = sch[C].split(k, factor=4)
    sch[C].reorder(outer, i, inner, j)
    sch[packed].compute_at(sch[C], outer)
    return sch, [A, B, C]


def normalised_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """The sum of a row and the sum of its squares, which need the same elements."""
    A = te.placeholder((3, 32), name="A")
    k, m = te.reduce_axis((0, 32), name="k"), te.reduce_axis((0, 32), name="m")
    total = te.compute((3,), lambda i: te.sum(A[i, k], axis=k), name="total")
    squares = te.compute((3,), lambda i: te.sum(A[i, m] * A[i, m], axis=m), name="squares")
    D = te.compute((3, 32), lambda i, j: (A[i, j] - total[i]) * squares[i], name="D")
    sch = te.create_schedule(D.op)
    i, j = both_axes(D)
    if gpu:
        _threads(sch, D, i, j)
    for stage in (total, squares):
        sch[stage].compute_at(sch[D], i)
        if gpu:
            sch[stage].set_scope("local")
    return sch, [A, D]


def across_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """A transposition whose vectors read across rows; the last rows do not fill a vector."""
    A = te.placeholder((20, 10), name="A")
    B = te.compute((10, 20), lambda i, j: A[j, i] + 1.0, name="B")
    sch = te.create_schedule(B.op)
    if gpu:
        _threads(sch, B, *both_axes(B))
    return sch, [A, B]


def exponentials(gpu: bool) -> tuple[Any, list[Any]]:
    """Exponentials of differences; the number of vectors is not a multiple of four."""
    A = te.placeholder((72,), name="A")
    B = te.compute((72,), lambda i: te.exp(A[i] - A[0]), name="B")
    sch = te.create_schedule(B.op)
    if gpu:
        _threads(sch, B, *sch[B].split(compute_of(B).axis[0], factor=8))
    return sch, [A, B]


def long_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """Rows of 512 elements divided by their sums."""
    A = te.placeholder((3, 512), name="A")
    k = te.reduce_axis((0, 512), name="k")
    T = te.compute((3,), lambda i: te.sum(A[i, k], axis=k), name="T")
    B = te.compute((3, 512), lambda i, j: A[i, j] / T[i], name="B")
    sch = te.create_schedule(B.op)
    i, j = both_axes(B)
    if gpu:
        _threads(sch, B, i, sch[B].split(j, factor=64)[1])
        _threads(sch, T, T.op.axis[0], sch[T].split(k, factor=1)[1])
        return sch, [A, B]
    sch[T].compute_at(sch[B], i)
    return sch, [A, B]


def outer_products(gpu: bool) -> tuple[Any, list[Any]]:
    """A matmul in which each thread has three rows of four sums, unrolled."""
    A, B = te.placeholder((12, 6), name="A"), te.placeholder((6, 32), name="B")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((12, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    sch = te.create_schedule(C.op)
    own = sch.cache_write(C, "local" if gpu else "global")
    io, jo, _, _ = sch[C].tile(*both_axes(C), 3, 4)
    if gpu:
        _threads(sch, C, io, jo)
    sch[own].compute_at(sch[C], jo)
    stage = sch[own]
    (k,) = compute_of(own).reduce_axis
    stage.reorder(k, *both_axes(own))
    stage.pragma(k, "auto_unroll_max_step", 16)
    return sch, [A, B, C]


def lower_rows(gpu: bool) -> tuple[Any, list[Any]]:
    """Sums of the elements of each row up to the diagonal."""
    A, k = te.placeholder((4, 256), name="A"), te.reduce_axis((0, 256), name="k")
    B = te.compute(
        (4,),
        lambda i: te.sum(if_then_else(k <= i, A[i, k], const(0.0)), axis=k),
        name="B",
    )
    sch = te.create_schedule(B.op)
    if gpu:
        _threads(sch, B, *sch[B].split(B.op.axis[0], factor=2))
    return sch, [A, B]


CASES: dict[str, Callable[[bool], tuple[Any, list[Any]]]] = {
    "tiled_matmul": tiled_matmul,
    "padded_window": padded_window,
    "pooled_border": pooled_border,
    "pooled_image": pooled_image,
    "pooled_frame": pooled_frame,
    "filtered_border": filtered_border,
    "chain_of_copies": chain_of_copies,
    "prefetched_rows": prefetched_rows,
    "narrow_types": narrow_types,
    "guarded_select": guarded_select,
    "shifted_rows": shifted_rows,
    "divided_rows": divided_rows,
    "scaled_rows": scaled_rows,
    "short_rows": short_rows,
    "summed_rows": summed_rows,
    "turned_rows": turned_rows,
    "idle_loop": idle_loop,
    "spread_image": spread_image,
    "packed_rows": packed_rows,
    "normalised_rows": normalised_rows,
    "across_rows": across_rows,
    "exponentials": exponentials,
    "long_rows": long_rows,
    "outer_products": outer_products,
    "lower_rows": lower_rows,
}
