"""Merge candidates whose plans compute the same program into arrays."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain

import numpy as np

from autosched.features.batched.forms import Ints
from autosched.features.batched.loops import Group
from autosched.features.batched.mixed import Texts
from autosched.features.batched.nest import Population
from autosched.features.batched.plan import NO_UNROLLING, Columns, Loops, Plan, StagePlan

MOST_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class Alike:
    """Candidates of one plan.

    `members` are the candidates by index, `numbers` (candidate, number) the numbers of their steps.
    """

    plan: Plan
    members: list[int]
    numbers: Ints


def parts_of(alike: list[Alike]) -> list[list[Alike]]:
    """Divide the candidates into parts of at most `MOST_AT_ONCE`."""
    parts: list[list[Alike]] = [[]]
    size = 0
    for those in alike:
        for start in range(0, len(those.members), MOST_AT_ONCE):
            piece = slice(start, start + MOST_AT_ONCE)
            some = Alike(those.plan, those.members[piece], those.numbers[piece])
            if size and size + len(some.members) > MOST_AT_ONCE:
                parts.append([])
                size = 0
            parts[-1].append(some)
            size += len(some.members)
    return parts


def some_of(alike: list[Alike], chosen: Collection[int]) -> list[Alike]:
    """Keep the members whose position among all members is in `chosen`, in order."""
    found, start, wanted = [], 0, set(chosen)
    for those in alike:
        kept = [k for k in range(len(those.members)) if start + k in wanted]
        start += len(those.members)
        if kept:
            members = [those.members[k] for k in kept]
            found.append(Alike(those.plan, members, those.numbers[kept]))
    return found


def population_of(alike: list[Alike], texts: Texts | None = None) -> Population:
    """The arrays of candidates whose plans compute the same program."""
    sizes = np.array([len(those.members) for those in alike])
    starts = np.cumsum([0, *sizes])
    numbers = _table(alike)
    count = int(starts[-1])
    groups, factored = [], []
    targets, ats, steps, tiles, aligned = [], [], [], [], []
    every = np.arange(count)
    for s, first in enumerate(alike[0].plan.stages):
        stages = [those.plan.stages[s] for those in alike]
        placed = np.array([(own.unroll_number, own.target, own.at) for own in stages], np.int64)
        column, target, at = np.repeat(placed.T, sizes, axis=1)
        limit = np.where(column == NO_UNROLLING, 0, -1)
        steps.append(np.where(column > 0, numbers[every, column], limit))
        tiles.append(numbers[every, first.tiles_number])
        aligned.append(np.repeat([bool(own.aligned) for own in stages], sizes))
        targets.append(target)
        ats.append(at)
        own = []
        for loops, ks in _by_loops(stages).items():
            rows = np.concatenate([every[starts[k] : starts[k + 1]] for k in ks])
            columns = [stages[k].factors for k in ks]
            own.append(Group(loops, rows, _factors(numbers, rows, columns, sizes[ks])))
        groups.append(own)
        given = None
        if first.factored is not None and first.part == "rf":
            columns = [stage.factored_by for stage in stages]
            given = first.factored, _factors(numbers, every, columns, sizes)
        factored.append(given)
    plan = alike[0].plan
    own_texts = texts if plan.threads else None
    known = count, groups, targets, ats, steps, factored, plan, own_texts
    return Population(*known, tiles=tiles, aligned=aligned)


def _by_loops(stages: list[StagePlan]) -> dict[Loops, list[int]]:
    """For each `Loops`, the numbers of the stages that have it.

    Many plans share one `Loops` object, so that most are found by id.
    """
    found: dict[Loops, list[int]] = {}
    known: dict[int, list[int]] = {}
    for k, stage in enumerate(stages):
        own = known.get(id(stage.loops))
        if own is None:
            own = known[id(stage.loops)] = found.setdefault(stage.loops, [])
        own.append(k)
    return found


def _table(alike: list[Alike]) -> Ints:
    """(candidate, number): column 0 is 1, then the numbers of the candidate."""
    width = max(those.numbers.shape[1] for those in alike)
    found = np.ones((sum(len(those.members) for those in alike), width + 1), np.int64)
    start = 0
    for those in alike:
        count, own = those.numbers.shape
        found[start : start + count, 1 : own + 1] = those.numbers
        start += count
    return found


def _factors(numbers: Ints, rows: Ints, columns: list[tuple[Columns, ...]], sizes: Ints) -> Ints:
    """(split, candidate): the factor of each split, a product of numbers of the candidate.

    `columns` has for each plan the columns of `numbers` that each split multiplies; `sizes` is the
    number of candidates of each plan.
    """
    splits = len(columns[0])
    each = list(chain.from_iterable(columns))
    most = max(map(len, each), default=0)
    rest = [(0,) * k for k in range(most, -1, -1)]  # padding: column 0 of `numbers` is 1
    flat = chain.from_iterable([own + rest[len(own)] for own in each])
    table = np.fromiter(flat, np.int64, len(each) * most).reshape(len(columns), splits, most)
    which = np.repeat(table.transpose(2, 1, 0), sizes, axis=2)
    found = np.ones((splits, len(rows)), np.int64)
    for own in which:
        found *= numbers[rows, own]
    return found
