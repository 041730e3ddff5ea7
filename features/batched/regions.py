"""The region of a stage: the elements of it that one iteration of the loops around it reads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from autosched.features.batched.forms import (
    SUM,
    Flags,
    Form,
    Forms,
    Ints,
    Term,
    fixed,
    masked,
    uses_slot,
)
from autosched.features.batched.loops import surplus_of
from autosched.features.batched.nest import Nest, Population, Stage, index_form
from autosched.features.batched.ops import Indices, StageOps
from autosched.features.batched.plan import UnsupportedError
from autosched.features.batched.threads import kept
from autosched.tir.expr import (
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Var,
)
from autosched.tir.walk import free_vars, pre_order

Cuts = dict[tuple[int, str], Flags]
"""The quotients and remainders in indices, by stage and text; where a loop around is in them."""


def region_of(nest: Nest, population: Population, s: int) -> tuple[list[Form], list[Ints]]:
    """The domains of the data axes of stage s: mins and extents."""
    forms, ops = nest.forms, nest.ops.stages[s]
    shape = nest.shapes[ops.buffer]
    if ops.is_output:
        forms.refuse(population.target[s] >= 0, "an output computed at another stage")
        return [forms.constant(0) for _ in shape], list(shape)
    plain = _plain(population, s)
    found: list[tuple[Form, Ints]] | None = None
    cuts: list[Cuts] = [{} for _ in shape]
    for c in range(s + 1, len(nest.ops.stages)):
        reader = nest.stages[c]
        for indices in reads_of(reader.ops, ops.buffer):
            for t in range(s + 1, len(nest.ops.stages)):
                if t != c:
                    outside = nest.inside[c].get(t, forms.full(-1)) < population.at[s]
                    forms.refuse(
                        (population.target[s] == t) & outside,
                        "a reader outside the loop at which the stage is computed",
                    )
            for index in indices:
                lost = reader.context.where_lost(index)
                if lost is not None:
                    forms.refuse(lost, "a region read at axes that are not sums of loops")
            _refuse_cut(nest, s, reader, indices)
            if ops.whole:
                here = [_read_exactly(nest, s, index, reader.axes) for index in indices]
            else:
                surplus, root = _surplus(nest, population, s, c), population.target[s] < 0
                here = [
                    _read(nest, s, index, reader, shape[d], surplus, root)
                    for d, index in enumerate(indices)
                ]
            own = [_cuts(nest, s, c, index) for index in indices]
            if found is not None:
                unlike = [_unlike(forms, *pair) for pair in zip(cuts, own, strict=True)]
                three = zip(found, here, unlike, strict=True)
                here = [_union(nest, s, a, b, plain, no) for a, b, no in three]
            found, cuts = here, [a | b for a, b in zip(cuts, own, strict=True)]
    if found is None:
        raise UnsupportedError("a stage that no other stage reads")
    extents = [extent for _, extent in found]
    if ops.whole:
        extents = [-(-size // tile) * tile for size, tile in zip(extents, ops.whole, strict=True)]
    return [low for low, _ in found], extents


def _refuse_cut(nest: Nest, s: int, reader: Stage, indices: Indices) -> None:
    """Refuse candidates where a partial sum reads stage s along an axis that is a remainder of the
    factored loop, and stage s holds what several iterations read.

    InferBound has f // 12 - f // 60 * 5 for the start, of which it knows no more than of both
    terms.
    """
    forms, (made, rest) = nest.forms, reader.context.parts
    cut = [reader.context.cut[v] for e in indices for v in free_vars(e) & reader.context.cut.keys()]
    if not cut:
        return
    stands, runs = np.zeros((2, forms.count), bool)
    for form in made:
        for slot, terms in form.terms.items():
            stands |= uses_slot(terms) & kept(nest, s, slot)
    for form in rest:
        for slot, terms in form.terms.items():
            runs |= uses_slot(terms) & ~kept(nest, s, slot) & (forms.extents[slot] > 1)
    forms.refuse(np.any(cut, axis=0) & stands & runs, "a region read at a part of a factored loop")


def _cuts(nest: Nest, s: int, c: int, index: Expr) -> Cuts:
    """The quotients and remainders in an index of stage c, by their text."""
    parts = (e for e in pre_order(index) if isinstance(e, FloorDiv | FloorMod))
    return {(c, repr(e)): _stands(nest, s, e, nest.stages[c].axes) for e in parts}


def _unlike(forms: Forms, a: Cuts, b: Cuts) -> Flags:
    """Where only one of two reads has a quotient or remainder of a loop around the stage.

    InferBound does not know the loop's length: if i runs twice, i % 2 and i differ for it.
    """
    found = np.zeros(forms.count, bool)
    for key in a.keys() ^ b.keys():
        found |= a[key] if key in a else b[key]
    return found


def _plain(population: Population, s: int) -> Flags:
    """Where the loops of stage s are its axes and no stage is computed in them."""
    found: Flags = np.ones(population.count, bool)
    for group in population.groups[s]:
        if group.loops.relations:
            found[group.rows] = False
    for target in population.target:
        found &= target != s
    return found


def reads_of(reader: StageOps, buffer: int) -> list[Indices]:
    """The indices at which the stage reads the buffer, each once."""
    loads = dict.fromkeys(load for store in reader.stores for load in store.loads)
    return [indices for found, indices in loads if found == buffer]


def _surplus(nest: Nest, population: Population, s: int, c: int) -> dict[Var, Ints]:
    """For each axis of stage c, how far its loops reach beyond what stage s is computed for."""
    reader = nest.stages[c]
    found: dict[Var, Ints] = {}
    for uneven in reader.loops.uneven:
        rows = uneven.rows
        stands = np.where(population.target[s][rows] == c, population.at[s][rows], -1)
        relaxed = [k > stands for k in range(len(uneven.loops.leaves))]
        surplus = surplus_of(uneven.loops, uneven.extents, relaxed)
        for var, more in zip(reader.ops.axes, surplus, strict=True):
            if more.any():
                found.setdefault(var, nest.forms.zero.copy())[rows] = more
    return found


def _beyond(
    nest: Nest,
    s: int,
    e: Expr,
    axes: Mapping[Var, Form],
    surplus: dict[Var, Ints],
    where: Flags,
) -> tuple[Ints, Ints]:
    """How far the index `e` reaches, below and above, beyond the elements that are read with it.

    Holds for the candidates `where` it is a form.
    """
    forms = nest.forms
    inside = partial(_beyond, nest, s, axes=axes, surplus=surplus, where=where)
    match e:
        case Var() if e in surplus:
            return forms.zero, surplus[e]
        case Add(a, b) | Sub(a, b):
            (low, high), (less, more) = inside(a), inside(b)
            if isinstance(e, Sub):
                less, more = more, less
            return low + less, high + more
        case Mul(a, IntImm(value)) | Mul(IntImm(value), a):
            low, high = inside(a)
            if value < 0:
                low, high = high, low
            return low * abs(value), high * abs(value)
    uneven = free_vars(e) & surplus.keys()
    if not uneven:
        return forms.zero, forms.zero
    form, _ = forms.attempt(partial(index_form, forms, e, axes))
    stands = np.zeros(forms.count, bool)
    for slot, term in form.every():
        stands |= kept(nest, s, slot) & (term.scale != 0)
    some = where & np.any([surplus[var] > 0 for var in uneven], axis=0)
    forms.refuse(some & stands, "a quotient or remainder of an axis that is split unevenly")
    first, last = forms.ends(form)
    low, high = _interval(e, _reach(forms, e, axes, surplus))
    return np.where(some, low - first, 0), np.where(some, last - high, 0)


def _read_exactly(nest: Nest, s: int, e: Expr, axes: Mapping[Var, Form]) -> tuple[Form, Ints]:
    """The region of a stage of whole tiles in one dimension: what the loops of its reader read,
    beyond an axis and the tensor, too (`te.bounds.infer_bound`)."""
    forms = nest.forms
    index = index_form(forms, e, axes)
    terms: dict[int, tuple[Term, ...]] = {}
    base, extent = index.base, forms.one
    for slot, own in index.terms.items():
        stays = kept(nest, s, slot)
        for term in own:
            far = np.where(stays, 0, term.scale * forms.largest(slot, term))
            base, extent = base + np.minimum(far, 0), extent + np.abs(far)
        if stays.any():
            terms[slot] = masked(stays, own)
    return Form(terms, base), extent


class _Limited(NamedTuple):
    """The index `given`, of which `part` does not exceed `limit`; `free` is without the limit."""

    given: Expr
    free: Expr
    part: Expr
    limit: int


def _limited(e: Expr) -> _Limited | None:
    """The index with the one limit in it; None where there is none, or not in a sum of products."""
    match e:
        case Min(part, IntImm(limit)):
            return _Limited(e, part, part, limit)
        case Add(a, b):
            left, right = _limited(a), _limited(b)
            if left is not None and right is None:
                return left._replace(given=e, free=Add(left.free, b))
            if right is not None and left is None:
                return right._replace(given=e, free=Add(a, right.free))
        case Mul(a, IntImm(factor)) if factor > 0:
            found = _limited(a)
            if found is not None:
                return found._replace(given=e, free=Mul(found.free, e.b))
    return None


def _read(
    nest: Nest,
    s: int,
    e: Expr,
    reader: Stage,
    shape: Ints,
    surplus: dict[Var, Ints],
    root: Flags,
) -> tuple[Form, Ints]:
    """The region that one iteration around stage s reads in one dimension: min and extent.

    For a reader of constant regions it is the largest one of an index with a limit, that of the
    index without it, wherever the loops around do not reach the limit.
    """
    forms, axes = nest.forms, reader.axes
    limited = _limited(e) if reader.ops.constant_reads else None
    stands = np.zeros(forms.count, bool)
    if limited is not None:
        stands = ~root & _stands(nest, s, limited.part, axes)
    if limited is None or not stands.any():
        return _read_at(nest, s, e, axes, shape, surplus, root)
    low, width, beyond = _span(nest, s, limited.free, axes, surplus, root)
    start, reach, _ = _span(nest, s, limited.part, axes, surplus, root)
    first, last = forms.ends(start)
    within = (first == 0) & (np.maximum(last, reach) <= limited.limit) & (width + 1 < shape)
    odd = beyond | ~within | bool(surplus)
    forms.refuse(stands & odd, "a limited index whose loops reach beyond the limit")
    still, size = _read_at(nest, s, e, axes, shape, surplus, root | stands)
    terms = {slot: masked(~stands, own) for slot, own in still.terms.items()}
    for slot, own in low.terms.items():
        terms[slot] = terms.get(slot, ()) + masked(stands, own)
    return Form(terms, np.where(stands, low.base, still.base)), np.where(stands, width + 1, size)


def _read_at(
    nest: Nest,
    s: int,
    e: Expr,
    axes: Mapping[Var, Form],
    shape: Ints,
    surplus: dict[Var, Ints],
    root: Flags,
) -> tuple[Form, Ints]:
    """As `_read`, of an index that is evaluated as it stands."""
    forms = nest.forms
    low, width, beyond = _span(nest, s, e, axes, surplus, root)
    constant = fixed(low)
    negative = np.logical_not(constant) & (forms.ends(low)[1] <= 0)
    forms.refuse(negative, "a region whose start is never above 0")
    whole = constant & (low.base <= 0) & (low.base + width >= shape - 1)
    forms.refuse(beyond & ~whole, "a region of an axis whose loops reach beyond it")
    return Form(low.terms, np.where(whole, 0, low.base)), np.where(whole, shape, width + 1)


def _span(
    nest: Nest,
    s: int,
    e: Expr,
    axes: Mapping[Var, Form],
    surplus: dict[Var, Ints],
    root: Flags,
) -> tuple[Form, Ints, Flags]:
    """The first value of the index `e` in one iteration of the loops around stage s, the distance
    to its last value, and where loops reach beyond an axis.

    InferBound takes the values of each axis for itself where no loop of a quotient is around the
    stage. Where the index is no form, both are known only if none of its loops is around the stage
    (as for a `root`, a stage in no other's loops), or if it is a sum of such indices and of forms.
    """
    forms = nest.forms
    index, lost = forms.attempt(partial(index_form, forms, e, axes))
    if any(isinstance(part, FloorDiv | FloorMod) for part in pre_order(e)):
        lost = lost | ~_stands(nest, s, e, axes)  # (2 * i) % 2 is 0, but has two values there
    terms: dict[int, tuple[Term, ...]] = {}
    base, width = index.base, forms.zero
    beyond = _reaches_past(nest, s, e, axes)
    for slot, own in index.terms.items():
        stays = kept(nest, s, slot)
        for term in own:
            far = np.where(stays, 0, term.scale * forms.largest(slot, term))
            base, width = base + np.minimum(far, 0), width + np.abs(far)
        stays = stays & ~lost
        if stays.any():
            terms[slot] = masked(stays, own)
    if surplus:
        below, above = _beyond(nest, s, e, axes, surplus, ~lost)
        base, width = base + below, width - below - above
    if lost.any():
        first, last = _interval(e, _reach(forms, e, axes, surplus))
        base, width = np.where(lost, first, base), np.where(lost, last - first, width)
        apart = lost & ~root & _stands(nest, s, e, axes)
        if apart.any() and isinstance(e, Add) and not surplus:
            (low, far, past), (more, further, also) = (
                _span(nest, s, part, axes, surplus, root | ~apart) for part in (e.a, e.b)
            )
            for slot in low.terms.keys() & more.terms.keys():
                for pair in product(low.terms[slot], more.terms[slot]):
                    forms.refuse(apart & _is_one_digit(*pair), SUM)
            for form in (low, more):
                for slot, own in form.terms.items():
                    terms[slot] = terms.get(slot, ()) + masked(apart, own)
            base = np.where(apart, low.base + more.base, base)
            width = np.where(apart, far + further, width)
            beyond |= apart & (past | also)
        else:
            forms.refuse(apart, f"a part of a region at an index like {e!r}")
    return Form(terms, base), width, beyond


def _is_one_digit(a: Term, b: Term) -> Flags:
    """Where a sum of two terms of one loop is written as one: b % 2 * 3 + b % 2 is b % 2 * 4."""
    both = (a.scale != 0) & (b.scale != 0)
    found: Flags = both & (a.lower < b.upper) & (b.lower < a.upper)
    for above, below in ((a, b), (b, a)):
        follows = above.scale * below.lower == below.scale * above.lower
        found |= both & (above.lower == below.upper) & follows
    return found


def _reaches_past(nest: Nest, s: int, e: Expr, axes: Mapping[Var, Form]) -> Flags:
    """Where loops that run in one iteration around stage s reach beyond an axis of the index `e`.

    Refuses a quotient of an axis whose loops do so around the stage: (t // 13 + 4) // 2 is not 2
    where the axis t // 13 has two values, but six threads.
    """
    forms = nest.forms
    found = np.zeros(forms.count, bool)
    parts = [part for part in pre_order(e) if isinstance(part, FloorDiv | FloorMod | Min | Max)]
    divided = frozenset[Var]().union(*map(free_vars, parts))
    for var in free_vars(e):
        for slot in axes[var].terms.keys() & forms.virtual.keys():
            mixed, axis = forms.virtual[slot]
            if mixed.past[axis].any():
                stays = kept(nest, s, slot)
                found |= mixed.past[axis] & ~stays
                if var in divided:
                    forms.refuse(mixed.past[axis] & stays, "a quotient of an axis that loops leave")
    return found


def _stands(nest: Nest, s: int, e: Expr, axes: Mapping[Var, Form]) -> Flags:
    """Where a loop that runs more than once is around stage s and in an axis of `e`, or may be."""
    forms = nest.forms
    found = np.zeros(forms.count, bool)
    for var in free_vars(e):
        for slot, term in axes[var].every():
            there = (term.scale != 0) & (forms.extents[slot] > 1)
            found |= there & (kept(nest, s, slot) | (slot in forms.virtual))
    return found


def _reach(
    forms: Forms, e: Expr, axes: Mapping[Var, Form], surplus: dict[Var, Ints]
) -> dict[Var, tuple[Ints, Ints]]:
    """The first and the last value of each axis in `e`, without what is beyond its computed
    part."""
    reach = {var: forms.ends(axes[var]) for var in free_vars(e)}
    return reach | {
        v: (reach[v][0], reach[v][1] - surplus[v]) for v in reach.keys() & surplus.keys()
    }


def _interval(e: Expr, ends: Mapping[Var, tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """The first and the last value of an index from those of the axes
    (`arith/interval_eval.py`)."""
    match e:
        case Var():
            return ends[e]
        case IntImm(value):
            one = np.array(value, np.int64)
            return one, one
        case Add(a, b):
            (low, high), (other, end) = _interval(a, ends), _interval(b, ends)
            return low + other, high + end
        case Sub(a, b):
            (low, high), (other, end) = _interval(a, ends), _interval(b, ends)
            return low - end, high - other
        case Min(a, b):
            (low, high), (other, end) = _interval(a, ends), _interval(b, ends)
            return np.minimum(low, other), np.minimum(high, end)
        case Max(a, b):
            (low, high), (other, end) = _interval(a, ends), _interval(b, ends)
            return np.maximum(low, other), np.maximum(high, end)
        case Mul(a, IntImm(value)) | Mul(IntImm(value), a):
            low, high = _interval(a, ends)
            return (low * value, high * value) if value >= 0 else (high * value, low * value)
        case FloorDiv(a, IntImm(value)) if value > 0:
            low, high = _interval(a, ends)
            return low // value, high // value
        case FloorMod(a, IntImm(value)) if value > 0:
            low, high = _interval(a, ends)
            same = low // value == high // value
            return np.where(same, low % value, 0), np.where(same, high % value, value - 1)
    raise UnsupportedError(f"an index like {e!r}")


def _union(
    nest: Nest,
    s: int,
    a: tuple[Form, Ints],
    b: tuple[Form, Ints],
    plain: Flags,
    unlike: Flags,
) -> tuple[Form, Ints]:
    """The region that covers both regions in which stage s is read.

    Where the two differ only by a constant, and are not `unlike`, it goes from the first start to
    the last end; where both are intervals of constants, it is an interval of constants. Otherwise,
    one of them must be an interval of constants that contains the other, and the stage `plain`;
    where that is not so, the region is a minimum or maximum of expressions, and the candidate is
    refused.
    """
    forms = nest.forms
    alike = forms.same(Form(a[0].terms, b[0].base), b[0]) & ~unlike  # but for the start's constant
    constants = fixed(a[0]), fixed(b[0])
    both = constants[0] & constants[1]
    ends = [forms.ends(form) for form, _ in (a, b)]
    lasts = [ends[0][1] + a[1] - 1, ends[1][1] + b[1] - 1]
    within = [  # whether the first is in the second, which is constant, and the reverse
        constants[1 - k] & (ends[k][0] >= ends[1 - k][0]) & (lasts[k] <= lasts[1 - k])
        for k in range(2)
    ]
    known = alike | both | (plain & (within[0] | within[1]))
    forms.refuse(np.logical_not(known), "several reads of a region that differ")
    low = np.minimum(ends[0][0], ends[1][0])
    covered = both | (~alike & (within[0] | within[1]))
    terms = {slot: masked(~covered, own) for slot, own in a[0].terms.items()}
    first = np.minimum(a[0].base, b[0].base)
    end = np.maximum(a[0].base + a[1], b[0].base + b[1])
    base = np.where(covered, low, first)
    return Form(terms, base), np.where(covered, np.maximum(*lasts) - low + 1, end - first)
