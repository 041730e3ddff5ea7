"""What a candidate's steps do, numbers apart: its plan, which candidates of one structure share.

Of every stage it knows how its loops come from its axes (`Loops`), where the stage is computed and
which numbers of the candidate its splits use. `planner.py` makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autosched.state.steps import PragmaStep, SplitStep, Step

Columns = tuple[int, ...]
"""Which of a candidate's numbers are multiplied."""


class UnsupportedError(Exception):
    """This structure has no plan: its candidates are worked out one by one."""


@dataclass(frozen=True)
class Loops:
    """How the loops of a stage come from its axes, by ids: the axes are 0 to `axes` - 1.

    A relation is (parent, outer, inner, sized inner) or (outer, inner, fused); `kinds` has the
    annotation of each leaf and `unroll` the position of the one with the unroll pragma, or -1.
    """

    axes: int
    relations: tuple[tuple[int, int, int, int] | tuple[int, int, int], ...]
    leaves: tuple[int, ...]
    kinds: tuple[int, ...]
    unroll: int


@dataclass(frozen=True)
class Factored:
    """A reduction cut in two: `loops` made its leaves from the old axes, reduction ones last.

    `position` is where the factored leaf `factor` stands among the new stage's data axes, `rest`
    are the leaves that it reduces over.
    """

    loops: Loops
    data: int
    factor: int
    position: int
    rest: tuple[int, ...]


@dataclass(frozen=True)
class StagePlan:
    """What a plan says of one stage that has loops."""

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


@dataclass(frozen=True)
class Plan:
    """The stages, in order; `key` tells apart what is computed, whatever its loops.

    `op_steps` are the steps that change what is computed, with stage ids as without rfactor.
    """

    key: tuple[Any, ...]
    op_steps: tuple[Step, ...]
    stages: tuple[StagePlan, ...]


def structure_of(steps: Sequence[Step]) -> tuple[tuple[Any, ...], list[int]]:
    """The steps without their numbers, and these numbers in order."""
    found: list[Any] = []
    numbers: list[int] = []
    for step in steps:
        cls = step.__class__
        if cls is SplitStep:
            lengths = step.lengths  # type: ignore[attr-defined]  # told by its class
            numbers += lengths
            found.append((step.stage_id, step.iter_id, len(lengths), step.inner_to_outer))  # type: ignore[attr-defined]  # likewise
        elif cls is PragmaStep:
            limit = step.unroll_limit  # type: ignore[attr-defined]  # likewise
            if limit is None:
                found.append(step)
            else:
                numbers.append(limit)
                found.append((step.stage_id, step.iter_id))  # type: ignore[attr-defined]  # likewise
        else:
            found.append(step)
    return tuple(found), numbers
