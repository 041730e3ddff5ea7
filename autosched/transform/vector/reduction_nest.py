"""Finding reductions: perfect loop nests around one store that accumulates.

A nest is normalised for vector registers: loops over consecutive outputs become lanes; where the
loads are only contiguous along the reduction, lanes accumulate parts of one output instead, which
are folded at the end; a loop that does not divide into vectors is cut into two nests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autosched.tir.buffer import Buffer
from autosched.tir.expr import (
    Add,
    BinaryExpr,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Let,
    Max,
    Min,
    Ramp,
    Var,
)
from autosched.tir.intrin import is_pure
from autosched.tir.linear import linear
from autosched.tir.op import add, const, mul
from autosched.tir.stmt import BufferStore, For, ForKind
from autosched.tir.walk import free_vars, pre_order, substitute
from autosched.transform.vector.lanes import lane_slice, widen

LEAST_LANES = 4


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop of the nest. `stride` is how far it moves the store, 0 when it reduces."""

    var: Var
    extent: int
    stride: int

    @property
    def reduces(self) -> bool:
        return self.stride == 0


@dataclass(frozen=True, slots=True)
class Nest:
    """A reduction into `buffer[index]`: its loops, outermost first, and what a step computes.

    Without `fold`, `value` is the new value of the outputs at `index` (it reads them), whose lanes
    are `chunks` pieces of `width`. With `fold` (Add, Max or Min), `index` is a scalar, `value` has
    `width` lanes without the output itself, and output = fold(output, each lane).
    """

    axes: tuple[Axis, ...]
    buffer: Buffer
    index: Expr
    value: Expr
    chunks: int
    width: int
    fold: type[BinaryExpr] | None = None


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


