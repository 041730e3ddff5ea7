"""TransposeGathers: gathers across rows become loads along the rows, transposed in registers.

before:
    def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
        for i in range(8):
            B[i * 4:i * 4 + 4] = A[ramp(i, 8, 4)]
after:
    def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
        for i.o in range(2):
            A.0: float32x4 = A[i.o * 4:i.o * 4 + 4]
            A.1: float32x4 = A[i.o * 4 + 8:i.o * 4 + 8 + 4]
            A.2: float32x4 = A[i.o * 4 + 16:i.o * 4 + 16 + 4]
            A.3: float32x4 = A[i.o * 4 + 24:i.o * 4 + 24 + 4]
            A.4: float32x4 = shuffle([A.0, A.1], [0, 4, 1, 5])
            A.5: float32x4 = shuffle([A.2, A.3], [0, 4, 1, 5])
            A.6: float32x4 = shuffle([A.4, A.5], [0, 1, 4, 5])
            A.7: float32x4 = shuffle([A.4, A.5], [2, 3, 6, 7])
            A.8: float32x4 = shuffle([A.0, A.1], [2, 6, 3, 7])
            A.9: float32x4 = shuffle([A.2, A.3], [2, 6, 3, 7])
            A.10: float32x4 = shuffle([A.8, A.9], [0, 1, 4, 5])
            A.11: float32x4 = shuffle([A.8, A.9], [2, 3, 6, 7])
            B[i.o * 4 * 4:i.o * 4 * 4 + 4] = A.6
            B[(i.o * 4 + 1) * 4:(i.o * 4 + 1) * 4 + 4] = A.7
            B[(i.o * 4 + 2) * 4:(i.o * 4 + 2) * 4 + 4] = A.10
            B[(i.o * 4 + 3) * 4:(i.o * 4 + 3) * 4 + 4] = A.11

Vectors are made of blocks of 16 bytes, one from each row, because shuffles within such blocks take
one instruction of AVX and of AVX-512 (unpck). A vector of 16 floats takes four loads, three of
which also insert, and two shuffles. A gather loads each of its lanes separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.nest.lanes import MOST_DEALT
from autosched.tir.expr import (
    BinaryExpr,
    Broadcast,
    BufferLoad,
    Cast,
    Expr,
    IntImm,
    Ramp,
    Shuffle,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.linear import linear
from autosched.tir.loops import around, count_from_zero, trip_count
from autosched.tir.op import add, const, mul
from autosched.tir.stmt import BufferStore, For, ForKind, Stmt, let, seq
from autosched.tir.walk import distinct, free_vars, map_children, rewrite_expr, substitute
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.reduction_nest import Nest, is_counted, match_nest, output_reads

BLOCK = 16
"""Bytes of a block: shuffles within a block take one instruction."""

LEAST_PARALLEL = 16
"""Fewest iterations that a parallel loop keeps, so that all threads have some."""


@dataclass(frozen=True)
class TransposeGathers(FunctionPass):
    """Replaces gathers of neighbouring iterations by loads along the loop, which it transposes.

    A gather is a load of a vector whose elements lie apart. Loops that read what they write, or
    that read under a condition, stay as they are. So do functions whose arguments may overlap.
    """

    name: ClassVar[str] = "TransposeGathers"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias:
            return func
        return func.with_body(_stmt(func.body))


def _stmt(s: Stmt) -> Stmt:
    new = _transposed(s) if isinstance(s, For) else None
    return map_children(s, _stmt) if new is None else new


def _transposed(outer: For) -> Stmt | None:
    """The nest that `outer` starts, without its gathers; None if it has none to transpose."""
    if not (is_counted(outer) or (outer.kind is ForKind.PARALLEL and _is_whole(outer))):
        return None
    nest = match_nest(outer)
    if nest is None or output_reads(BufferStore(nest.buffer, nest.value, (nest.index,))) != 0:
        return None
    loops = list(_loops(outer, len(nest.axes)))
    for load in _gathers(nest.value):
        for loop in loops:
            if _runs_along(load, loop.loop_var) and (new := _by_blocks(nest, loops, loop)):
                return new
    return None


def _is_whole(loop: For) -> bool:
    """Whether the loop runs from 0 to a constant and has no annotations."""
    return count_from_zero(loop) > 0 and not loop.annotations


def _loops(outer: For, count: int) -> Iterator[For]:
    """The `count` loops of a perfect nest, outermost first."""
    loop: Stmt = outer
    for _ in range(count):
        assert isinstance(loop, For), "the nest has as many loops as it has axes"
        yield loop
        loop = loop.body


def _gathers(value: Expr) -> Iterator[BufferLoad]:
    """The different unconditional loads in `value` of vectors whose elements lie apart."""
    for e in distinct(value, _operands):
        match e:
            case BufferLoad(buffer, (Ramp(_, IntImm(stride), lanes),), None):
                near = 0 < stride <= MOST_DEALT or stride == -1
                if not near and buffer.dtype.lanes == 1 and lanes >= _count(buffer.dtype.bytes) > 1:
                    yield e


def _operands(e: Expr) -> Sequence[Expr]:
    """The operands of arithmetic and of conversions."""
    return e.children() if isinstance(e, BinaryExpr | Cast | Broadcast) else ()


def _count(element: int) -> int:
    """The number of elements in a block; 1 for types whose blocks are not transposed."""
    return BLOCK // element if element in (4, 8) else 1


def _runs_along(load: BufferLoad, var: Var) -> bool:
    """Whether the next iteration of the loop over `var` reads the neighbouring elements."""
    (index,) = load.indices
    assert isinstance(index, Ramp)
    _, terms = linear(index.base)
    return terms.pop(var, 0) == 1 and not any(var in free_vars(term) for term in terms)


# ---- building


def _by_blocks(nest: Nest, loops: Sequence[For], along: For) -> Stmt | None:
    """The nest with one iteration of `along` for as many iterations as a block has elements.

    None if the loop is too short for that. A parallel loop must have no iterations left over, and
    keep LEAST_PARALLEL.
    """
    var = along.loop_var
    loads = [load for load in dict.fromkeys(_gathers(nest.value)) if _runs_along(load, var)]
    step = min(_count(load.buffer.dtype.bytes) for load in loads)
    loads = [load for load in loads if _count(load.buffer.dtype.bytes) == step]
    blocks, rest = divmod(trip_count(along), step)
    if blocks == 0 or (along.kind is ForKind.PARALLEL and (rest > 0 or blocks < LEAST_PARALLEL)):
        return None
    outside = Var(f"{var.name}.o", var.dtype)
    start = mul(outside, const(step, var.dtype))
    columns = {load: Var(f"{load.buffer.name}.column", load.dtype) for load in loads}
    value = rewrite_expr(nest.value, lambda e: columns.get(e) if type(e) is BufferLoad else None)
    bound: list[tuple[Var, Expr]] = []
    found = [_columns(substitute(load, {var: start}), step, bound) for load in loads]
    stores: list[Stmt] = []
    for k in range(step):
        at: dict[Var, Expr] = {var: add(start, const(k, var.dtype))}
        at |= {own: made[k] for own, made in zip(columns.values(), found, strict=True)}
        stores.append(
            BufferStore(nest.buffer, substitute(value, at), (substitute(nest.index, at),))
        )
    body = let(bound, seq(*stores))
    shorter = along.with_(loop_var=outside, extent=const(blocks, var.dtype))
    whole = around([shorter if loop is along else loop for loop in loops], body)
    return seq(whole, _rest(nest, loops, along, blocks * step)) if rest else whole


def _rest(nest: Nest, loops: Sequence[For], along: For, done: int) -> Stmt:
    """The iterations of the loop `along` from `done` on, with new variables for all loops."""
    fresh = {
        loop.loop_var: Var(f"{loop.loop_var.name}.tail", loop.loop_var.dtype) for loop in loops
    }
    at: dict[Var, Expr] = dict(fresh)
    at[along.loop_var] = add(fresh[along.loop_var], const(done, along.loop_var.dtype))
    store = BufferStore(nest.buffer, substitute(nest.value, at), (substitute(nest.index, at),))
    renamed = []
    for loop in loops:
        left = trip_count(loop) - done if loop is along else trip_count(loop)
        var = fresh[loop.loop_var]
        renamed.append(loop.with_(loop_var=var, extent=const(left, var.dtype)))
    return around(renamed, store)


def _columns(load: Expr, count: int, bound: list[tuple[Var, Expr]]) -> list[Expr]:
    """The vectors of `load` and the next `count` - 1 gathers, of variables added to `bound`."""
    assert isinstance(load, BufferLoad)
    (index,) = load.indices
    assert isinstance(index, Ramp) and isinstance(index.stride, IntImm)
    lanes, stride = index.lanes, index.stride.value
    parts = 1 << (-(-lanes // count) - 1).bit_length()

    def named(e: Expr) -> Var:
        var = Var(f"{load.buffer.name}.{len(bound)}", e.dtype)
        bound.append((var, e))
        return var

    def row(number: int) -> Expr:
        base = add(index.base, const(min(number, lanes - 1) * stride, index.base.dtype))
        return BufferLoad(load.buffer, (Ramp(base, const(1, base.dtype), count),))

    rows = [named(_joined([row(part * count + k) for part in range(parts)])) for k in range(count)]

    def turned(vectors: Sequence[Expr], group: int) -> list[Expr]:
        if len(vectors) == 1:
            return list(vectors)
        kept = lanes if len(vectors) == 2 else count * parts
        result: list[Expr] = []
        for half in (0, 1):
            order = _interleaved(count, parts, group, half)[:kept]
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            result += turned([named(_shuffled(x, y, order)) for x, y in pairs], 2 * group)
        return result

    return turned(rows, 1)


def _joined(vectors: Sequence[Expr]) -> Expr:
    """The vectors, of one type and a power of two of them, one after the other in one vector."""
    while len(vectors) > 1:
        order = range(2 * vectors[0].dtype.lanes)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_shuffled(x, y, order) for x, y in pairs]
    return vectors[0]


def _shuffled(x: Expr, y: Expr, order: Sequence[int]) -> Expr:
    return Shuffle((x, y), tuple([IntImm(k) for k in order]))


def _interleaved(count: int, parts: int, group: int, half: int) -> list[int]:
    """The order in which groups of lanes of two vectors alternate, from one half of each block."""
    lanes = count * parts
    return [
        vector * lanes + block * count + start + k
        for block in range(parts)
        for start in range(half * count // 2, (half + 1) * count // 2, group)
        for vector in (0, 1)
        for k in range(group)
    ]
