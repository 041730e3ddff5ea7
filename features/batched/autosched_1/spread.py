"""Candidates whose stores have several copies, as arrays of copies.

What is known of a store follows from its loops alone. So each candidate is in a population as often
as a store of it has copies, a row for each, and a piece has the copies of all candidates beside
each other. The sums over a candidate's stores then ask for them one by one (`taken`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autosched.features.batched.autosched_1.facts import Facts
from autosched.features.batched.autosched_1.nests import Code
from autosched.features.batched.autosched_1.stores_of_row import Estimated
from autosched.features.batched.forms import Flags, Forms, Ints
from autosched.features.batched.nest import Nest
from autosched.features.batched.stores import LoopAround, Store, Touched

_FIRST = 1
"""The row of the first copy: what has none is in the row before."""


@dataclass(frozen=True, eq=False)
class Spread:
    """The rows of the candidates: (copies, candidates), 0 where a candidate has not as many.

    Row 0 is that of no copy.
    """

    rows: Ints
    owner: Ints

    @staticmethod
    def of(copies: Ints) -> Spread:
        """Of candidates with so many copies each, at least one."""
        starts = _FIRST + np.cumsum(copies) - copies
        number = np.arange(int(copies.max()))[:, None]
        rows = np.where(number < copies, starts + number, 0)
        owner = np.concatenate([[len(copies)], np.repeat(np.arange(len(copies)), copies)])
        return Spread(rows, owner)

    def by_row(self, first: Ints) -> Ints:
        """The number of the copy in each row, counted from `first` of its candidate on; 0 in the
        first row."""
        found: Ints = np.zeros(len(self.owner), np.int64)
        own = self.owner[_FIRST:]
        found[_FIRST:] = first[own] + np.arange(_FIRST, len(found)) - self.rows[0][own]
        return found

    def nest(self, nest: Nest) -> Nest:
        """The nest of the candidates, for all that is asked of it by candidate."""
        count = self.rows.shape[1]
        forms = Forms(count)
        forms.bad = np.any(nest.forms.bad[self.rows] & (self.rows >= _FIRST), axis=0)
        forms.reasons = Counter(nest.forms.reasons)
        return Nest(forms, nest.ops, [], [])

    def taken(self, nest: Nest, every: Sequence[Estimated]) -> list[Estimated]:
        """The stores by candidate: one for each copy that some candidate has."""
        found = []
        known: dict[tuple[Facts, int], Facts] = {}
        for own in every:
            for k, rows in enumerate(self.rows):
                exists = own.exists[rows] if own.exists is not None else rows >= _FIRST
                if exists.any():
                    facts = known.get((own.facts, k))
                    if facts is None:
                        facts = _Taken(own.facts, nest, rows, self.rows[0])
                        known[own.facts, k] = facts
                    found.append(_estimated(own, facts, exists, rows))
        return found


def _of(value: Any, rows: Ints) -> Any:
    """What is by row, the last dimension of arrays, by candidate."""
    if isinstance(value, np.ndarray):
        return value.take(rows, axis=-1) if value.ndim else value
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [own.take(rows, axis=-1) for own in value]
    return value


class _Taken(Facts):
    """The facts of a store by candidate, each when it is asked for; `first` are the rows of the
    candidates' first copies."""

    def __init__(self, facts: Facts, nest: Nest, rows: Ints, first: Ints) -> None:
        self._facts, self._rows = facts, rows
        self.nest, self.forms = nest, nest.forms
        self.store = _store(facts, rows, first)
        self.accesses = list(reversed(self.store.touched))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = _of(getattr(self._facts, name), self._rows)
        setattr(self, name, found)
        return found


class _Access(Touched):
    """What a store accesses, by candidate."""

    used: dict[int, Flags]

    def uses(self, slot: int, count: int) -> Flags:
        """As `Touched.uses`, which is known for the loops around the store."""
        found = self.used.get(slot)
        return np.zeros(count, bool) if found is None else found


def _access(facts: Facts, k: int, slots: Sequence[int], rows: Ints) -> _Access:
    access = facts.accesses[k]
    sizes, regions = _of(access.sizes, rows), _of(access.regions, rows)
    found = _Access(access.buffer, access.kind, [], {}, sizes, regions)
    uses = facts.used[k].take(rows, axis=-1)
    found.used = dict(zip(slots, uses, strict=True))
    return found


def _store(facts: Facts, rows: Ints, first: Ints) -> Store:
    store = facts.store
    slots = [loop.slot for loop in store.loops]
    numbers = range(len(facts.accesses))
    return replace(
        store,
        stage=replace(store.stage, extents=_of(store.stage.extents, first)),
        loops=[_loop(loop, rows) for loop in store.loops],
        place=store.place[rows],
        outside=store.outside[rows],
        step=_of(store.step, rows),
        touched=[_access(facts, k, slots, rows) for k in reversed(numbers)],
        memory=_of(store.memory, rows),
    )


def _loop(loop: LoopAround, rows: Ints) -> LoopAround:
    return replace(
        loop,
        extent=loop.extent[rows],
        present=loop.present[rows],
        kind=loop.kind[rows],
        only=None if loop.only is None else loop.only[rows],
        node=None if loop.node is None else loop.node[rows],
    )


def _estimated(own: Estimated, facts: Facts, exists: Flags, rows: Ints) -> Estimated:
    code = own.code
    return Estimated(
        facts,
        Code(
            code.start[rows],
            *(
                _of(value, rows)
                for value in (
                    code.lanes,
                    code.accumulators,
                    code.registers,
                    code.cycles,
                    code.folded,
                    code.gathers,
                    code.walked,
                )
            ),
        ),
        _of(own.counts, rows),
        _of(own.step, rows),
        own.scopes,
        _of(own.traffic, rows),
        _of(own.fits, rows),
        own.balance[rows],
        own.compute[rows],
        own.memory[rows],
        own.runs[rows],
        _of(own.walked, rows),
        exists,
        [guard[rows] for guard in own.guards],
    )
