"""Candidates by structure: what their steps do numbers apart, and these numbers as an array."""

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
    """Candidates of one structure by place, and (candidate, number) their numbers in order; None
    where a length of some is still to be chosen, or beyond 64 bits."""

    places: list[int]
    numbers: Ints | None


class _Layout(NamedTuple):
    """Of steps whose types are known: the positions of those that may have numbers, all others.

    `factors`: some of them factor a sum.
    """

    numbered: list[int]
    rest: Callable[[Sequence[Step]], tuple[Step, ...]]
    factors: bool


class Structures:
    """Knows structures by keys that are the same from call to call."""

    def __init__(self) -> None:
        self._layouts: dict[Kinds, _Layout] = {}
        self._rests: dict[tuple[Any, ...], int] = {}
        self._known: dict[tuple[int, ...], int] = {}  # by ids: a step's own hash takes longer
        self._tokens: dict[tuple[type[Step], Any], int] = {}
        self._fields: dict[type[Step], attrgetter[Any]] = {}
        self._by_id: dict[int, int] = {}
        self._kept: list[Step] = []  # so that their ids are their own

    def sorted(self, candidates: Sequence[Sequence[Step]]) -> Iterator[tuple[Key, Members]]:
        """Each structure that there is with its candidates, in order.

        Of products in slices their number says what is computed: it is in the key, too.
        """
        by_kinds: dict[Kinds, list[int]] = defaultdict(list)
        for n, steps in enumerate(candidates):
            by_kinds[tuple(map(type, steps))].append(n)
        for kinds, places in by_kinds.items():
            yield from self._of_kinds(kinds, places, [candidates[n] for n in places])

    def _of_kinds(
        self, kinds: Kinds, places: list[int], candidates: list[Sequence[Step]]
    ) -> Iterator[tuple[Key, Members]]:
        """The structures of candidates whose steps are of the same types, a column for each step
        that has numbers."""
        layout = self._layouts.get(kinds)
        if layout is None:
            layout = self._layouts[kinds] = _layout_of(kinds)
        forms: list[list[Any]] = [[self._rest(layout.rest(steps)) for steps in candidates]]
        columns: list[list[Numbers]] = []
        for k in layout.numbered:
            own = [steps[k] for steps in candidates]
            numbers = list(map(_LENGTHS, own)) if kinds[k] is SplitStep else _limits(own)
            columns.append(numbers)
            forms += (list(map(_FORMS[kinds[k]], own)), list(map(len, numbers)))
        if layout.factors:
            forms.append([tuple([s[k] for k, _ in sliced_products(s)]) for s in candidates])
        alike: dict[Key, list[int]] = defaultdict(list)
        for n, form in enumerate(zip(*forms, strict=True)):
            alike[form].append(n)
        for form, those in alike.items():
            some = [[numbers[n] for n in those] for numbers in columns]
            yield (kinds, *form), Members([places[n] for n in those], _table(some, len(those)))

    def _rest(self, rest: tuple[Step, ...]) -> int:
        """The number of steps that have none themselves."""
        number = self._known.get(tuple(map(id, rest)))
        if number is not None:
            return number
        number = self._rests.setdefault(tuple(map(self._token, rest)), len(self._rests))
        if len(self._known) < _MOST_STEPS and all(id(step) in self._by_id for step in rest):
            self._known[tuple(map(id, rest))] = number
        return number

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


def _layout_of(kinds: Kinds) -> _Layout:
    numbered = [k for k, kind in enumerate(kinds) if kind in _FORMS]
    rest = [k for k in range(len(kinds)) if k not in numbered]
    return _Layout(numbered, _those(rest), RfactorStep in kinds)


def _those(places: list[int]) -> Callable[[Sequence[Step]], tuple[Step, ...]]:
    """Gets what is at these places, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda steps: tuple([steps[k] for k in places])


def _limits(pragmas: list[Any]) -> list[Numbers]:
    """The number of each pragma that has one."""
    return [() if (n := _named(p.pragma)[1]) is None else (n,) for p in pragmas]


@lru_cache(maxsize=1024)
def _named(pragma: str) -> tuple[str, int | None]:
    """A pragma without its number, and that; the whole text where it has none."""
    number = PragmaStep(0, 0, pragma).number
    return (pragma, None) if number is None else (pragma.partition("$")[0], number)


def _pragma_form(step: Any) -> tuple[int, int, str]:
    return step.stage_id, step.iter_id, _named(step.pragma)[0]


_LENGTHS = attrgetter("lengths")
_FORMS: dict[type[Step], Callable[[Any], Any]] = {
    SplitStep: attrgetter("stage_id", "iter_id", "inner_to_outer"),
    PragmaStep: _pragma_form,
}
"""What steps with numbers say besides these."""


def _table(columns: list[list[Numbers]], count: int) -> Ints | None:
    """(candidate, number): the numbers of all columns, in each of which there are as many for every
    candidate; None where some are no numbers of 64 bits."""
    parts = [np.ones((count, 0), np.int64)]
    try:
        for numbers in columns:
            flat = np.fromiter(chain.from_iterable(numbers), np.int64, count * len(numbers[0]))
            parts.append(flat.reshape(count, -1))
    except (TypeError, OverflowError):  # None, or beyond all arrays
        return None
    return np.concatenate(parts, axis=1)
