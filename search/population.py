"""A population in arrays: candidates that share a structure differ in numbers only.

A structure is the steps of a candidate without tile sizes and numbers of pragmas. The numbers of a
candidate are a row: for each split the outermost length and its lengths, then the unroll limits,
then how many tiles pipelined loops hold. Thousands of rows are mutated at once; only the few that
are worth a closer look are converted back to steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autosched.search.factors import divisors
from autosched.search.initial import Rng
from autosched.search.rules.protocol import Context
from autosched.search.structure import (
    Steps,
    Structure,
    form_of,
    kept_splits,
    lengths_of,
    structure_of,
)

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

_DIVIDED = 2048
"""The divisors of values up to this one come from a table of all of them, made in 5 ms."""


@dataclass(slots=True)
class _Tables:
    """Arrays over all structures, by structure number, in which mutations look up columns.

    `first` and `pieces`, (structures, splits), are the first column and the number of columns of
    each split of an extent above 1; `splits` is the number of these. `unroll_first` is the first
    column of an unroll limit; `unrolls` and `pipelines` are the numbers of unroll limits and of
    pipelined loops. `part` and `extents`, (structures, columns), are the first column of the split
    of each column, and the extent of this split (for a pragma the column itself, and 0). `kin` is
    equal for structures of one sketch, whose columns belong to the same splits.
    """

    first: Numbers
    pieces: Numbers
    splits: Numbers
    unroll_first: Numbers
    unrolls: Numbers
    pipelines: Numbers
    part: Numbers
    extents: Numbers
    kin: Numbers


@dataclass(slots=True)
class Rows:
    """Candidates as arrays: the structure of each and its numbers, padded with ones."""

    structures: Numbers
    numbers: Numbers

    def __len__(self) -> int:
        return len(self.structures)

    def take(self, chosen: npt.NDArray[Any]) -> Rows:
        """The rows at the positions `chosen`."""
        return Rows(self.structures[chosen], self.numbers[chosen])

    def joined(self, other: Rows) -> Rows:
        """These rows, followed by those of `other`."""
        width = max(self.numbers.shape[1], other.numbers.shape[1])
        numbers = [part.padded(width).numbers for part in (self, other)]
        return Rows(np.concatenate([self.structures, other.structures]), np.concatenate(numbers))

    def padded(self, width: int) -> Rows:
        """The rows with at least `width` columns."""
        missing = width - self.numbers.shape[1]
        if missing <= 0:
            return self
        more = np.ones((len(self), missing), self.numbers.dtype)
        return Rows(self.structures, np.column_stack([self.numbers, more]))

    def keys(self) -> npt.NDArray[Any]:
        """A value for each row, equal for equal candidates."""
        whole = np.ascontiguousarray(np.column_stack([self.structures, self.numbers]))
        return whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()


def first_of_each(rows: Rows) -> Numbers:
    """The positions at which different rows appear first, ascending."""
    sums = _sums(rows)
    order = np.argsort(sums, kind="stable")
    ordered = sums[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(rows)])
    first = order[begins]
    earlier = np.empty_like(order)  # for each row the first row with the same sum
    earlier[order] = np.repeat(first, np.diff(begins, append=len(rows)))
    repeated = np.flatnonzero(earlier != np.arange(len(rows)))
    if not np.array_equal(rows.take(repeated).keys(), rows.take(earlier[repeated]).keys()):
        _, first = np.unique(rows.keys(), return_index=True)  # different rows share a sum
    found: Numbers = np.sort(first)
    return found


def _sums(rows: Rows) -> Numbers:
    """A hash of each row: equal for equal rows, and hardly ever for different ones."""
    columns = 1 + rows.numbers.shape[1]
    factors = np.random.default_rng(0).integers(2**63, size=columns, dtype=np.int64) | 1
    with np.errstate(over="ignore"):  # the sums wrap around
        sums: Numbers = rows.numbers @ factors[1:] + rows.structures * factors[0]
    return sums


class Suits(Protocol):
    """A condition on the rows of a structure, prepared once and checked for many rows."""

    def suited(self, context: Context, numbers: Numbers) -> Flags:
        """Which rows of `numbers` meet the condition: (rows,)."""
        ...


_MOST_KEPT = 1 << 14


@dataclass(slots=True)
class Structures:
    """All structures of a task that the search has met, by number."""

    known: list[Structure] = field(default_factory=list)
    _forms: dict[tuple[Any, ...], tuple[int, frozenset[int]]] = field(default_factory=dict)
    _numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _by_id: dict[int, tuple[int, Steps]] = field(default_factory=dict)
    tiles: dict[int, Sequence[Suits]] = field(default_factory=dict)
    """The conditions that `search/thread_tiles.py` has prepared, by structure number."""
    conditions: dict[tuple[Any, ...], Suits] = field(default_factory=dict)
    """The same, each once, by what they ask for."""
    _tables: _Tables | None = None
    _alike: list[Numbers] = field(default_factory=list)

    def rows(self, candidates: Sequence[Steps]) -> Rows:
        """The candidates as rows; new structures are added."""
        found = self.numbers(candidates)
        width = max((s.width for s in self.known), default=0) or 1
        numbers = np.ones((len(candidates), width), np.int64)
        for k, (steps, number) in enumerate(zip(candidates, found, strict=True)):
            row = self.known[number].numbers(steps)
            numbers[k, : len(row)] = row
        return Rows(found, numbers)

    def numbers(self, candidates: Sequence[Steps]) -> Numbers:
        """The number of each candidate's structure; new structures are added."""
        return np.array([self._number(steps) for steps in candidates], np.int64)

    def candidates(self, rows: Rows) -> list[Steps]:
        """The steps of each row."""
        pairs = zip(rows.structures.tolist(), rows.numbers.tolist(), strict=True)
        return [self.known[number].candidate(row) for number, row in pairs]

    def _number(self, steps: Steps) -> int:
        """The number of a candidate; most come again as the same object."""
        found = self._by_id.get(id(steps))
        if found is None:
            if len(self._by_id) >= _MOST_KEPT:
                self._by_id.clear()
            found = self._by_id[id(steps)] = self._new_number(steps), steps
        return found[0]

    def _new_number(self, steps: Steps) -> int:
        form = form_of(steps)
        known = self._forms.get(form)
        if known is None:
            known = self._forms[form] = len(self._forms), kept_splits(steps)
        key = (known[0], *[lengths_of(steps[k]) for k in known[1]])
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.known)
            self.known.append(structure_of(steps, known[1]))
            self._tables = None
        return number

    def tables(self) -> _Tables:
        """The arrays in which mutations look up columns."""
        if self._tables is None:
            self._tables = _tables(self.known)
            by_layout: dict[tuple[Any, ...], list[int]] = {}
            for number, structure in enumerate(self.known):
                by_layout.setdefault(structure.layout, []).append(number)
            self._alike = [np.array(by_layout[s.layout], np.int64) for s in self.known]
        return self._tables

    @property
    def any_pipelines(self) -> bool:
        """Whether some structure has a pipelined loop."""
        return any(structure.pipelines for structure in self.known)

    def transplanted(self, rows: Rows, rng: Rng) -> Rows:
        """The rows with a random structure of the same layout each, and the same numbers."""
        self.tables()
        structures = np.array(
            [self._alike[k][int(rng.integers(len(self._alike[k])))] for k in rows.structures],
            np.int64,
        )
        return Rows(structures, rows.numbers)


