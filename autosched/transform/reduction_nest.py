"""Finding reductions: perfect loop nests around one store that accumulates."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Let, Ramp, Var
from autosched.tir.intrin import is_pure
from autosched.tir.linear import linear
from autosched.tir.op import add, const, mul
from autosched.tir.stmt import BufferStore, For, ForKind
from autosched.tir.walk import free_vars, pre_order, substitute
from autosched.transform.lane_slice import lane_slice
from autosched.transform.widen_lanes import widen


def is_counted(loop: For) -> bool:
    """True for a serial loop from 0 to a positive constant."""
    return (
        loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
        and isinstance(loop.extent, IntImm)
        and isinstance(loop.min, IntImm)
        and loop.min.value == 0
        and loop.extent.value > 0
        and not loop.annotations
    )


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop of the nest. `stride` is how far it moves the store, 0 when it reduces."""

    var: Var
    extent: int
    stride: int


@dataclass(frozen=True, slots=True)
class Nest:
    """A reduction: its loops, outermost first, and its store.

    The store's lanes are `chunks` pieces of `width` lanes, each one vector register or less.
    """

    axes: tuple[Axis, ...]
    store: BufferStore
    chunks: int
    width: int

    @property
    def index(self) -> Expr:
        return self.store.indices[0]


def match_nest(outer: For, vector_bytes: int) -> Nest | None:
    """The reduction that `outer` starts, or None."""
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
    elif isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1:
        base = index.base
    else:
        return None
    if body.buffer.dtype.lanes > 1 or body.value.dtype.lanes != lanes or not _accumulates(body):
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
    if not any(a.stride == 0 and a.extent > 1 for a in axes) or not _injective(axes, lanes):
        return None
    fit = max(1, vector_bytes // body.buffer.dtype.bytes)
    nest = Nest(axes, body, 1, lanes)
    while nest.width < fit and (wider := _widened(nest, fit)) is not None:
        nest = wider
    if lanes > fit and lanes % fit == 0 and lane_slice(body.value, 0, fit) is not None:
        return replace(nest, chunks=lanes // fit, width=fit)
    return nest


def _widened(nest: Nest, fit: int) -> Nest | None:
    """The nest with lanes taken from the loop that moves the store by just its lanes."""
    found = [k for k, a in enumerate(nest.axes) if a.stride == nest.width and a.extent > 1]
    if not found:
        return None
    position = found[0]
    axis = nest.axes[position]
    count = _lanes_from(axis.extent, fit // nest.width)
    if count == 1:
        return None
    store, var = nest.store, axis.var
    lane = Var(f"{var.name}.lane", var.dtype)
    table = {var: add(mul(var, const(count, var.dtype)), lane)}
    index = widen(substitute(nest.index, table), lane, count)
    value = widen(substitute(store.value, table), lane, count)
    if index is None or value is None or not isinstance(index, Ramp):
        return None
    axes = list(nest.axes)
    axes[position] = Axis(var, axis.extent // count, axis.stride * count)
    wide = BufferStore(store.buffer, value, (index,))
    if not _accumulates(wide):
        return None
    return Nest(tuple(axes), wide, 1, nest.width * count)


def _lanes_from(extent: int, limit: int) -> int:
    """How many iterations become lanes: a power of two, or a short odd loop whole."""
    power = extent & -extent
    if power >= limit:
        return 1 << (limit.bit_length() - 1)
    return extent if extent <= limit and extent > 2 * power else power


def _accumulates(store: BufferStore) -> bool:
    found = False
    for e in pre_order(store.value):
        match e:
            case BufferLoad(buffer, indices, predicate) if buffer.data is store.buffer.data:
                if (
                    indices != store.indices
                    or predicate is not None
                    or buffer.dtype is not store.buffer.dtype
                ):
                    return False
                found = True
            case Call(op, _) if not is_pure(op):
                return False
            case Let():
                return False
    return found


def _injective(axes: tuple[Axis, ...], lanes: int) -> bool:
    """True when no two iterations of the spatial loops write a common element."""
    reach = lanes
    for stride, extent in sorted((abs(a.stride), a.extent) for a in axes if a.stride):
        if extent > 1 and stride < reach:
            return False
        reach = stride * (extent - 1) + reach
    return True
