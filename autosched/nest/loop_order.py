"""Order the loops of a nest around the accumulators that registers hold.

Loops outside the accumulators' lifetime come first, then the reduction loops. The tile of outputs
and the lanes are innermost.

    for k.o: for i: for k.i: for j   ->   for i: (accumulators) for k.o: for k.i: for j
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.nest.loop_nest import InnerLoop

SHORT_REDUCTION = 16
"""A reduction of fewer steps may bring the reduction loops outside of it into the accumulators'
lifetime."""


def last_reduction(loops: Sequence[InnerLoop]) -> int:
    """The position of the innermost reduction loop, if possible of one that runs more than once."""
    return max((loop.extent > 1, k) for k, loop in enumerate(loops) if loop.reduces)[1]


def around_accumulators(
    loops: Sequence[InnerLoop], kept: Sequence[int], short: int = SHORT_REDUCTION
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Divide the loops at the positions `kept` into those outside the accumulators' lifetime and
    the reduction loops inside; both are positions.

    The innermost run of reduction loops is inside. While the loops inside have fewer than `short`
    steps, the next run outwards moves inside, too, past the spatial loops in between.
    """
    at = [loops[k] for k in kept]
    last = last_reduction(at)
    inside: list[int] = []
    moved = [k for k in range(last + 1, len(at)) if not at[k].reduces]
    position, steps = last, 1
    while position >= 0 and (at[position].reduces or steps < short):
        if at[position].reduces:
            inside.insert(0, position)
            steps *= at[position].extent
        elif any(loop.reduces and loop.extent > 1 for loop in at[:position]):
            moved.insert(0, position)
        else:
            break
        position -= 1
    inside += [k for k in range(last + 1, len(at)) if at[k].reduces]
    outer = [*range(position + 1), *moved]
    return tuple([kept[k] for k in outer]), tuple([kept[k] for k in inside])
