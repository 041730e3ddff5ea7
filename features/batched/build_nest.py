"""Compute the bounds and loops of all stages for many candidates of one program.

The arrays hold what InferBound and ScheduleOps would compute: the region of every stage, its loops,
and its axes in terms of the loops around. Loops of a split that does not divide reach beyond the
loop that they split: so do regions, indices and what stores touch, but not a region for which all
these loops run. A candidate that needs a rule that is not implemented here (reads that differ, say)
is refused.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.features.batched.context import Context
from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.loops import StageLoops, extents_of, make_loops
from autosched.features.batched.mixed import excess, reaches_beyond
from autosched.features.batched.nest import Nest, Population, Stage
from autosched.features.batched.ops import AGAIN, RF, ProgramOps, StageOps, StoreOps
from autosched.features.batched.origin import Origin, origin_values
from autosched.features.batched.plan import Factored, UnsupportedError
from autosched.features.batched.regions import region_of
from autosched.features.batched.threads import storage_ranks, tables_of
from autosched.te.bounds.loop_length import MOST_ITERATIONS
from autosched.tir.expr import Var

_DIGIT = 12  # bits of one token; tokens make up a position in the program
_DEPTH = 4  # tokens after the first
_BEFORE = 32  # from the token of a loop back to those of the stages right before it, at most 32
_LAST = (1 << _DIGIT) - 1
_BEYOND = "a part of a stage whose loops reach beyond it"
_BEYOND_INSIDE = "an axis that conditions fix, or not, in a stage whose loops reach beyond it"


def build_nest(ops: ProgramOps, population: Population) -> Nest:
    """Build the nest of all candidates of `population`."""
    forms = Forms(population.count)
    count = len(ops.stages)
    if count >= _BEFORE:
        raise UnsupportedError(f"more than {_BEFORE - 1} stages")
    nest = Nest(forms, ops, [{} for _ in range(count)], population.step, tiles=population.tiles)
    if population.plan.threads:
        nest.ranks = storage_ranks(population.plan, [stage.scope for stage in ops.stages])
        nest.tables = tables_of(population.plan)
    for buffer, known in ops.buffers.items():
        if all(extent is not None for extent in known.shape):
            nest.shapes[buffer] = [forms.full(extent or 0) for extent in known.shape]
    sizes: dict[int, list[Ints]] = {}  # extents of the leaves of factored reductions, by stage
    for s, stage in enumerate(ops.stages):
        given = population.factored[s]
        if given is not None:
            sizes[s] = _factored(nest, stage, given)
    owner = {stage.buffer: s for s, stage in enumerate(ops.stages)}
    for s in range(count - 1, -1, -1):
        _inside(nest, population, s)
        _add_stage(nest, population, s, sizes, owner)
    return nest


def _factored(nest: Nest, stage: StageOps, given: tuple[Factored, Ints]) -> list[Ints]:
    factored, factors = given
    axes = [nest.forms.full(extent) for extent in stage.origin_extents]
    sizes, uneven = extents_of(factored.loops, axes, factors, tighten=False)
    if any(store.conditional for store in stage.stores):
        nest.forms.refuse(
            uneven, "an rfactor, of a value with conditions, whose factor does not divide the axis"
        )
    order = list(factored.order)
    nest.shapes[stage.buffer] = [sizes[leaf] for leaf in order]
    elements = np.prod(np.array(nest.shapes[stage.buffer], float), axis=0)
    nest.forms.refuse(elements > MOST_ITERATIONS, "more partial results than can be indexed")
    if len(factored.made) > 1:
        order.remove(factored.made[-1])
        nest.shapes[stage.buffer - AGAIN + RF] = [sizes[leaf] for leaf in order]
        _refuse_odd_slices(nest.forms, factored, sizes, uneven)
    return sizes


def _refuse_odd_slices(forms: Forms, factored: Factored, sizes: list[Ints], uneven: Flags) -> None:
    """Refuse candidates where conditions of slices and rows simplify each other: no rule exists."""
    if any(len(relation) == 3 for relation in factored.loops.relations):
        forms.refuse(uneven, "fused loops that slices or rows do not divide evenly")
    slices, terms = factored.made[-1], factored.rest[-1]
    (whole,) = (r[0] for r in factored.loops.relations if len(r) == 4 and slices in r[1:3])
    empty = (sizes[slices] - 1) * sizes[terms] >= sizes[whole]
    forms.refuse(empty & (sizes[slices] > 1), "slices of a sum without terms")


def _inside(nest: Nest, population: Population, s: int) -> None:
    target, at = population.target[s], population.at[s]
    for t in range(s + 1, len(nest.inside)):
        found = np.where(target == t, at, -1)
        for u in range(s + 1, t):
            found = np.where(target == u, nest.inside[u][t], found)
        nest.inside[s][t] = found


def _add_stage(
    nest: Nest,
    population: Population,
    s: int,
    sizes: dict[int, list[Ints]],
    owner: dict[int, int],
) -> None:
    forms, ops = nest.forms, nest.ops.stages[s]
    mins, extents = region_of(nest, population, s)
    reducing = [nest.forms.full(e or 0) for e in ops.extents[ops.data :]]
    factored = population.factored[s]
    if factored is not None:
        reducing = [sizes[s][leaf] for leaf in factored[0].rest]
    elif ops.extents and ops.extents[-1] is None:  # the sum of partial results
        reducing = [_summed(population, sizes, s)]
    whole = any(store.conditional or store.divides for store in ops.stores)
    every = extents + reducing
    loops = make_loops(forms, population.groups[s], ops.data, every, population.texts, whole)
    axes: dict[Var, Form] = {}
    checked = np.zeros(forms.count, bool)
    for uneven in loops.uneven:
        checked[uneven.rows] = True
    for k, (var, value) in enumerate(zip(ops.axes, loops.values, strict=True)):
        axes[var] = forms.add(value, mins[k]) if k < ops.data else value
        if k < ops.data:
            low, high = forms.ends(axes[var])
            last = nest.shapes[ops.buffer][k] - 1
            more = excess(forms, mins[k])
            checked |= (low < 0) | (high + more > last)
            outside = reaches_beyond(forms, mins[k])
            forms.refuse(outside & (extents[k] > 1), _BEYOND)
            forms.refuse((more > 0) & ((low == last) | whole & (high < last)), _BEYOND_INSIDE)
    data = list(zip(mins, extents, nest.shapes[ops.buffer], strict=True))
    context = Context(forms, ops.axes, loops, data, axes)
    if factored is not None:
        _add_origin(forms, ops, factored[0], sizes[s], context)
    _refuse_vanished(nest, population.target[s])
    order = _place(nest, population, s)
    step = _step(nest, population, s, loops)
    never = np.zeros(forms.count, bool)
    nest.stages[s] = Stage(
        ops, loops, extents, axes, order, step, checked, context, loops.common, never
    )


def _refuse_vanished(nest: Nest, target: Ints) -> None:
    """Refuse candidates that compute a stage inside another with an axis that conditions make 0.

    `target` is that other stage. Only axes that are 0 by conditions alone count.
    """
    for t, around in nest.stages.items():
        mixed = around.loops.mixed
        if mixed is not None:
            nest.forms.refuse((target == t) & mixed.vanishing, _BEYOND)


def _summed(population: Population, sizes: dict[int, list[Ints]], s: int) -> Ints:
    """The number of partial results that stage s adds up.

    They are in the stage right before s, or in the one before that if the stage between holds sums
    of them.
    """
    for back in (1, 2):
        found = population.factored[s - back]
        if found is not None and len(found[0].made) >= back:
            return sizes[s - back][found[0].made[-back]]
    raise UnsupportedError("partial results that are not directly before their sum")


def _add_origin(
    forms: Forms, ops: StageOps, factored: Factored, sizes: list[Ints], context: Context
) -> None:
    """Add the values of the axes that the factored reduction had to the context."""
    axes = context.axes
    own = (*factored.order, *factored.rest)
    leaf = {k: axes[var] for k, var in zip(own, ops.axes, strict=True)}
    leaves = [leaf[k] for k in factored.loops.leaves]
    origin = origin_values(forms, factored.loops, sizes, leaves, ops.stand_in)
    for k, var in enumerate(ops.origin):
        if var not in ops.axes:  # others keep their values, also beyond a tensor of one element
            axes[var] = origin.values[k]
        if k in origin.texts:
            context.texts[var], context.lost[var] = origin.texts[k], origin.lost[k]
    axes.update(origin.axes)
    if any(len(relation) == 3 for relation in factored.loops.relations):
        made, rest = leaf[factored.made[0]], [leaf[k] for k in factored.rest]
        context.parts = [made], rest
        context.cut = {var: _cut(forms, made, axes[var]) for var in ops.origin}
    context.given += origin.conditions
    context.merged = {v: origin.merged[k] for k, v in enumerate(ops.origin) if k in origin.merged}
    context.deeper = {var: _deeper(forms, axes[var]) for var in ops.origin if var not in ops.axes}
    if len(factored.made) > 1:
        forms.refuse(_cut_slices(factored, sizes, origin), "an axis that ends inside a slice")


def _cut(forms: Forms, made: Form, axis: Form) -> Flags:
    """Where an axis consists of digits of the factored loop that have other digits above them."""
    found: Flags = np.zeros(forms.count, bool)
    for slot, term in axis.every():
        for whole in made.terms.get(slot, ()):
            most = np.minimum(whole.upper, forms.extents[slot])
            found = found | ((term.scale != 0) & (whole.scale != 0) & (term.upper < most))
    return found


def _deeper(forms: Forms, axis: Form) -> Flags:
    """Where an axis has digits of a loop with other digits both below and above them."""
    found: Flags = np.zeros(forms.count, bool)
    for slot, term in axis.every():
        inside = (term.lower > 1) & (term.upper < forms.extents[slot])
        found = found | ((term.scale != 0) & inside)
    return found


def _cut_slices(factored: Factored, sizes: list[Ints], origin: Origin) -> Flags:
    """Where a digit is taken of the slice although it is added to more than one variable.

    No rule of the simplifier takes such sums apart: (p * 4 + m * 2 + r) % 8.
    """
    rows, slices, terms = (sizes[leaf] for leaf in (*factored.made, factored.rest[-1]))
    several = (slices > 1) & (terms > 1)
    found, divisor = np.zeros_like(several), np.ones_like(terms)
    for relation in reversed(factored.loops.relations):
        if len(relation) == 3:
            divisor = divisor * sizes[relation[1]]
            cut = several & (terms * rows % divisor != 0)
            found |= cut & ~origin.lost.get(relation[1], np.zeros_like(cut))
    return found


def _step(nest: Nest, population: Population, s: int, loops: StageLoops) -> Ints:
    """The unroll limit around the stage's loops; the stage's own limit is added at the stores."""
    target, at = population.target[s], population.at[s]
    found = nest.forms.zero
    for t in range(s + 1, len(nest.ops.stages)):
        above = nest.stages[t]
        own = population.step[t]
        there = np.where((own >= 0) & (at >= above.loops.unroll), own, above.step)
        found = np.where(target == t, there, found)
    return found


def _token(loop: Ints | int) -> Ints | int:
    """The token of the position before everything inside a loop.

    Tokens are positive: otherwise, what is before the first loop of a stage would come before the
    end of the previous stage.
    """
    return (loop + 1) * 64


def place_stages(nest: Nest, population: Population) -> None:
    """Move the stages of a nest to the positions that `population` gives them."""
    for s in range(len(nest.ops.stages) - 1, -1, -1):
        _inside(nest, population, s)
        nest.stages[s] = replace(nest.stages[s], order=_place(nest, population, s))


def _place(nest: Nest, population: Population, s: int) -> tuple[Ints, Ints]:
    """A number that orders the positions in the program, and the number of bits left below it."""
    prefix = nest.forms.full(s << (_DIGIT * _DEPTH))
    shift = nest.forms.full(_DIGIT * (_DEPTH - 1))
    target, own = population.target[s], _token(population.at[s]) + s
    if population.left is not None:
        left = population.left[s]
        own = np.where(left < 0, own, _token(left) - _BEFORE + population.order[s])
    for t in range(s + 1, len(nest.ops.stages)):
        above, room = nest.stages[t].order
        here = target == t
        token = own << np.maximum(room, 0)
        prefix, shift = np.where(here, above + token, prefix), np.where(here, room - _DIGIT, shift)
    nest.forms.bad |= shift < 0
    return prefix, shift


def place_of_store(stage: Stage, store: StoreOps | None) -> Ints:
    """The position of a store among all stores, smaller is earlier; None: the end of the stage."""
    prefix, shift = stage.order
    if store is None:
        token: Ints | int = _LAST
    elif store.is_init:
        token = _token(stage.start) - _BEFORE - 1
    else:
        token = _LAST - 1 - (store.into is not None)
    found: Ints = prefix + (token << np.maximum(shift, 0))
    return found
