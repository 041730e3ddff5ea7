"""Draw the numbers of slices and of joined rows for the sketches of rules/column_slices.py.

    for p in P: for m in M: for r, j in R * 10: d.rf.rf[p, r, j] += A[(p * M + m) * R + r, j]

P slices give each thread one slice or a few, so that no thread waits long for the last one. R rows
of 10 columns are joined to fill whole vectors where possible; their sums take at most three
quarters of the vector registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.search.blocks import split_step
from autosched.search.factors import divisors
from autosched.search.initial import Rng, one_of, pick
from autosched.search.rules.blocking import extent_of
from autosched.search.rules.column_slices import most_lanes
from autosched.search.rules.protocol import Context
from autosched.state import queries
from autosched.state.state import State
from autosched.state.steps import RfactorStep, SplitStep, Step
from autosched.te.operations.operation import ComputeOp

_SLICES_OF_A_THREAD = (1, 2, 4, 8)
_LEAST_PART, _MOST_PART = 32, 512
"""Bounds of the terms in a part of a product's slice. Each tile of sums reads the operands of a
part again."""


def fill_slices(context: Context, state: State, rng: Rng) -> State | None:
    """Draw the numbers of joined rows and of slices, and the parts of a product's slice.

    Three of four times the number is one that divides the terms that are left, if there is any.
    """
    for k in list(_slices(state.steps)):
        steps = list(state.steps)
        terms = split_step(steps, k).extent or 1
        if k >= 2 and _is_open(steps, k - 2, split_step(steps, k).stage_id):
            op = state.stages[queries.current_stage_id(steps, k)].op
            assert isinstance(op, ComputeOp)
            rows = _rows(context, op, terms, rng)
            steps[k - 2] = split_step(steps, k - 2).with_lengths((rows,))
            terms = -(-terms // rows)
        threads = max(1, context.hardware.num_cores)
        counts = [n * threads for n in _SLICES_OF_A_THREAD if n * threads <= terms] or [1]
        exact = [n for n in divisors(terms) if counts[0] <= n <= counts[-1]]
        share = -(-terms // _drawn(counts, exact, rng))
        # Only as many slices as are needed with `share` terms each: none is empty.
        steps[k] = split_step(steps, k).with_lengths((-(-terms // share),))
        terms = share
        if k + 2 < len(steps) and _is_open(steps, k + 2, split_step(steps, k).stage_id):
            parts = [n for n in (64, 128, 256) if n <= terms] or [terms]
            exact = [n for n in divisors(terms) if _LEAST_PART <= n <= _MOST_PART]
            steps[k + 2] = split_step(steps, k + 2).with_lengths((_drawn(parts, exact, rng),))
        state = state.with_steps(tuple(steps))
    return state


def _drawn(choices: Sequence[int], exact: Sequence[int], rng: Rng) -> int:
    if exact and pick(rng, 4):
        choices = exact
    return one_of(rng, choices)


def _rows(context: Context, op: ComputeOp, terms: int, rng: Rng) -> int:
    """Draw how many rows along the last axis of `op` are joined to one row of vectors."""
    columns = extent_of(op.output(0).shape[-1])
    element = op.output(0).dtype.bytes
    lanes, most = context.core.lanes(element), most_lanes(context, element) // columns
    counts = range(1, max(1, min(most, terms)) + 1)
    whole = [n for n in counts if n * columns % lanes == 0] or counts
    return _drawn(whole, [n for n in whole if terms % n == 0], rng)


def _slices(steps: Sequence[Step]) -> Iterator[int]:
    """Yield the index of each open split of terms into slices.

    It has `inner_to_outer` unset, unlike the splits before a rfactor step of Ansor's sketches.
    """
    for k, step in enumerate(steps[:-1]):
        if isinstance(step, SplitStep) and not step.inner_to_outer and None in step.lengths:
            if isinstance(steps[k + 1], RfactorStep):
                yield k


def _is_open(steps: Sequence[Step], k: int, stage_id: int) -> bool:
    """Whether step `k` splits the stage `stage_id` by one length, which is still open."""
    step = steps[k]
    return isinstance(step, SplitStep) and step.stage_id == stage_id and step.lengths == (None,)
