"""What a candidate's steps do, numbers apart: its plan, which candidates of one structure share.

Of every stage it knows how its loops come from its axes (`Loops`), where the stage is computed and
which numbers of the candidate its splits use. `planner.py` makes it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from autosched.state.iterator import Annotation
from autosched.state.steps import Step

Columns = tuple[int, ...]
"""Which of a candidate's numbers are multiplied."""
FIRST_THREAD = int(Annotation.VTHREAD)
"""Annotations from here on bind a loop to threads."""
DATA, REDUCE = 1, 2


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
