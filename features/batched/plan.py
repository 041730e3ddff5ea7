"""The plan of a candidate: what its steps do, apart from their numbers.

Candidates of one structure share a plan. It says for every stage how its loops come from its axes
(`Loops`), where the stage is computed, and which of the candidate's numbers its splits use.
`planner.py` makes plans.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from autosched.state.iterator import Annotation
from autosched.state.steps import Step

Columns = tuple[int, ...]
"""Which of a candidate's numbers are multiplied, as columns of the table of numbers."""
FIRST_THREAD = int(Annotation.VTHREAD)
"""The first of the annotations that bind a loop to threads."""
DATA, REDUCE = 1, 2
NO_UNROLLING = -1
"""In place of the column of an unroll limit: the limit is 0, whatever the candidate's numbers."""


class UnsupportedError(Exception):
    """This structure has no plan; its candidates are computed one by one."""


class Loops(NamedTuple):
    """How the loops of a stage come from its axes, by ids: the axes are 0 to `axes` - 1.

    A relation is a split (parent, outer, inner, sized inner) or a fusion (outer, inner, fused);
    "sized inner" is 1 where the factor is the extent of the inner loop, 0 where it is that of the
    outer one. `kinds` has the annotation of each leaf, and `unroll` the position of the leaf with
    the unroll pragma, or -1.
    """

    axes: int
    relations: tuple[tuple[int, int, int, int] | tuple[int, int, int], ...]
    leaves: tuple[int, ...]
    kinds: tuple[int, ...]
    unroll: int


def bound_ids(loops: Loops) -> set[int]:
    """The ids of loops that are bound to threads, and of the loops that they come from."""
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
    """For each leaf, whether it comes from data axes (`DATA`), reduction axes (`REDUCE`) or both
    (their sum)."""
    masks = {k: DATA if k < data else REDUCE for k in range(loops.axes)}
    for relation in loops.relations:
        if len(relation) == 4:
            masks[relation[1]] = masks[relation[2]] = masks[relation[0]]
        else:
            masks[relation[2]] = masks[relation[0]] | masks[relation[1]]
    return [masks[leaf] for leaf in loops.leaves]


def crosses(loops: Loops, data: int) -> bool:
    """Whether the threads of a block share a reduction."""
    masks = zip(masks_of(loops, data), loops.kinds, strict=True)
    return any(mask & REDUCE and kind >= FIRST_THREAD for mask, kind in masks)


def common_first(loops: Loops, data: int) -> list[int]:
    """The leaves in the order in which they are lowered: in a reduction across threads, serial
    reduction loops come last.

    Raises UnsupportedError where such a reduction has no serial reduction loop.
    """
    if not crosses(loops, data):
        return list(loops.leaves)
    masks = zip(loops.leaves, masks_of(loops, data), loops.kinds, strict=True)
    own = [leaf for leaf, mask, kind in masks if mask == REDUCE and kind < FIRST_THREAD]
    if not own:
        raise UnsupportedError("a reduction across threads without a loop of its own")
    return [leaf for leaf in loops.leaves if leaf not in own] + own


class Factored(NamedTuple):
    """A factored reduction (rfactor); `loops` made its leaves from the old axes, data axes first.

    `made` are the leaves that were factored, one after the other. `order` are the leaves that are
    the data axes of the partial results, `rest` the leaves that the partial results reduce over.
    """

    loops: Loops
    order: tuple[int, ...]
    made: tuple[int, ...]
    rest: tuple[int, ...]


class StagePlan(NamedTuple):
    """The plan of one stage that has loops.

    `unroll_number` is the column of its unroll limit, 0 where it has none, or `NO_UNROLLING`.
    `pipelined` is the position of the loop for which tiles are filled ahead (-1: none),
    `tiles_number` the column of the number of tiles that are held. `aligned` has axis, factor and
    offset of each aligned stride of its storage.
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
    """The plans of all stages, in order.

    `key` identifies what is computed, regardless of the loops; with `threads`, which tells that
    loops are bound to threads, it identifies the loops too. `op_steps` are the steps that change
    what is computed, with stage ids as they would be without rfactor.
    """

    key: tuple[Any, ...]
    op_steps: tuple[Step, ...]
    stages: tuple[StagePlan, ...]
    threads: bool
