"""Draw how many slices the terms of a product are cut into, for GPUs.

This fills in the sketches of SliceProduct (rules/product_slices.py). It comes before tile sizes,
which are drawn among the factorizations of the terms of a slice.
"""

from __future__ import annotations

from dataclasses import replace

from autosched.search.initial import Rng, one_of
from autosched.search.rules.product_slices import slice_counts
from autosched.search.rules.protocol import Context
from autosched.search.thread_tiles import has_threads, sizes_of
from autosched.state import queries
from autosched.state.state import State
from autosched.state.steps import SplitStep


def fill_product_slices(context: Context, state: State, rng: Rng) -> State | None:
    """Draw the numbers of slices, and set the extents of the splits inside a slice.

    If the results alone have work for the threads of a block, a block has a single slice: the
    region fetched for two would span from the first terms of one to the last terms of the other.
    """
    products = dict(queries.sliced_products(state.steps))
    if not products:
        return state
    whole: set[int] = set()
    filled = context.dag.init_state
    for k, step in enumerate(state.steps):
        if isinstance(step, SplitStep) and None in step.lengths:
            if k in products:
                elements, terms = queries.cumulative_lengths(filled, step.stage_id)
                counts = slice_counts(elements, terms, step.extent or 1)
                count = one_of(rng, counts)
                step = step.with_lengths((count,))
                sizes = sizes_of(filled, step.stage_id)
                if has_threads(context.hardware, (count, *sizes), sizes):
                    whole.add(products[k])
            else:
                it = filled.stages[step.stage_id].iters[step.iter_id]
                step = replace(step, extent=it.extent or step.extent)
                if k in whole:
                    step = step.with_lengths((1,) * len(step.lengths))
        filled = filled.apply(step)
    return filled