def match_nests(outer: For, vector_bytes: int, reassociate: bool) -> list[Nest]:
    """The reduction that `outer` starts as nests to run in order; empty when it is none.

    With `reassociate`, sums of floats may be split into partial sums.
    """
    nest = match_nest(outer)
    if nest is None or not any(a.reduces and a.extent > 1 for a in nest.axes):
        return []
    if not output_reads(BufferStore(nest.buffer, nest.value, (nest.index,))):
        return []
    fit = max(1, vector_bytes // nest.buffer.dtype.bytes)
    return [without_single_iterations(n) for n in _vectorised(nest, fit, reassociate)]


def match_nest(outer: For) -> Nest | None:
    """The perfect nest of counted loops around one store that `outer` starts, or None.

    Iterations that move the store write different elements, contiguous in each vector; the value
    reads the buffer it is stored to at the same place only.
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
    elif isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1:
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
    if output_reads(body) is None or not _injective(axes, lanes):
        return None
    return Nest(axes, body.buffer, index, body.value, 1, lanes)


def output_reads(store: BufferStore) -> int | None:
    """How often the value reads the element stored to; None when it reads others beside it.

    Also None when the value may have effects or binds variables.
    """
    found = 0
    for e in pre_order(store.value):
        match e:
            case BufferLoad(buffer, indices, predicate) if buffer.data is store.buffer.data:
                if (
                    indices != store.indices
                    or predicate is not None
                    or buffer.dtype is not store.buffer.dtype
                ):
                    return None
                found += 1
            case Call(op, _) if not is_pure(op):
                return None
            case Let():
                return None
    return found


def _injective(axes: tuple[Axis, ...], lanes: int) -> bool:
    """True when no two iterations of the spatial loops write a common element."""
    reach = lanes
    for stride, extent in sorted((abs(a.stride), a.extent) for a in axes if a.stride):
        if extent > 1 and stride < reach:
            return False
        reach = stride * (extent - 1) + reach
    return True


def without_single_iterations(nest: Nest) -> Nest:
    """The nest without loops that run once; one loop that reduces stays in any case."""
    single = [a for a in nest.axes if a.extent == 1]
    reducing = [a for a in nest.axes if a.reduces]
    if reducing and all(a.extent == 1 for a in reducing):
        single.remove(reducing[-1])
    if not single:
        return nest
    table = {a.var: const(0, a.var.dtype) for a in single}
    axes = tuple(a for a in nest.axes if a.var not in table)
    index, value = substitute(nest.index, table), substitute(nest.value, table)
    return replace(nest, axes=axes, index=index, value=value)


# -- lanes --------------------------------------------------------------------------------------


def _vectorised(nest: Nest, fit: int, reassociate: bool) -> Iterator[Nest]:
    """The nest over vectors of up to `fit` lanes, in as many pieces as that takes."""
    along_outputs = nest
    while along_outputs.width < fit and (wider := widened(along_outputs, fit)) is not None:
        along_outputs = wider
    if 2 * along_outputs.width < fit or _gathers(along_outputs):
        folded = _folded(nest, fit, reassociate)
        if folded is not None:
            yield from folded
            return
    cut = cut_outputs(nest, fit) if 2 * along_outputs.width < fit else None
    if cut is not None:
        for part in cut:
            yield from _vectorised(part, fit, reassociate)
        return
    lanes = along_outputs.width
    if lanes > fit and lanes % fit == 0 and lane_slice(nest.value, 0, fit) is not None:
        along_outputs = replace(along_outputs, chunks=lanes // fit, width=fit)
    yield along_outputs


def widened(nest: Nest, fit: int) -> Nest | None:
    """The nest with lanes taken from the loop that moves the store by just its lanes."""
    found = [k for k, a in enumerate(nest.axes) if a.stride == nest.width and a.extent > 1]
    if not found:
        return None
    axis = nest.axes[found[0]]
    count = lanes_from(axis.extent, fit // nest.width)
    if count == 1:
        return None
    index, value = (_side_by_side(e, axis.var, count) for e in (nest.index, nest.value))
    if index is None or value is None or not isinstance(index, Ramp):
        return None
    if output_reads(BufferStore(nest.buffer, value, (index,))) is None:
        return None
    axes = _with_axis(nest, axis, Axis(axis.var, axis.extent // count, axis.stride * count))
    return Nest(axes, nest.buffer, index, value, 1, nest.width * count)


def _with_axis(nest: Nest, old: Axis, new: Axis) -> tuple[Axis, ...]:
    return tuple(new if a is old else a for a in nest.axes)


def _side_by_side(e: Expr, var: Var, count: int) -> Expr | None:
    lane = Var(f"{var.name}.lane", var.dtype)
    moved = substitute(e, {var: add(mul(var, const(count, var.dtype)), lane)})
    return widen(moved, lane, count)


def lanes_from(extent: int, limit: int) -> int:
    """How many iterations become lanes: a power of two, or a short odd loop whole."""
    power = extent & -extent
    if power >= limit:
        return 1 << (limit.bit_length() - 1)
    return extent if extent <= limit and extent > 2 * power else power


def _gathers(nest: Nest) -> bool:
    """True when a vector load is not contiguous."""
    for e in pre_order(nest.value):
        if isinstance(e, BufferLoad) and e.indices[0].dtype.lanes > 1:
            match e.indices[0]:
                case Ramp(_, IntImm(1), _):
                    pass
                case _:
                    return True
    return False


def cut_outputs(nest: Nest, fit: int) -> tuple[Nest, Nest] | None:
    """The nest in two where the loop over consecutive outputs is longer than whole vectors."""
    for axis in nest.axes:
        if axis.stride == nest.width:
            return _split_at(nest, axis, axis.extent - axis.extent % max(1, fit // nest.width))
    return None


def _split_at(nest: Nest, axis: Axis, at: int) -> tuple[Nest, Nest] | None:
    if not 0 < at < axis.extent:
        return None
    first = replace(nest, axes=_with_axis(nest, axis, Axis(axis.var, at, axis.stride)))
    fresh = {a.var: Var(f"{a.var.name}.tail", a.var.dtype) for a in nest.axes}
    table: dict[Var, Expr] = dict(fresh)
    table[axis.var] = add(fresh[axis.var], const(at, axis.var.dtype))
    axes = tuple(
        Axis(fresh[a.var], a.extent - at if a is axis else a.extent, a.stride) for a in nest.axes
    )
    index, value = substitute(nest.index, table), substitute(nest.value, table)
    return first, replace(nest, axes=axes, index=index, value=value)


# -- lanes along the reduction --------------------------------------------------------------------


def _folded(nest: Nest, fit: int, reassociate: bool) -> Iterator[Nest] | None:
    """The nest with partial results in lanes, or None when loads are not contiguous that way."""
    scalar = _scalar(nest)
    if scalar is None:
        return None
    term = _term(scalar)
    kind = type(scalar.value)
    if term is None or not issubclass(kind, BinaryExpr):
        return None
    if kind is Add and scalar.value.dtype.is_float and not reassociate:
        return None
    for axis in reversed(scalar.axes):
        if axis.reduces and axis.extent >= fit and axis.extent % fit:
            cut = _split_at(scalar, axis, axis.extent - axis.extent % fit)
            if cut is None or _folded_whole(cut[0], kind, fit) is None:
                continue
            return _folded_and_rest(cut, kind, fit)
    whole = _folded_whole(scalar, kind, fit)
    return None if whole is None else iter((whole,))


def _folded_and_rest(cut: tuple[Nest, Nest], kind: type[BinaryExpr], fit: int) -> Iterator[Nest]:
    whole = _folded_whole(cut[0], kind, fit)
    assert whole is not None
    yield whole
    yield _folded_whole(cut[1], kind, fit) or cut[1]


def _folded_whole(scalar: Nest, kind: type[BinaryExpr], fit: int) -> Nest | None:
    value = _term(scalar)
    assert value is not None
    axes, width = scalar.axes, 1
    for axis in reversed(scalar.axes):
        limit = fit // width
        count = min(axis.extent & -axis.extent, limit)
        if not axis.reduces or count == 1:
            continue
        wide = _side_by_side(value, axis.var, count)
        if wide is None:
            continue
        candidate = replace(scalar, value=wide, width=width * count)
        if _gathers(candidate):
            continue
        value, width = wide, width * count
        axes = tuple(Axis(a.var, a.extent // count, 0) if a is axis else a for a in axes)
    if width < min(fit, LEAST_LANES) or width == 1:
        return None
    return Nest(axes, scalar.buffer, scalar.index, value, 1, width, kind)


def _scalar(nest: Nest) -> Nest | None:
    """The nest with its lanes as an innermost loop."""
    if nest.width == 1:
        return nest
    lane = Var("lane")
    index, value = lane_slice(nest.index, lane, 1), lane_slice(nest.value, lane, 1)
    if index is None or value is None:
        return None
    return Nest((*nest.axes, Axis(lane, nest.width, 1)), nest.buffer, index, value, 1, 1)


def _term(nest: Nest) -> Expr | None:
    """`f` of a value `op(output, f)`, for the operations whose order can be changed."""
    value = nest.value
    if not isinstance(value, Add | Max | Min):
        return None
    output = BufferLoad(nest.buffer, (nest.index,))
    for own, other in ((value.a, value.b), (value.b, value.a)):
        if own is output and not any(e is output for e in pre_order(other)):
            return other
    return None