def _tables(known: Sequence[Structure]) -> _Tables:
    movable = [[split for split in s.splits if split.extent > 1] for s in known]
    most = max((len(splits) for splits in movable), default=0) or 1
    first = np.zeros((len(known), most), np.int64)
    pieces = np.ones((len(known), most), np.int64)
    for k, splits in enumerate(movable):
        for j, split in enumerate(splits):
            first[k, j], pieces[k, j] = split.first, split.pieces
    kin: dict[tuple[Any, ...], int] = {}
    return _Tables(
        first,
        pieces,
        np.array([len(splits) for splits in movable], np.int64),
        np.array([s.width - len(s.pragmas) for s in known], np.int64),
        np.array([len(s.unrolls) for s in known], np.int64),
        np.array([len(s.pipelines) for s in known], np.int64),
        *_columns(known),
        np.array([kin.setdefault(_kinship(s), len(kin)) for s in known], np.int64),
    )


def _columns(known: Sequence[Structure]) -> tuple[Numbers, Numbers]:
    """The first column of the split of each column, and that split's extent.

    Both are (structures, columns).
    """
    width = max((s.width for s in known), default=0) or 1
    part = np.tile(np.arange(width), (len(known), 1))
    extents = np.zeros((len(known), width), np.int64)
    for k, structure in enumerate(known):
        for split in structure.splits:
            columns = slice(split.first, split.first + split.pieces)
            part[k, columns], extents[k, columns] = split.first, split.extent
    return part, extents


