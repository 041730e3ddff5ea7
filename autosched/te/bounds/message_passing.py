"""Message passing along the split, fuse and rebase relations between the loops of a stage.

Down is from the root axes to the leaf loops, up is from the leaf loops to the root axes. Domains
(Range) are passed down, sets of values (IntSet) up, index expressions both ways. The rules and the
form of the expressions are Ansor's; constants are handled as Python ints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autosched.arith import Analyzer, IntSet
from autosched.arith.interval_eval import eval_set
from autosched.errors import ScheduleError
from autosched.te.bounds.affine import Unbound
from autosched.te.bounds.bound_check import make_bound_check, pass_up_bound_check
from autosched.te.bounds.loop_length import can_count, length_error
from autosched.te.relations import Fuse, Rebase, Relation, Singleton, Split
from autosched.tir.constants import is_zero
from autosched.tir.expr import Expr, IntImm, IterVar, Range
from autosched.tir.op import add, cast, const, eq, floordiv, floormod, lt, mul, sub

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

__all__ = [
    "make_bound_check",
    "pass_down_bit_mask",
    "pass_down_domain",
    "pass_down_index",
    "pass_up_bit_mask",
    "pass_up_bound_check",
    "pass_up_domain",
    "pass_up_index",
    "set_range",
]

Domains = dict[IterVar, Range]
Values = dict[IterVar, Expr]
Sets = dict[IterVar, IntSet]
Masks = dict[IterVar, int]


def pass_down_domain(
    stage: Stage, state: Domains, analyzer: Analyzer, allow_missing: bool = False
) -> None:
    """Complete `state`, which holds the domains of the root axes, with those of all other loops.

    A part of a split gets at most the extent of its parent, unless a loop that derives from the
    part is bound to a thread. With `allow_missing`, for schedules that are still being made, parts
    are not reduced so. A thread axis gets the domain of the loop that is bound to it. Raises
    ScheduleError for a thread axis used with two extents, and for a loop of more iterations than
    its variable can count.
    """
    threaded = _thread_bound(stage)
    for relation in stage.relations:
        if isinstance(relation, Split):
            parent = state.get(relation.parent)
            if parent is not None:
                tighten = not allow_missing
                _split_domain(stage, relation, parent.extent, state, analyzer, threaded, tighten)
            elif not allow_missing:
                raise _missing(stage, relation.parent)
        elif isinstance(relation, Fuse):
            outer, inner = state.get(relation.outer), state.get(relation.inner)
            if outer is not None and inner is not None:
                extent = _fused_extent(stage, relation, outer.extent, inner.extent, analyzer)
                set_range(stage, state, relation.fused, extent, analyzer)
            elif not allow_missing:
                raise _missing(stage, relation.outer if outer is None else relation.inner)
        elif isinstance(relation, Rebase):
            parent = state.get(relation.parent)
            if parent is not None:
                set_range(stage, state, relation.rebased, parent.extent, analyzer)
            elif not allow_missing:
                raise _missing(stage, relation.parent)
        else:
            set_range(stage, state, relation.iter, IntImm(1), analyzer)
    for iv, attr in stage.iter_var_attrs.items():
        if attr.bind_thread is not None:
            found = state.get(iv)
            if found is not None:
                extent = _bound_extent(stage, iv, attr.bind_thread, found.extent)
                set_range(stage, state, attr.bind_thread, extent, analyzer)
            elif not allow_missing:
                raise _missing(stage, iv)


def _missing(stage: Stage, iv: IterVar) -> ScheduleError:
    return ScheduleError(
        f"infer_bound: stage {stage.op.name}, axis {iv.var.name}: its domain is not known; "
        "normalize the schedule first"
    )


def _fused_extent(stage: Stage, fuse: Fuse, outer: Expr, inner: Expr, analyzer: Analyzer) -> Expr:
    if isinstance(outer, IntImm) and isinstance(inner, IntImm):
        length = outer.value * inner.value
        if not can_count(fuse.fused, length):
            fused = f"fusing {fuse.outer.var.name} ({outer}) with {fuse.inner.var.name} ({inner})"
            remedy = "fuse fewer loops, or split one before"
            raise length_error(stage, fuse.fused, length, fused, remedy)
        return IntImm(length, fuse.fused.var.dtype)
    return analyzer.simplify(mul(outer, inner))


def _bound_extent(stage: Stage, iv: IterVar, thread: IterVar, extent: Expr) -> Expr:
    if isinstance(extent, IntImm) and not can_count(thread, extent.value):
        bound = f"binding {iv.var.name} to {thread.thread_tag}"
        remedy = "split the loop and bind a part of it"
        raise length_error(stage, thread, extent.value, bound, remedy)
    own = None if thread.dom is None else thread.dom.extent
    if isinstance(extent, IntImm) and isinstance(own, IntImm) and own.value != extent.value:
        raise ScheduleError(
            f"infer_bound: stage {stage.op.name}, axis {iv.var.name}: a loop of {extent} is bound "
            f"to {thread.thread_tag}, whose domain has {own}; split the loop by {own}, or leave "
            "the domain out of te.thread_axis"
        )
    return cast(thread.var.dtype, extent)


def _split_domain(
    stage: Stage,
    split: Split,
    extent: Expr,
    state: Domains,
    analyzer: Analyzer,
    threaded: set[IterVar],
    tighten: bool,
) -> None:
    if split.factor is not None:
        sized, size, other = split.inner, split.factor, split.outer
    else:
        assert split.nparts is not None
        sized, size, other = split.outer, split.nparts, split.inner
    if isinstance(extent, IntImm) and isinstance(size, IntImm):
        total, part = extent.value, size.value
        if tighten and 0 != total < part and sized not in threaded:
            part = total
        rest = -(-total // size.value)
        last = part * rest - 1
        if not can_count(split.parent, last):  # a guard would compare a value that has wrapped
            cut = f"cutting it into {rest} by {part}"
            remedy = "take a factor that divides its length"
            raise length_error(stage, split.parent, last + 1, cut, remedy)
        set_range(stage, state, sized, IntImm(part, extent.dtype), analyzer)
        set_range(stage, state, other, IntImm(rest, extent.dtype), analyzer)
        return
    tight = size
    if tighten and sized not in threaded and not is_zero(extent):
        tight = analyzer.simplify(extent if analyzer.can_prove(lt(extent, size)) else size)
    if analyzer.can_prove(eq(floormod(extent, size), 0)):
        rest_extent = analyzer.simplify(floordiv(extent, size))
    else:
        rest_extent = analyzer.simplify(floordiv(add(extent, sub(size, 1)), size))
    set_range(stage, state, sized, cast(extent.dtype, tight), analyzer)
    set_range(stage, state, other, rest_extent, analyzer)


def set_range(stage: Stage, state: Domains, iv: IterVar, extent: Expr, analyzer: Analyzer) -> None:
    """Record [0, extent) for `iv`; ScheduleError when another domain is recorded already."""
    old = state.get(iv)
    if old is None:
        state[iv] = Range(const(0, extent.dtype), extent)
        return
    if is_zero(old.min) and (old.extent is extent or analyzer.can_prove_equal(old.extent, extent)):
        return
    raise ScheduleError(
        f"infer_bound: stage {stage.op.name}, axis {iv.thread_tag or iv.var.name}: its domain is "
        f"{old!r} for another loop but [0, {extent!r}) here; give the loops bound to one thread "
        "axis the same extent, or use a thread axis for each"
    )


def _thread_bound(stage: Stage) -> set[IterVar]:
    """The axes from which a loop that is bound to a thread derives.

    Only leaf loops count: a loop that was bound and then split or fused no longer exists.
    """
    attrs = stage.iter_var_attrs
    leaves = [iv for iv in stage.leaf_iter_vars if iv in attrs]
    masks = {iv: 1 for iv in leaves if attrs[iv].bind_thread is not None}
    if masks:
        pass_up_bit_mask(stage, masks)
    return {iv for iv, mask in masks.items() if mask}


def pass_up_index(
    stage: Stage,
    dom_map: Domains,
    state: Values,
    allow_missing: bool = False,
    name_fused: Callable[[IterVar, Expr], Expr] = lambda _, value: value,
) -> None:
    """Complete `state`, which holds the values of the leaf loops, with those of all other axes.

    The values are expressions in terms of the given leaf values; the parent of a split gets
    inner + outer * extent(inner) + min(parent). With `allow_missing` relations whose loops have no
    value are skipped. `name_fused` gives the value of a fused loop that its parts are made of.
    """
    for relation in reversed(stage.relations):
        if isinstance(relation, Split):
            outer, inner = state.get(relation.outer), state.get(relation.inner)
            if outer is not None and inner is not None:
                value = add(inner, mul(outer, dom_map[relation.inner].extent))
                state[relation.parent] = add(value, dom_map[relation.parent].min)
            elif not allow_missing:
                raise _missing(stage, relation.outer if outer is None else relation.inner)
        elif isinstance(relation, Fuse):
            fused = state.get(relation.fused)
            if fused is not None:
                fused = name_fused(relation.fused, fused)
                factor = dom_map[relation.inner].extent
                for iv, part in (
                    (relation.outer, floordiv(fused, factor)),
                    (relation.inner, floormod(fused, factor)),
                ):
                    state[iv] = cast(iv.var.dtype, add(part, dom_map[iv].min))
            elif not allow_missing:
                raise _missing(stage, relation.fused)
        elif isinstance(relation, Rebase):
            rebased = state.get(relation.rebased)
            if rebased is not None:
                state[relation.parent] = add(rebased, dom_map[relation.parent].min)
            elif not allow_missing:
                raise _missing(stage, relation.rebased)


def pass_down_index(
    stage: Stage, dom_map: Domains, state: Values, allow_missing: bool = False
) -> None:
    """Complete `state`, which holds the values of the root axes, with those of all other loops.

    ScheduleError when the domain of an axis that is split, fused or rebased does not start at 0.
    """
    for relation in stage.relations:
        if isinstance(relation, Split):
            parent = state.get(relation.parent)
            if parent is not None:
                _check_starts_at_zero(stage, dom_map, relation.parent)
                factor = dom_map[relation.inner].extent
                state[relation.outer] = floordiv(parent, factor)
                state[relation.inner] = floormod(parent, factor)
            elif not allow_missing:
                raise _missing(stage, relation.parent)
        elif isinstance(relation, Fuse):
            outer, inner = state.get(relation.outer), state.get(relation.inner)
            if outer is not None and inner is not None:
                _check_starts_at_zero(stage, dom_map, relation.outer)
                _check_starts_at_zero(stage, dom_map, relation.inner)
                state[relation.fused] = add(mul(outer, dom_map[relation.inner].extent), inner)
            elif not allow_missing:
                raise _missing(stage, relation.outer if outer is None else relation.inner)
        elif isinstance(relation, Rebase):
            parent = state.get(relation.parent)
            if parent is not None:
                _check_starts_at_zero(stage, dom_map, relation.parent)
                state[relation.rebased] = parent
            elif not allow_missing:
                raise _missing(stage, relation.parent)
        else:
            state[relation.iter] = const(0, relation.iter.var.dtype)


def _check_starts_at_zero(stage: Stage, dom_map: Domains, iv: IterVar) -> None:
    if not is_zero(dom_map[iv].min):
        raise ScheduleError(
            f"stage {stage.op.name}, axis {iv.var.name}: its domain {dom_map[iv]!r} must start at "
            "0 to be expressed in terms of its parts"
        )


def pass_up_domain(
    stage: Stage, dom_map: Domains, state: Sets, unbound: Unbound | None = None
) -> None:
    """Complete `state`, which holds the value sets of the leaf loops, with those of the axes."""
    unbound = unbound or Unbound()
    for relation in reversed(stage.relations):
        if isinstance(relation, Split):
            state[relation.parent] = _up_split(
                relation, dom_map, state[relation.outer], state[relation.inner], unbound
            )
        elif isinstance(relation, Fuse):
            outer, inner = _up_fuse(relation, dom_map, state[relation.fused], unbound)
            state[relation.outer], state[relation.inner] = outer, inner
        elif isinstance(relation, Rebase):
            values, parent = state[relation.rebased], dom_map[relation.parent]
            if _matches(values, dom_map[relation.rebased], unbound):
                state[relation.parent] = IntSet.from_range(parent)
            elif is_zero(parent.min):
                state[relation.parent] = values
            else:
                var = relation.rebased.var
                state[relation.parent] = eval_set(add(var, parent.min), {var: values})


def _up_split(
    split: Split, dom_map: Domains, outer: IntSet, inner: IntSet, unbound: Unbound
) -> IntSet:
    parent = dom_map[split.parent]
    if _matches(outer, dom_map[split.outer], unbound) and _matches(
        inner, dom_map[split.inner], unbound
    ):
        return IntSet.from_range(parent)
    factor = dom_map[split.inner].extent
    bounded = outer.has_lower_bound and outer.has_upper_bound
    if isinstance(factor, IntImm) and factor.value > 0 and bounded:
        if inner.has_lower_bound and inner.has_upper_bound:
            low = add(add(mul(outer.min_value, factor), inner.min_value), parent.min)
            if outer.is_single_point and inner.is_single_point:
                return IntSet.single_point(low)
            high = add(add(mul(outer.max_value, factor), inner.max_value), parent.min)
            return IntSet.interval(low, high)
    value = add(mul(split.outer.var, factor), split.inner.var)
    return eval_set(add(value, parent.min), {split.outer.var: outer, split.inner.var: inner})


def _up_fuse(
    fuse: Fuse, dom_map: Domains, fused: IntSet, unbound: Unbound
) -> tuple[IntSet, IntSet]:
    outer, inner = dom_map[fuse.outer], dom_map[fuse.inner]
    if _matches(fused, dom_map[fuse.fused], unbound):
        return IntSet.from_range(outer), IntSet.from_range(inner)
    extent = inner.extent
    low, high = fused.min_value, fused.max_value
    if fused.is_single_point:
        return (
            IntSet.single_point(add(floordiv(low, extent), outer.min)),
            IntSet.single_point(add(floormod(low, extent), inner.min)),
        )
    if not (fused.has_lower_bound and fused.has_upper_bound):
        return IntSet.from_range(outer), IntSet.from_range(inner)
    rows = IntSet.interval(
        add(outer.min, floordiv(low, extent)), add(outer.min, floordiv(high, extent))
    )
    length = unbound.simplify(add(sub(high, low), 1))
    if is_zero(length) or not (
        is_zero(unbound.simplify(floormod(extent, length)))
        and is_zero(unbound.simplify(floormod(low, length)))
    ):
        return rows, IntSet.from_range(inner)
    columns = IntSet.interval(
        add(inner.min, floormod(low, extent)), add(inner.min, floormod(high, extent))
    )
    return rows, columns


def _matches(values: IntSet, dom: Range, unbound: Unbound) -> bool:
    """True when `values` provably covers exactly the range `dom`."""
    low, high, extent = values.min_value, values.max_value, dom.extent
    if not (values.has_lower_bound and values.has_upper_bound):
        return False
    if low is high and isinstance(extent, IntImm) and extent.value != 1:
        return False
    if not unbound.equal(low, dom.min):
        return False
    if isinstance(extent, IntImm) and isinstance(dom.min, IntImm) and isinstance(high, IntImm):
        return high.value == extent.value + dom.min.value - 1
    return unbound.equal(high, sub(add(extent, dom.min), 1))


def pass_down_bit_mask(stage: Stage, state: Masks) -> None:
    """Or into the mask of every loop the masks of all axes that it derives from."""
    for relation in stage.relations:
        sources, targets = _ends(relation)
        _pass_mask(stage, state, sources, targets, allow_missing=False)


def pass_up_bit_mask(stage: Stage, state: Masks) -> None:
    """Or into the mask of every axis the masks of all loops that derive from it and have one."""
    for relation in reversed(stage.relations):
        targets, sources = _ends(relation)
        _pass_mask(stage, state, sources, targets, allow_missing=True)


def _ends(relation: Relation) -> tuple[tuple[IterVar, ...], tuple[IterVar, ...]]:
    match relation:
        case Split():
            return (relation.parent,), (relation.outer, relation.inner)
        case Fuse():
            return (relation.outer, relation.inner), (relation.fused,)
        case Rebase():
            return (relation.parent,), (relation.rebased,)
        case Singleton():
            return (), (relation.iter,)


def _pass_mask(
    stage: Stage,
    state: Masks,
    sources: tuple[IterVar, ...],
    targets: tuple[IterVar, ...],
    allow_missing: bool,
) -> None:
    mask = 0
    for iv in sources:
        if iv in state:
            mask |= state[iv]
        elif not allow_missing:
            raise _missing(stage, iv)
    for iv in targets:
        state[iv] = state.get(iv, 0) | mask
