"""Move the initialisations of reductions (`transform/loops/sink_init.py`), as arrays."""

from __future__ import annotations

import numpy as np

from autosched.features.batched.along_loops import sums, taken
from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.nest import Nest, Population, Stage
from autosched.state.iterator import Annotation
from autosched.tir.expr import FloatImm, IntImm

UNSURE = "a reduction whose start may move"


def move_starts(nest: Nest, population: Population) -> None:
    """Set in each stage where its initialisation is after the pass, and where it has a condition.

    Candidates for which the pass may decide by something that has no rule here are refused.
    """
    for s, stage in nest.stages.items():
        stores = stage.ops.stores
        if len(stores) > 1 and isinstance(stores[0].value, FloatImm | IntImm):
            _move(nest, population, s)


def _move(nest: Nest, population: Population, s: int) -> None:
    """Move the initialisation right before the innermost reduction loops.

    It moves where some loop is around these, and where any reduction loops further out have other
    stages inside.
    """
    stage, forms = nest.stages[s], nest.forms
    loops = stage.loops
    none = np.zeros(forms.count, bool)
    innermost, before = none, none  # whether the run of reduction loops has begun, has ended
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
    """Where another stage is right after the initialisation, and one has left a loop around both.

    The storage of the first may then be around the initialisation, too, which stays before what is
    stored.
    """
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
    """Where loop k of the stage is present and is one of the loops after the initialisation."""
    found: Flags = (forms.extents[stage.loops.slots[k]] > 1) & (stage.loops.common <= k)
    return found


def _indices(stage: Stage) -> list[Form]:
    return [stage.axes[var] for var in stage.ops.axes[: stage.ops.data]]


def _unsure(nest: Nest, s: int) -> Flags:
    """Where the rules do not cover a loop after the initialisation.

    It runs in parallel, has an unroll limit, moves the stored element by a digit or in two
    dimensions, or both reduces and moves it.
    """
    stage, forms = nest.stages[s], nest.forms
    loops = stage.loops
    found: Flags = (nest.own_step[s] >= 0) & (loops.unroll >= loops.common)
    for k, slot in enumerate(loops.slots):
        moving, digit = forms.zero, np.zeros(forms.count, bool)
        for index in _indices(stage):
            for term in index.terms.get(slot, ()):
                moving = moving + (term.scale != 0)
                digit = digit | forms.is_digit(slot, term)
        wrong = digit | (loops.kinds[k] == Annotation.PARALLEL)
        wrong = wrong | (moving != np.where(loops.reducing[k], 0, 1))
        found = found | (_runs(forms, stage, k) & wrong)
    return found


def _is_once(forms: Forms, stage: Stage) -> Flags:
    """Where no two iterations of the loops after the initialisation have the same indices."""
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
