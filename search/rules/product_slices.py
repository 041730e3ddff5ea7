"""SliceProduct: cut products with few results and many terms into slices, for GPUs in `autosched`.

C = sum(A * B)      ->    C.rf[n] = sum(A * B) of slice n     blocks of their own for each slice
                          C = sum(n, C.rf[n]), what reads C   a second kernel

A convolution of 7x7 positions and 512 filters has seven tiles of 64x64: Ansor leaves all other
multiprocessors idle, or gives each thread so little that it waits for memory. Slices are tiled like
the images of a batch. Their number is drawn before tile sizes (search/product_slices.py). Products
on tensor cores have slices of their own (rules/tensor_core.py).
"""

from __future__ import annotations

from autosched.search.factors import divisors
from autosched.search.rules.common import FEW_BLOCKS
from autosched.search.rules.protocol import Context, Decision, FunctionRule
from autosched.search.rules.tensor_core import fitting_instructions, is_untouched, writer_of
from autosched.search.rules.tiling import in_slices, iters_of
from autosched.state import queries
from autosched.state.iterator import Iterator, IterKind
from autosched.state.state import State

_TILE = 64 * 64
"""Results of a block that reuses each value often enough."""
_LONG_SUM = 1024
_LEAST_TERMS = 64
"""The fewest terms of a slice: with fewer, writing and reading its sums takes longer than the
products."""
_BLOCKS = (FEW_BLOCKS // 2, 4 * FEW_BLOCKS)
"""The range of tiles in all slices that is worth drawing, if a number of slices is within it."""


def slice_counts(elements: int, terms: int, axis: int) -> tuple[int, ...]:
    """The numbers of slices, divisors of `axis`, into which an axis of that length may be cut.

    `terms` are the terms of all axes together, `elements` the results.

    >>> slice_counts(49 * 512, 9 * 512, 512)
    (16, 32, 64)
    """
    tiles = -(-elements // _TILE)
    whole = [n for n in divisors(axis) if n > 1 and terms // n >= _LEAST_TERMS]
    enough = [n for n in whole if _BLOCKS[0] <= tiles * n <= _BLOCKS[1]]
    return tuple(enough or whole[-1:])


def _condition(context: Context, state: State, stage_id: int) -> Decision:
    stage = state.stages[stage_id]
    if not queries.needs_multi_level_tiling(state, stage_id) or not is_untouched(state, stage_id):
        return Decision.SKIP
    if stage.name.endswith(".rf") or queries.has_cache_write(state, stage_id):
        return Decision.SKIP
    if fitting_instructions(context, state, stage_id):
        return Decision.SKIP
    elements, terms = queries.cumulative_lengths(state, stage_id)
    few = 2 * -(-elements // _TILE) <= FEW_BLOCKS
    if not few or terms < _LONG_SUM:
        return Decision.SKIP
    counts = slice_counts(elements, terms, _longest(state, stage_id).extent_or_unknown)
    return Decision.APPLY if counts else Decision.SKIP


def _longest(state: State, stage_id: int) -> Iterator:
    """The axis of the sum that is cut: the longest one."""
    terms = iters_of(state, stage_id, IterKind.REDUCTION)
    return max(terms, key=lambda it: it.extent_or_unknown)


def _slice(context: Context, state: State, stage_id: int) -> list[tuple[State, int]]:
    writer = writer_of(state, stage_id)
    return [(in_slices(state, stage_id, _longest(state, stage_id), writer), stage_id)]


SLICE_PRODUCT = FunctionRule("SliceProduct", _condition, _slice)
