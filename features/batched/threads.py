"""The effects of threads on a program's stages: ranks of storage, and Ansor's touch tables.

Plans with threads share a program only where their loops are alike, so that all of this is the same
for every candidate of a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from autosched.features.batched.forms import Flags
from autosched.features.batched.plan import FIRST_THREAD, Plan, UnsupportedError
from autosched.state.iterator import ANNOTATION_TEXT, Annotation
from autosched.te.bounds.thread_scope import (
    GLOBAL,
    inferred_storage_rank,
    storage_rank,
    thread_rank,
)

if TYPE_CHECKING:
    from autosched.features.batched.nest import Nest

LAUNCH = {
    int(Annotation.BLOCK_X): 1,
    int(Annotation.BLOCK_Y): 2,
    int(Annotation.BLOCK_Z): 3,
    int(Annotation.THREAD_X): 4,
    int(Annotation.THREAD_Y): 5,
    int(Annotation.THREAD_Z): 6,
    int(Annotation.VTHREAD): 7,
}
"""The position of a thread axis among the launch columns, by annotation."""
Place = tuple[int, int]


def check_kernels(plan: Plan) -> None:
    """Raise UnsupportedError where the outermost loop of a kernel is not bound to threads.

    Whether what it computes outside of threads counts as on a GPU depends on the stages before.
    """
    for stage in plan.stages if plan.threads else ():
        kinds = stage.loops.kinds
        if stage.target < 0 and (not kinds or kinds[0] < FIRST_THREAD):
            raise UnsupportedError("a kernel whose outermost loop is not bound to threads")


def storage_ranks(plan: Plan, scopes: Sequence[str]) -> list[int]:
    """The storage rank of each stage: that of its scope, else that of the threads around it.

    Raises UnsupportedError where te may refuse the stage: its own threads would each fill memory of
    their own, or the threads around it all fill the same global memory.
    """
    found = []
    for s, scope in enumerate(scopes):
        tags = _tags(kind for _, _, kind in around(plan, s))
        rank = storage_rank(scope) if scope else inferred_storage_rank(tags)
        real = _tags(kind for kind in plan.stages[s].loops.kinds if kind != Annotation.VTHREAD)
        if any(rank > thread_rank(tag) for tag in real) or (scope and rank == GLOBAL and tags):
            raise UnsupportedError("threads that may not fill the memory of their stage")
        found.append(rank)
    return found


def _tags(kinds: Iterable[int]) -> list[str]:
    """The thread tags among annotations."""
    return [ANNOTATION_TEXT[kind] for kind in kinds if kind >= FIRST_THREAD]


def around(plan: Plan, s: int) -> Iterator[tuple[int, int, int]]:
    """The loops of other stages around stage s, innermost first: (stage, position, annotation)."""
    stage = plan.stages[s]
    while stage.target >= 0:
        target = plan.stages[stage.target]
        for k in range(stage.at, -1, -1):
            yield stage.target, k, target.loops.kinds[k]
        stage = target


def root_of(plan: Plan, s: int) -> int:
    """The stage that the outermost loop around stage s belongs to."""
    while plan.stages[s].target >= 0:
        s = plan.stages[s].target
    return s


def pipelined_around(plan: Plan, s: int) -> int:
    """The innermost stage that has a pipelined loop around stage s, or -1."""
    stage = plan.stages[s]
    while stage.target >= 0:
        target = plan.stages[stage.target]
        if 0 <= target.pipelined <= stage.at:
            return stage.target
        stage = target
    return -1


def tables_of(plan: Plan) -> dict[Place, int]:
    """The touch table of each thread axis, by stage and position; tables are negative numbers.

    An axis takes over the table of the axis that ended last (`walk/visitor.py`).
    """
    found: dict[Place, int] = {}
    free: list[int] = []
    inside: dict[Place, list[int]] = {}
    for s, stage in enumerate(plan.stages):
        if stage.target >= 0:
            inside.setdefault((stage.target, stage.at), []).append(s)

    def walk(s: int) -> None:
        entered = []
        for k, kind in enumerate(plan.stages[s].loops.kinds):
            if kind >= FIRST_THREAD:
                table = free.pop() if free else -1 - len(found)
                found[s, k] = table
                entered.append(table)
            for child in inside.get((s, k), ()):
                walk(child)
        free.extend(reversed(entered))

    for s, stage in enumerate(plan.stages):
        if stage.target < 0:
            walk(s)
    return found


def kept(nest: Nest, s: int, slot: int) -> Flags:
    """Where the loop `slot` has only one value in an iteration of the loops around stage s.

    The threads of lower rank share a stage's storage, wherever their loops are: it holds the
    elements that all of them need.
    """
    forms = nest.forms
    if slot in forms.virtual:
        mixed, _ = forms.virtual[slot]
        several = [(kept(nest, s, leaf), forms.extents[leaf] > 1) for leaf in mixed.mixing]
        some = np.any([stays & runs for stays, runs in several], axis=0) & mixed.where
        moves = np.any([~stays & runs for stays, runs in several], axis=0)
        forms.refuse(some & moves, "a region of part of a stage with mixed loops")
        return np.asarray(some & ~moves)
    for t, stage in nest.stages.items():
        if slot in stage.loops.slots:
            position = stage.loops.slots.index(slot)
            inside = nest.around(s, t, position)
            kind = stage.loops.threads[position]
            if not kind:
                return inside
            if nest.ranks[s] <= thread_rank(ANNOTATION_TEXT[kind]):
                return np.zeros(forms.count, bool)
            forms.refuse(
                (forms.extents[slot] > 1) & ~inside, "a thread axis that is not around the stage"
            )
            return inside
    raise AssertionError(f"slot {slot} is of no stage")
