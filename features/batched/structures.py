"""Group candidates by structure: what their steps do apart from numbers, and these numbers.

Every step object is looked at once; afterwards its id tells all. The candidates of a search have
most of their steps in common.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import chain, compress, repeat
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.unique import different, keys_of
from autosched.state.queries import sliced_products
from autosched.state.steps import STEP_CODES, PragmaStep, RfactorStep, SplitStep, Step

Key = tuple[Any, ...]
Numbers = tuple[int | None, ...]
Steps = Sequence[Step]
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
        self._meanings: dict[Key, int] = {}
        self._known = _KnownSteps(self._meanings)

    def sorted(self, candidates: Sequence[Steps]) -> Iterator[tuple[Key, Members]]:
        """Yield each structure with its candidates, in order.

        The number of slices of a product decides what is computed: it is part of the key, too.
        """
        if len(self._known) > _MOST_STEPS:
            self._known = _KnownSteps(self._meanings)
        by_number: dict[int, list[int]] = defaultdict(list)
        for n, steps in enumerate(candidates):
            by_number[len(steps)].append(n)
        for number, places in by_number.items():
            steps = list(chain.from_iterable([candidates[n] for n in places]))
            known = self._known.find(steps).reshape(len(places), number)
            meanings = self._known.meanings[known]
            for those in _alike(meanings):
                key = tuple(meanings[those[0]].tolist())
                where = [places[k] for k in those.tolist()]
                members = Members(where, self._known.numbers_of(known[those]))
                sliced = any(isinstance(step, RfactorStep) for step in candidates[where[0]])
                yield from _by_slices(key, members, candidates) if sliced else [(key, members)]


class _KnownSteps:
    """Steps by number, in the order in which they were found.

    By step: `meanings` is a number for what it does, the same for steps that differ in numbers
    only, `widths` how many numbers it has, `good` whether all of them have at most 64 bits, and
    `numbers` these, by (step, number).
    """

    def __init__(self, meanings: dict[Key, int]) -> None:
        self._meanings = meanings
        self._by_id: dict[int, int] = {}
        self._kept: list[Step] = []  # keeps the steps alive, so that no id is used again
        self.meanings: Ints = np.zeros(0, np.int64)
        self.widths: Ints = np.zeros(0, np.int64)
        self.good: Flags = np.zeros(0, bool)
        self.numbers: Ints = np.zeros((0, 1), np.int64)

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, steps: Steps) -> Ints:
        """The number of each step; those that are not known yet are added."""
        found = self._found(steps)
        unknown = found < 0
        if unknown.any():
            others = list(compress(steps, unknown.tolist()))
            self._add(dict(zip(map(id, others), others, strict=True)))
            found[unknown] = self._found(others)
        return found

    def _found(self, steps: Steps) -> Ints:
        """The number of each step, -1 for those that are not known."""
        numbers = map(self._by_id.get, map(id, steps), repeat(-1))
        return np.fromiter(numbers, np.int64, len(steps))

    def _add(self, new: dict[int, Step]) -> None:
        said = [_said(step) for step in new.values()]
        meanings = [self._meanings.setdefault(key, len(self._meanings)) for key, _ in said]
        self._by_id.update(zip(new, range(len(self), len(self) + len(new)), strict=True))
        self._kept += new.values()
        widths = np.array([len(own) for _, own in said], np.int64)
        numbers, good = _table([own for _, own in said], widths)
        missing = numbers.shape[1] - self.numbers.shape[1]
        before = np.pad(self.numbers, [(0, 0), (0, max(0, missing))])
        numbers = np.pad(numbers, [(0, 0), (0, max(0, -missing))])
        self.meanings = np.append(self.meanings, meanings)
        self.widths = np.append(self.widths, widths)
        self.good = np.append(self.good, good)
        self.numbers = np.concatenate([before, numbers])

    def numbers_of(self, known: Ints) -> Ints | None:
        """(candidate, number): the numbers of candidates whose steps mean the same.

        `known` is by (candidate, step). None where some numbers have more than 64 bits.
        """
        count, width = len(known), self.numbers.shape[1]
        if not self.good[known].all():
            return None
        widths = self.widths[known[0]]
        some = widths.nonzero()[0]
        there = np.arange(width) < widths[some, None]
        numbers: Ints = self.numbers[known[:, some]].reshape(count, len(some) * width)
        return numbers[:, there.ravel()]


def _alike(meanings: Ints) -> Iterator[Ints]:
    """The candidates of equal meanings, by (candidate, step), in order of appearance."""
    if not meanings.shape[1]:
        yield np.arange(len(meanings))
        return
    first, which = different(keys_of(list(meanings.T)))
    ends = np.bincount(which, minlength=len(first)).cumsum()
    yield from np.split(np.argsort(which, kind="stable"), ends[:-1])


def _by_slices(
    key: Key, members: Members, candidates: Sequence[Steps]
) -> Iterator[tuple[Key, Members]]:
    """The members by the slices of their products, in order of appearance."""
    found: dict[Key, list[int]] = defaultdict(list)
    for k, n in enumerate(members.places):
        steps = candidates[n]
        found[tuple([steps[at] for at, _ in sliced_products(steps)])].append(k)
    for slices, those in found.items():
        numbers = None if members.numbers is None else members.numbers[those]
        yield (*key, slices), Members([members.places[k] for k in those], numbers)


def _said(step: Step) -> tuple[Key, Numbers]:
    """What a step does apart from its numbers, and these."""
    if isinstance(step, SplitStep):
        loop = step.stage_id, step.iter_id, step.inner_to_outer
        return (SplitStep, *loop, len(step.lengths)), step.lengths
    if isinstance(step, PragmaStep):
        text, number = _named(step.pragma)
        numbers = () if number is None else (number,)
        return (PragmaStep, step.stage_id, step.iter_id, text, len(numbers)), numbers
    kind = type(step)
    return (kind, _FIELDS[kind](step)), ()


_FIELDS = {kind: attrgetter(*[f.name for f in fields(kind)]) for kind in STEP_CODES.values()}


@lru_cache(maxsize=1024)
def _named(pragma: str) -> tuple[str, int | None]:
    """A pragma without its number, and the number; the whole text and None without a number."""
    number = PragmaStep(0, 0, pragma).number
    return (pragma, None) if number is None else (pragma.partition("$")[0], number)


def _table(numbers: Sequence[Numbers], widths: Ints) -> tuple[Ints, Flags]:
    """(step, number): the numbers of each step, then zeros; and whether each has 64 bits."""
    good = np.array([all(n is not None and abs(n) < 1 << 63 for n in own) for own in numbers])
    found = np.zeros((len(numbers), max(1, int(widths.max(initial=0)))), np.int64)
    flat = [n or 0 for own, fits in zip(numbers, good, strict=True) if fits for n in own]
    found[(np.arange(found.shape[1]) < widths[:, None]) & good[:, None]] = flat
    return found, good
