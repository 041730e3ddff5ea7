"""Draw the tile sizes of windows whose border is inlined (InlineBorder in rules/space.py).

    for h.2 in 2: for w.2 in 2: for rh in 3: for rw in 3: for c.3 in 64: Y[h, w, c] += ...

Neighbouring outputs share most of what their windows read: a tile of outputs around the window
loops loads it once. Among all factorizations of a depthwise convolution of 56x56, tiles of 2x2
outputs are 0.3% of the draws, and few have whole vectors; so such sizes are drawn half of the time.
Channels that no vector divides stay together, because each part would end in a vector of its own.
Best of 64 trials of a depthwise convolution of 28x28x120 with windows of 5x5, three seeds, Zen 4:
22 to 23 us, and 28 to 40 us if the parts of such channels are drawn like other sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.search.blocks import split_step
from autosched.search.factors import divisors
from autosched.search.initial import Rng, one_of, pick
from autosched.search.rules.protocol import Context
from autosched.state import queries
from autosched.state.state import State
from autosched.state.steps import SplitStep, Step
from autosched.te.operations.operation import ComputeOp

_SIDES = (1, 2, 2, 3, 4)
"""Outputs of a tile along an axis."""

_VECTORS = (1, 2, 4)
"""Vectors of a tile along the last axis; the code generator holds as many at once as fit."""

_SPATIAL_LENGTHS = 3


def fill_windows(context: Context, state: State, rng: Rng) -> State | None:
    """Draw the tile sizes of windows half of the time; other splits stay open.

    Where whole vectors do not divide the last axis, a tile has all of it.
    """
    for splits, op in list(_windows(state)):
        if pick(rng, 2):
            continue
        steps: list[Step] = list(state.steps)
        most = context.core.registers // 2
        *across, last = splits[: len(op.axis)]
        for k in across:
            extent = split_step(steps, k).extent or 1
            side = one_of(rng, [n for n in _SIDES if n <= most and extent % n == 0])
            most //= side
            steps[k] = _with(steps, k, _divisor(extent // side, rng), side, 1)
        extent = split_step(steps, last).extent or 1
        lanes = context.core.lanes(op.output(0).dtype.bytes)
        widths = [n * lanes for n in _VECTORS if extent % (n * lanes) == 0]
        width = one_of(rng, widths or [extent])
        steps[last] = _with(steps, last, _divisor(extent // width, rng), 1, width)
        for k in splits[len(op.axis) :]:
            steps[k] = _with(steps, k, split_step(steps, k).extent or 1)
        state = state.with_steps(tuple(steps))
    return state


def _divisor(extent: int, rng: Rng) -> int:
    return one_of(rng, divisors(extent))


def _with(steps: Sequence[Step], k: int, *lengths: int) -> SplitStep:
    return split_step(steps, k).with_lengths(lengths)


def _windows(state: State) -> Iterator[tuple[list[int], ComputeOp]]:
    """Yield the open splits of each tiled stage whose padded input is inlined, and its operation.

    The splits are step indices, those of the result's axes first.
    """
    for stage_id, stage in enumerate(state.stages):
        op = stage.op
        if not isinstance(op, ComputeOp) or not op.reduce_axis:
            continue
        if not any(
            state.stages[k].is_inlined and not queries.is_strictly_inlineable(state, k)
            for k in queries.direct_producers(state, stage_id)
        ):
            continue
        splits = [
            k
            for k, step in enumerate(state.steps)
            if isinstance(step, SplitStep)
            and None in step.lengths
            and queries.current_stage_id(state.steps, k) == stage_id
        ]
        shapes = [len(split_step(state.steps, k).lengths) for k in splits]
        if shapes == [_SPATIAL_LENGTHS] * len(op.axis) + [1] * len(op.reduce_axis):
            yield splits, op
