"""Where the starts of reductions move to (`transform/loops/sink_init.py`), as arrays."""

from __future__ import annotations

import numpy as np

from autosched.features.batched.along_loops import sums, taken
from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.nest import Nest, Population, Stage
from autosched.state.iterator import Annotation
from autosched.tir.expr import FloatImm, IntImm

UNSURE = "a reduction whose start may move"


def move_starts(nest: Nest, population: Population) -> None:
    """Note in each stage where its start is after the pass, and where that is in a condition.

    Candidates of which the pass may ask something that has no rule here are refused.
    """
    for s, stage in nest.stages.items():
        stores = stage.ops.stores
        if len(stores) > 1 and isinstance(stores[0].value, FloatImm | IntImm):
            _move(nest, population, s)


def _move(nest: Nest, population: Population, s: int) -> None:
    """The start is then right before the innermost reduction loops: some loop is around these, and
    what reduces further out, if anything, has other stages inside."""
    stage, forms = nest.stages[s], nest.forms
    loops = stage.loops
    none = np.zeros(forms.count, bool)
    innermost, before = none, none  # the run has begun; it has ended
    outer, steps = none, none
    first, place = forms.zero, stage.start
    for k in range(len(loops.slots) - 1, -1, -1):
        here = _runs(forms, stage, k)
        reduces = here & loops.reducing[k]
        before = before | (innermost & here & ~reduces)
        innermost = innermost | reduces
        place = np.where(reduces & ~before, k, place)
        outer = outer | (before & here)
        steps = steps | (before & reduces)
        first = np.where(before & reduces, k, first)
    beside = none
    for u in range(s):
        beside = beside | ((population.target[u] == s) & (population.at[u] >= first))
    may = outer & (~steps | beside)
    if may.any():
        unsure = _unsure(nest, s) | _may_stay_behind(nest, population, s)
        forms.refuse(may & unsure, UNSURE)
        moves = may & _is_once(forms, stage)
        stage.start = np.where(moves, place, stage.start)
        stage.guarded = moves & steps


def _may_stay_behind(nest: Nest, population: Population, s: int) -> Flags:
    """Where another stage stands right after the start, and one has left a loop around both: the
    storage of the first may be around the start too, which then stays before what is stored."""
    stage, forms = nest.stages[s], nest.forms
    ran = found = np.zeros(forms.count, bool)
    if population.left is None:
        return found
    for k in range(len(stage.loops.slots)):
        ran = ran | _runs(forms, stage, k)
        for u in range(s):
            there = (population.target[u] == s) & (population.at[u] == k)
            found = found | (there & (stage.loops.common <= k) & ~ran)
    gone = np.zeros(forms.count, bool)
    for u in range(s):
        gone = gone | ((population.target[u] == s) & (population.left[u] >= 0))
    return found & gone


def _runs(forms: Forms, stage: Stage, k: int) -> Flags:
    """Where a loop is one of those after the start."""
    found: Flags = (forms.extents[stage.loops.slots[k]] > 1) & (stage.loops.common <= k)
    return found


def _indices(stage: Stage) -> list[Form]:
    return [stage.axes[var] for var in stage.ops.axes[: stage.ops.data]]


def _unsure(nest: Nest, s: int) -> Flags:
    """Where a loop after the start runs in parallel or has a limit of unrolling, moves the stored
    place by a part of it or in two dimensions, or both reduces and moves it."""
    stage, forms = nest.stages[s], nest.forms
    loops = stage.loops
    found: Flags = (nest.own_step[s] >= 0) & (loops.unroll >= loops.common)
    for k, slot in enumerate(loops.slots):
        moving, digit = forms.zero, np.zeros(forms.count, bool)
        for index in _indices(stage):
            for term in index.terms.get(slot, ()):
                there = term.scale != 0
                moving = moving + there
                digit = digit | (there & ((term.lower > 1) | (term.upper < forms.extents[slot])))
        wrong = digit | (loops.kinds[k] == Annotation.PARALLEL)
        wrong = wrong | (moving != np.where(loops.reducing[k], 0, 1))
        found = found | (_runs(forms, stage, k) & wrong)
    return found


def _is_once(forms: Forms, stage: Stage) -> Flags:
    """Where no two iterations of the loops after the start have the same indices."""
    once: Flags = np.ones(forms.count, bool)
    slots = {slot: k for k, slot in enumerate(stage.loops.slots)}
    for index in _indices(stage):
        strides: list[Ints] = []
        extents: list[Ints] = []
        for slot, term in index.every():
            if slot in slots:
                runs = _runs(forms, stage, slots[slot]) & (term.scale != 0)
                strides.append(np.where(runs, np.abs(term.scale), 0))
                extents.append(np.where(runs, forms.extents[slot], 1))
        if strides:
            order = np.argsort(np.stack(strides), axis=0, kind="stable")
            stride = taken(np.stack(strides), order)
            last = taken(np.stack(extents), order) - 1
            reach = 1 + sums(stride * last) - stride * last
            once = once & ~((last > 0) & (stride < reach)).any(axis=0)
    return once
