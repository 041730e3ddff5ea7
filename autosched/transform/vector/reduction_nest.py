"""Perfect nests of counted loops around one store: the input of vectors and register tiles."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.nest.loop_nest import InnerLoop, is_injective
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_one
from autosched.tir.expr import (
    Add,
    BinaryExpr,
    BufferLoad,
    Call,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Max,
    Min,
    Ramp,
    Var,
)
from autosched.tir.intrin import is_pure
from autosched.tir.kinds import bits_of, loads_in, nodes_with
from autosched.tir.lanes import scalar_of
from autosched.tir.linear import linear
from autosched.tir.loops import count_from_zero
from autosched.tir.stmt import BufferStore, For, ForKind
from autosched.tir.walk import distinct, free_vars
from autosched.transform.vector.lanes import lane_slice

_READS = bits_of(BufferLoad, Call, Let)


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop of the nest. `stride` is the distance that it moves the store by, 0 if it reduces."""

    var: Var
    extent: int
    stride: int

    @property
    def reduces(self) -> bool:
        return self.stride == 0


@dataclass(frozen=True, slots=True)
class Nest:
    """A store into `buffer[index]`: its loops, outermost first, and what a step computes.

    Without `fold`, `value` is the new value of the `width` outputs at `index` (a reduction reads
    them). With `fold` (Add, Max or Min), `index` is a scalar, `value` has `width` lanes without the
    output itself, and output = fold(output, each lane).
    """

    axes: tuple[Axis, ...]
    buffer: Buffer
    index: Expr
    value: Expr
    width: int
    fold: type[BinaryExpr] | None = None


def is_counted(loop: For) -> bool:
    """Whether a serial or unrolled loop runs from 0 to a positive constant, without annotations."""
    return (
        loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
        and count_from_zero(loop) > 0
        and not loop.annotations
    )


def match_nest(outer: For) -> Nest | None:
    """The perfect nest of counted loops around one store that `outer` starts, or None.

    Iterations that move the store write different elements, contiguous in each vector. The value
    reads the buffer that it is stored to at the same index only.
    """
    loops = [outer]
    body = outer.body
    while isinstance(body, For) and is_counted(body):
        loops.append(body)
        body = body.body
    if not isinstance(body, BufferStore) or body.predicate is not None or len(body.indices) != 1:
        return None
    (index,) = body.indices
    lanes = index.dtype.lanes
    if lanes == 1:
        base = index
    elif isinstance(index, Ramp) and is_one(index.stride):
        base = index.base
    else:
        return None
    if body.buffer.dtype.lanes > 1 or body.value.dtype.lanes != lanes:
        return None
    _, terms = linear(base)
    variables = {loop.loop_var for loop in loops}
    if any(not isinstance(t, Var) and not variables.isdisjoint(free_vars(t)) for t in terms):
        return None
    axes = tuple(
        Axis(p.loop_var, p.extent.value, terms.get(p.loop_var, 0))
        for p in loops
        if isinstance(p.extent, IntImm)
    )
    moving = tuple(InnerLoop(a.extent, a.stride, ()) for a in axes)
    if output_reads(body) is None or not is_injective(moving, lanes):
        return None
    return Nest(axes, body.buffer, index, body.value, lanes)


def output_reads(store: BufferStore) -> int | None:
    """How many loads of the stored element are in the value; None if it reads other elements.

    Also None if the index of the store loads from the buffer, and if the value may have effects or
    binds variables.
    """
    if any(e.buffer.data is store.buffer.data for index in store.indices for e in loads_in(index)):
        return None
    found = 0
    for e in nodes_with(store.value, _READS):
        match e:
            case BufferLoad(buffer, indices, predicate) if buffer.data is store.buffer.data:
                if (
                    indices != store.indices
                    or predicate is not None
                    or not buffer.is_laid_out_as(store.buffer)
                ):
                    return None
                found += 1
            case Call(op, _) if not is_pure(op):
                return None
            case Let():
                return None
    return found


def is_reduction(nest: Nest) -> bool:
    """Whether the nest updates its outputs more than once, lane by lane.

    It reads them through the buffer that it stores to: another view of the same memory would not
    see what is kept in registers.
    """
    if not any(a.reduces and a.extent > 1 for a in nest.axes):
        return False
    buffer = nest.buffer
    if any(e.buffer.data is buffer.data and e.buffer is not buffer for e in loads_in(nest.value)):
        return False
    if nest.width > 1 and lane_slice(nest.value, 0, 1) is None:
        return False  # the lanes of its value cannot be told apart
    return bool(output_reads(BufferStore(nest.buffer, nest.value, (nest.index,))))


def folded_term(nest: Nest) -> Expr | None:
    """The term `f` of a value `op(output, f)`, if `op` may be reordered; else None.

    A constant is no such term: nothing is left of it where it is the 0 of a sum.
    """
    value = nest.value
    if not isinstance(value, Add | Max | Min):
        return None
    output = BufferLoad(nest.buffer, (nest.index,))
    for own, other in ((value.a, value.b), (value.b, value.a)):
        constant = scalar_of(other)
        if isinstance(constant, IntImm | FloatImm):
            continue
        if own is output and not any(e is output for e in distinct(other)):
            return other
    return None
