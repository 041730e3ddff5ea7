"""What a candidate's steps do, numbers apart: its plan, which candidates of one structure share.

Of every stage it knows how its loops come from its axes (`Loops`), where the stage is computed and
which numbers of the candidate its splits use. `planner.py` makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from autosched.state.iterator import Annotation
from autosched.state.queries import sliced_products
from autosched.state.steps import PragmaStep, RfactorStep, SplitStep, Step

Columns = tuple[int, ...]
"""Which of a candidate's numbers are multiplied."""
FIRST_THREAD = int(Annotation.VTHREAD)
"""Annotations from here on bind a loop to threads."""
DATA, REDUCE = 1, 2
_MOST_STEPS = 1 << 18


class UnsupportedError(Exception):
    """This structure has no plan: its candidates are worked out one by one."""


class Loops(NamedTuple):
    """How the loops of a stage come from its axes, by ids: the axes are 0 to `axes` - 1.

    A relation is (parent, outer, inner, sized inner) or (outer, inner, fused); `kinds` has the
    annotation of each leaf and `unroll` the position of the one with the unroll pragma, or -1.
    """

    axes: int
    relations: tuple[tuple[int, int, int, int] | tuple[int, int, int], ...]
    leaves: tuple[int, ...]
    kinds: tuple[int, ...]
    unroll: int


def bound_ids(loops: Loops) -> set[int]:
    """The loops that are bound to threads, and those that they come from."""
    found = {
        leaf for leaf, kind in zip(loops.leaves, loops.kinds, strict=True) if kind >= FIRST_THREAD
    }
    for relation in reversed(loops.relations) if found else ():
        if len(relation) == 4:
            if relation[1] in found or relation[2] in found:
                found.add(relation[0])
        elif relation[2] in found:
            found |= {relation[0], relation[1]}
    return found


def masks_of(loops: Loops, data: int) -> list[int]:
    """For each leaf whether it comes from data axes, from reduction axes or from both."""
    masks = {k: DATA if k < data else REDUCE for k in range(loops.axes)}
    for relation in loops.relations:
        if len(relation) == 4:
            masks[relation[1]] = masks[relation[2]] = masks[relation[0]]
        else:
            masks[relation[2]] = masks[relation[0]] | masks[relation[1]]
    return [masks[leaf] for leaf in loops.leaves]


def crosses(loops: Loops, data: int) -> bool:
    """Whether a reduction is shared by the threads of a block."""
    masks = zip(masks_of(loops, data), loops.kinds, strict=True)
    return any(mask & REDUCE and kind >= FIRST_THREAD for mask, kind in masks)


def common_first(loops: Loops, data: int) -> list[int]:
    """The leaves as they are lowered: in a reduction across threads, its own loops are last.

    Raises UnsupportedError where it has no loop of its own.
    """
    if not crosses(loops, data):
        return list(loops.leaves)
    masks = zip(loops.leaves, masks_of(loops, data), loops.kinds, strict=True)
    own = [leaf for leaf, mask, kind in masks if mask == REDUCE and kind < FIRST_THREAD]
    if not own:
        raise UnsupportedError("a reduction across threads without a loop of its own")
    return [leaf for leaf in loops.leaves if leaf not in own] + own


class Factored(NamedTuple):
    """A reduction cut in parts: `loops` made its leaves from the old axes, reduction ones last.

    `made` are the leaves that were factored, one after the other, `order` those that are the data
    axes of the partial results, `rest` those that these reduce over.
    """

    loops: Loops
    order: tuple[int, ...]
    made: tuple[int, ...]
    rest: tuple[int, ...]


class StagePlan(NamedTuple):
    """What a plan says of one stage that has loops.

    `pipelined` is the position of the loop for which tiles are filled ahead (-1: none), and
    `tiles_number` says how many tiles of each are held. `aligned` has the axis, factor and offset
    of each stride of its storage that is aligned.
    """

    base: int
    part: str
    factored: Factored | None
    data: int
    loops: Loops
    factors: tuple[Columns, ...]
    factored_by: tuple[Columns, ...]
    target: int
    at: int
    unroll_number: int
    pipelined: int
    tiles_number: int
    aligned: tuple[tuple[int, int, int], ...]


class Plan(NamedTuple):
    """The stages, in order; `key` tells apart what is computed, whatever its loops.

    With `threads`, to which loops are bound, it tells the loops apart too. `op_steps` are the steps
    that change what is computed, with stage ids as without rfactor.
    """

    key: tuple[Any, ...]
    op_steps: tuple[Step, ...]
    stages: tuple[StagePlan, ...]
    threads: bool


class _Layout(NamedTuple):
    """Of steps whose types are known: those that may have numbers, and the others.

    `factors`: some of them factor a sum.
    """

    numbered: Callable[[Sequence[Step]], tuple[Step, ...]]
    rest: Callable[[Sequence[Step]], tuple[Step, ...]]
    factors: bool


class Structures:
    """Steps without their numbers, quickly: all but splits and pragmas together are one number."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[type[Step], ...], _Layout] = {}
        self._rests: dict[tuple[Any, ...], int] = {}
        self._known: dict[tuple[int, ...], int] = {}  # by ids: a step's own hash takes longer
        self._tokens: dict[tuple[type[Step], Any], int] = {}
        self._fields: dict[type[Step], attrgetter[Any]] = {}
        self._by_id: dict[int, int] = {}
        self._kept: list[Step] = []  # so that their ids are their own

    def structure_of(self, steps: Sequence[Step]) -> tuple[tuple[Any, ...], list[int]]:
        """The steps without their numbers, and these numbers in order.

        Of products in slices their number says what is computed: it is among both.
        """
        kinds = tuple(map(type, steps))
        layout = self._layouts.get(kinds)
        if layout is None:
            layout = self._layouts[kinds] = _layout_of(kinds)
        rest = layout.rest(steps)
        number = self._known.get(tuple(map(id, rest)))
        found: list[Any] = [kinds, self._rest(rest) if number is None else number]
        numbers: list[Any] = []
        for step in layout.numbered(steps):
            if isinstance(step, SplitStep):
                lengths = step.lengths
                numbers += lengths
                found.append((step.stage_id, step.iter_id, len(lengths), step.inner_to_outer))
            else:
                assert isinstance(step, PragmaStep)
                name, limit = _named(step.pragma)
                found.append((step.stage_id, step.iter_id, name))
                if limit is not None:
                    numbers.append(limit)
        if layout.factors:
            found += [steps[k] for k, _ in sliced_products(steps)]
        return tuple(found), numbers

    def _rest(self, rest: tuple[Step, ...]) -> int:
        """The number of steps that have none themselves."""
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


def _layout_of(kinds: tuple[type[Step], ...]) -> _Layout:
    numbered = [issubclass(kind, (SplitStep, PragmaStep)) for kind in kinds]
    return _Layout(
        _those([k for k, own in enumerate(numbered) if own]),
        _those([k for k, own in enumerate(numbered) if not own]),
        RfactorStep in kinds,
    )


def _those(places: list[int]) -> Callable[[Sequence[Step]], tuple[Step, ...]]:
    """Gets what is at these places, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda steps: tuple([steps[k] for k in places])


@lru_cache(maxsize=1024)
def _named(pragma: str) -> tuple[str, int | None]:
    """A pragma without its number, and that; the whole text where it has none."""
    number = PragmaStep(0, 0, pragma).number
    return (pragma, None) if number is None else (pragma.partition("$")[0], number)
