"""Group candidates by structure: what their steps do apart from numbers, and these numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np

from autosched.features.batched.forms import Ints
from autosched.state.queries import sliced_products
from autosched.state.steps import PragmaStep, RfactorStep, SplitStep, Step

Kinds = tuple[type[Step], ...]
Key = tuple[Any, ...]
Numbers = tuple[int | None, ...]
_MOST_STEPS = 1 << 18


class Members(NamedTuple):
    """The candidates of one structure, by index, and their numbers: (candidate, number), in order.

    `numbers` is None where a length of some candidate is still to be chosen, or exceeds 64 bits.
    """

    places: list[int]
    numbers: Ints | None


class Structures:
    """Identifies structures by keys that are the same from call to call."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[type[Step], Any], int] = {}
        self._fields: dict[type[Step], attrgetter[Any]] = {}
        self._by_id: dict[int, int] = {}  # faster than hashing the step
        self._kept: list[Step] = []  # keeps the steps alive, so that no id is used again

    def sorted(self, candidates: Sequence[Sequence[Step]]) -> Iterator[tuple[Key, Members]]:
        """Yield each structure with its candidates, in order.

        The number of slices of a product decides what is computed: it is part of the key, too.
        """
        by_number: dict[int, list[int]] = defaultdict(list)
        for n, steps in enumerate(candidates):
            by_number[len(steps)].append(n)
        for places in by_number.values():
            columns = list(zip(*[candidates[n] for n in places], strict=True))
            kinds = [list(map(type, column)) for column in columns]
            for those in _alike(kinds, len(places)):
                own = tuple([column[those[0]] for column in kinds])
                chosen = _chosen(those)
                yield from self._of_kinds(own, chosen(places), list(map(chosen, columns)))

    def _of_kinds(
        self, kinds: Kinds, places: Sequence[int], steps: Sequence[Sequence[Any]]
    ) -> Iterator[tuple[Key, Members]]:
        """The structures of candidates with equal step types; `steps` has a column per step."""
        told: list[list[Any]] = []
        columns: list[list[Numbers]] = []
        for kind, own in zip(kinds, steps, strict=True):
            if kind in (SplitStep, PragmaStep):
                numbers, *said = _lengths(own) if kind is SplitStep else _pragmas(own)
                columns.append(numbers)
                told += (*said, list(map(len, numbers)))
            else:
                told.append(self._tokens_of(own))
        if RfactorStep in kinds:
            candidates = zip(*steps, strict=True)
            told.append([tuple([s[k] for k, _ in sliced_products(s)]) for s in candidates])
        for those in _alike(told, len(places)):
            key, chosen = (kinds, *[column[those[0]] for column in told]), _chosen(those)
            table = _table(list(map(chosen, columns)), len(those))
            yield key, Members(list(chosen(places)), table)

    def _tokens_of(self, steps: Sequence[Step]) -> list[int]:
        """A number for each step, the same for equal steps without numbers; most are known
        objects."""
        ids = list(map(id, steps))
        if ids.count(ids[0]) == len(ids):
            return [self._token(steps[0])] * len(ids)
        tokens = list(map(self._by_id.get, ids))
        known = [token for token in tokens if token is not None]
        return known if len(known) == len(tokens) else list(map(self._token, steps))

    def _token(self, step: Step) -> int:
        token = self._by_id.get(id(step))
        if token is not None:
            return token
        kind = type(step)
        read = self._fields.get(kind)
        if read is None:
            read = self._fields[kind] = attrgetter(*[field.name for field in fields(kind)])
        token = self._tokens.setdefault((kind, read(step)), len(self._tokens))
        if len(self._kept) < _MOST_STEPS:
            self._by_id[id(step)] = token
            self._kept.append(step)
        return token


def _chosen(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that gets the items at these places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda column: [column[places[0]]]


def _alike(columns: list[list[Any]], count: int) -> list[list[int]]:
    """The places below `count`, grouped by equal values in all columns, in order of appearance."""
    varied = [column for column in columns if column.count(column[0]) < count]
    if not varied:
        return [list(range(count))]
    found: dict[Key, list[int]] = defaultdict(list)
    for n, key in enumerate(zip(*varied, strict=True)):
        found[key].append(n)
    return list(found.values())


def _lengths(splits: Sequence[Any]) -> list[list[Any]]:
    """The lengths of each split, and columns with its other fields."""
    return [list(map(read, splits)) for read in _OF_SPLIT]


def _pragmas(pragmas: Sequence[Any]) -> list[list[Any]]:
    """The number of each pragma that has one, and columns with its other fields."""
    stages, loops, texts = (list(map(read, pragmas)) for read in _OF_PRAGMA)
    named = {text: _named(text) for text in set(texts)}
    numbers = {text: () if number is None else (number,) for text, (_, number) in named.items()}
    return [[numbers[text] for text in texts], stages, loops, [named[text][0] for text in texts]]


@lru_cache(maxsize=1024)
def _named(pragma: str) -> tuple[str, int | None]:
    """A pragma without its number, and the number; the whole text and None without a number."""
    number = PragmaStep(0, 0, pragma).number
    return (pragma, None) if number is None else (pragma.partition("$")[0], number)


_OF_SPLIT = tuple(map(attrgetter, ("lengths", "stage_id", "iter_id", "inner_to_outer")))
_OF_PRAGMA = tuple(map(attrgetter, ("stage_id", "iter_id", "pragma")))


def _table(columns: Sequence[Sequence[Numbers]], count: int) -> Ints | None:
    """(candidate, number): the numbers of all columns, equally many for every candidate.

    None where some are no numbers of 64 bits.
    """
    parts = [np.ones((count, 0), np.int64)]
    try:
        for numbers in columns:
            flat = np.fromiter(chain.from_iterable(numbers), np.int64, count * len(numbers[0]))
            parts.append(flat.reshape(count, -1))
    except (TypeError, OverflowError):  # None, or beyond 64 bits
        return None
    return np.concatenate(parts, axis=1)
