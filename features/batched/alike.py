"""Candidates whose plans compute the same, put together as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.features.batched.forms import Ints
from autosched.features.batched.loops import Group
from autosched.features.batched.mixed import Texts
from autosched.features.batched.nest import Population
from autosched.features.batched.plan import Columns, Plan, StagePlan

_MOST_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Alike:
    """Candidates of one plan: which ones, and their numbers."""

    plan: Plan
    members: list[int]
    numbers: list[list[int]]


def parts_of(alike: list[Alike]) -> list[list[Alike]]:
    """Not too many candidates at once."""
    parts: list[list[Alike]] = [[]]
    size = 0
    for those in alike:
        for start in range(0, len(those.members), _MOST_AT_ONCE):
            piece = slice(start, start + _MOST_AT_ONCE)
            some = Alike(those.plan, those.members[piece], those.numbers[piece])
            if size and size + len(some.members) > _MOST_AT_ONCE:
                parts.append([])
                size = 0
            parts[-1].append(some)
            size += len(some.members)
    return parts


def population_of(alike: list[Alike], texts: Texts | None = None) -> Population:
    """The arrays of candidates whose plans compute the same."""
    plans = [those.plan for those in alike]
    owner = np.repeat(np.arange(len(plans)), [len(those.members) for those in alike])
    numbers = _table(alike)
    places = np.array([[stage[-3:] for stage in plan.stages] for plan in plans], np.int64)
    target, at, column = places.transpose(2, 1, 0)[:, :, owner]
    every = np.arange(len(owner))
    steps = [np.where(own > 0, numbers[every, own], -1) for own in column]
    groups, factored = [], []
    for s, first in enumerate(plans[0].stages):
        stages = [plan.stages[s] for plan in plans]
        groups.append(_groups(stages, owner, numbers, plans[0].threads))
        given = None
        if first.factored is not None and first.part == "rf":
            columns = _Columns([stage.factored_by for stage in stages])
            given = first.factored, columns.factors(numbers, every, owner)
        factored.append(given)
    own_texts = texts if plans[0].threads else None
    return Population(
        *(len(owner), groups, list(target), list(at), steps, factored, plans[0], own_texts)
    )


def _groups(stages: list[StagePlan], owner: Ints, numbers: Ints, threads: bool) -> list[Group]:
    """The candidates by how the loops of one stage come about; `owner` has the plan of each.

    Annotations that are no threads do not matter.
    """
    ids: dict[int, int] = {}
    which = np.array([ids.setdefault(id(stage.loops), len(ids)) for stage in stages])[owner]
    every = list({id(stage.loops): stage.loops for stage in stages}.values())
    same: dict[Any, list[int]] = {}
    for k, loops in enumerate(every):
        same.setdefault(loops if threads else (loops.relations, loops.leaves), []).append(k)
    unroll = np.array([loops.unroll for loops in every], np.int64)[which]
    columns = _Columns([stage.factors for stage in stages])
    found = []
    for ks in same.values():
        rows = np.flatnonzero(np.isin(which, ks)) if len(same) > 1 else np.arange(len(which))
        kinds = np.zeros((len(every), len(every[ks[0]].leaves)), np.int64)
        kinds[ks] = [every[k].kinds for k in ks]
        factors = columns.factors(numbers, rows, owner[rows])
        found.append(Group(every[ks[0]], rows, factors, kinds[which[rows]].T, unroll[rows]))
    return found


def _table(alike: list[Alike]) -> Ints:
    """A row for each candidate: 1, then its numbers."""
    rows = [own for those in alike for own in those.numbers]
    most = max(map(len, rows))
    filled = [own if len(own) == most else [*own, *[1] * (most - len(own))] for own in rows]
    return np.concatenate(
        [np.ones((len(rows), 1), np.int64), np.array(filled, np.int64).reshape(len(rows), most)],
        axis=1,
    )


class _Columns:
    """Of several plans the columns of numbers that are multiplied for each split."""

    def __init__(self, plans: list[tuple[Columns, ...]]) -> None:
        self._plans = plans
        ids: dict[tuple[Columns, ...], int] = {}
        self._which = np.array([ids.setdefault(plan, len(ids)) for plan in plans])
        self._splits = np.array([len(plan) for plan in ids])
        self._most = max((len(own) for plan in ids for own in plan), default=0)
        self._table = np.zeros((len(ids), self._splits.max(), self._most), np.int64)
        for k, plan in enumerate(ids):
            for split, own in enumerate(plan):
                self._table[k, split, : len(own)] = own  # number 0 is 1

    def factors(self, numbers: Ints, rows: Ints, owner: Ints) -> Ints:
        """(splits, rows): the factors of candidates of these plans, products of numbers."""
        which = self._which[owner]
        splits = self._splits[which[0]]
        places = self._table[which, :splits]
        found = np.ones((len(rows), splits), np.int64)
        for k in range(self._most):
            found *= numbers[rows[:, None], places[:, :, k]]
        return np.ascontiguousarray(found.T)
