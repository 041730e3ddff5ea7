"""Draw the sizes of products that are fused by rows (FuseProducts, rules/fused_products.py).

    for i.0:                                           blocks of rows, in parallel
      for k.0, j.0, i.1.0, j.1, k.1, i.1.1, j.2: ...   parts, panels, register tiles of a product

All blocks but the last have the same rows: as few as leave the widest result of a product in half
of the second cache, and threads enough blocks. Register tiles, panels and parts of a reduction are
drawn as those of blocks are (`search/blocks.py`), and need not divide either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.search.blocks import (
    PANELS,
    Blocks,
    fits_panel,
    part_of,
    reduction_parts,
    register_tile,
    split_step,
)
from autosched.search.factors import divisors
from autosched.search.initial import Rng, one_of
from autosched.search.rules.protocol import Context
from autosched.state import queries
from autosched.state.iterator import Iterator
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import Step
from autosched.te.operations.operation import ComputeOp

_ROWS = (16, 32, 32, 64, 64, 128)
"""Rows of a block: what is read for all of a block is read anew for the next one."""

_BLOCKS_OF_A_THREAD = 2


@dataclass(frozen=True, slots=True)
class _Product:
    """A product with open sizes: the steps that split its rows, last axis and longest reduction."""

    stage_id: int
    rows: int
    last: int
    term: int


def fill_products(context: Context, state: State, rng: Rng) -> State | None:
    """Draw the sizes of products that are fused by rows; other splits stay open."""
    products = _products(state)
    place = state.attach_map.target_of(products[0].stage_id) if products else None
    made = [] if place is None else queries.split_step_ids(state, place[0])
    if place is None or len(made) != 1:
        return state
    (block,), batch = made, state.stages[place[0]].iters[: place[1]]
    rows = _rows(context, state, block, batch, products, rng)
    steps: list[Step] = list(state.steps)
    steps[block] = split_step(steps, block).with_lengths((rows,))
    for product in products:
        _draw(context, state, product, rows, steps, rng)
    return state.with_steps(tuple(steps))


def _products(state: State) -> list[_Product]:
    """The products whose loops FuseProducts has made and whose sizes are open."""
    found = []
    for stage_id, stage in enumerate(state.stages):
        if stage.compute_at is not ComputeAt.ITER or not queries.has_reduce_iter(state, stage_id):
            continue
        ids = queries.split_step_ids(state, stage_id)[::-1]
        shapes = [split_step(state.steps, k).lengths for k in ids]
        if shapes == [(None,), (None, None), (None,)]:
            found.append(_Product(stage_id, *ids))
    return found


def _rows(
    context: Context,
    state: State,
    block: int,
    batch: Sequence[Iterator],
    products: Sequence[_Product],
    rng: Rng,
) -> int:
    """Draw the rows of a block, which step `block` makes in each iteration of the loops `batch`.

    They divide all rows where a number of half the size or more does.
    """
    extent = _extent(state, block)
    row = max(_extent(state, p.last) * _element(state, p) for p in products)
    times = math.prod(it.extent_or_unknown for it in batch)
    threads = max(1, context.hardware.num_cores)
    most = min(
        one_of(rng, _ROWS),
        context.second_cache // 2 // row,
        extent * times // (threads * _BLOCKS_OF_A_THREAD),
    )
    most = max(1, most)
    even = [n for n in divisors(extent) if most <= 2 * n <= 2 * most]
    return even[-1] if even else part_of(extent, -(-extent // most), 1)


def _extent(state: State, k: int) -> int:
    return split_step(state.steps, k).extent or 1


def _element(state: State, product: _Product) -> int:
    op = state.stages[product.stage_id].op
    assert isinstance(op, ComputeOp)
    return op.output(0).dtype.bytes


def _draw(
    context: Context, state: State, product: _Product, rows: int, steps: list[Step], rng: Rng
) -> None:
    """Draw the sizes of a product whose blocks have `rows` rows, and put them into `steps`."""
    element = _element(state, product)
    core = context.core
    blocks = Blocks(
        (product.rows, product.last),
        (product.term,),
        core.lanes(element),
        core.registers,
        element,
        max(1, context.hardware.num_cores),
        handed_on=True,
        most_packed=context.second_cache // 2,
    )
    extent = _extent(state, product.last)
    tile, width = register_tile(blocks, rng, rows, extent)
    total = _extent(state, product.term)
    terms, depth = reduction_parts(steps, blocks, rng)
    if total % depth:
        terms, depth = {product.term: (total,)}, total
    widths = [
        n
        for n in PANELS
        if n == 1 or (extent % (n * width) == 0 and fits_panel(blocks, depth, n * width))
    ]
    lengths = {product.rows: (tile,), product.last: (one_of(rng, widths), width), **terms}
    for k, own in lengths.items():
        steps[k] = split_step(steps, k).with_lengths(own)