def _kinship(structure: Structure) -> tuple[Any, ...]:
    splits = [(split.position, split.pieces) for split in structure.splits]
    return (structure.sketch, *splits, len(structure.unrolls), len(structure.pipelines))


def moved_factors(structures: Structures, rows: Rows, rng: Rng, innermost: int) -> Rows:
    """Move a factor of one split of each row from one level to another.

    The innermost length grows to at most `innermost`. A row without such a move stays as it is.
    """
    tables = structures.tables()
    numbers = rows.numbers.copy()
    splits = tables.splits[rows.structures]
    which = (rng.random(len(rows)) * splits).astype(np.int64)
    first, pieces = tables.first[rows.structures, which], tables.pieces[rows.structures, which]
    levels = np.arange(int(pieces.max(initial=1)))
    there = levels < pieces[:, None]
    columns = np.minimum(first[:, None] + levels, numbers.shape[1] - 1)
    each = np.arange(len(rows))
    lengths = np.where(there, numbers[each[:, None], columns], 1)
    source = _drawn(there & (lengths > 1), rng)
    target = _drawn(there & (levels != source[:, None]), rng)
    last = np.flatnonzero(target == pieces - 1)
    most = innermost // np.maximum(1, lengths[last, target[last]])
    factor = _drawn_divisors(lengths[each, source], last, most, rng)
    factor[(lengths[each, pieces - 1] > innermost) | (splits == 0)] = 1
    numbers[each, columns[each, source]] //= factor
    numbers[each, columns[each, target]] *= factor
    return Rows(rows.structures, numbers)


def _drawn(allowed: Flags, rng: Rng) -> Numbers:
    """Draw one of the allowed positions in each row; 0 where there is none."""
    drawn: Numbers = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1)
    return drawn


def _drawn_divisors(values: Numbers, limited: Numbers, most: Numbers, rng: Rng) -> Numbers:
    """Draw a divisor above 1 of each value; 1 where there is none.

    The divisors of the values at the positions `limited` are at most `most`.
    """
    top = int(values.max(initial=1))
    if top <= _DIVIDED:
        table, counts_of = _divisors_up_to(1 << (top - 1).bit_length())
        where = values
    else:
        different, where = np.unique(values, return_inverse=True)
        table, counts_of = _divisor_table(different.tolist())
    counts = counts_of[where]
    fewer = (table[where[limited]] <= most[:, None]).sum(axis=1)
    counts[limited] = np.minimum(counts[limited], fewer)
    chosen = (rng.random(len(values)) * counts).astype(np.int64)
    drawn: Numbers = np.where(counts > 0, table[where, chosen], 1)
    return drawn


@lru_cache(maxsize=16)
def _divisors_up_to(top: int) -> tuple[Numbers, Numbers]:
    return _divisor_table([1, *range(1, top + 1)])  # row 0 is unused: the row is the value


def _divisor_table(values: Sequence[int]) -> tuple[Numbers, Numbers]:
    """The divisors above 1 of each value, ascending (values, most divisors), and their number."""
    lists = [divisors(value)[1:] for value in values]
    table = np.full((len(lists), max(map(len, lists), default=0) or 1), np.iinfo(np.int64).max)
    for k, found in enumerate(lists):
        table[k, : len(found)] = found
    return table, np.array([len(found) for found in lists], np.int64)


def redrawn_unrolls(structures: Structures, rows: Rows, rng: Rng, choices: Sequence[int]) -> Rows:
    """Redraw one unroll limit of each row from `choices`."""
    tables = structures.tables()
    first, count = tables.unroll_first[rows.structures], tables.unrolls[rows.structures]
    return _redrawn(rows, first, count, rng, choices)


def redrawn_pipelines(structures: Structures, rows: Rows, rng: Rng, choices: Sequence[int]) -> Rows:
    """Redraw how many tiles one pipelined loop of each row holds, from `choices`."""
    tables = structures.tables()
    first = (tables.unroll_first + tables.unrolls)[rows.structures]
    return _redrawn(rows, first, tables.pipelines[rows.structures], rng, choices)


def _redrawn(rows: Rows, first: Numbers, count: Numbers, rng: Rng, choices: Sequence[int]) -> Rows:
    """Redraw one of the `count` columns from `first` on in each row."""
    numbers = rows.numbers.copy()
    column = first + (rng.random(len(rows)) * count).astype(np.int64)
    some = np.flatnonzero(count > 0)
    numbers[some, column[some]] = rng.choice(np.array(choices), size=len(some))
    return Rows(rows.structures, numbers)
