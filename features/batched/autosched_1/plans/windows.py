"""Where reductions are unrolled whole because neighbouring outputs read the same: the first
question of `nest/window.py` for arrays of nests."""

from __future__ import annotations

import numpy as np

from autosched.features.batched.autosched_1.plans.lanes import Nests
from autosched.features.batched.autosched_1.plans.tiles import Problems, innermost_run
from autosched.features.batched.forms import Flags, Ints
from autosched.nest.plan import WINDOW_LANES


def have_windows(nests: Nests, problems: Problems, fit: int) -> Flags:
    """Where `nest.plan._with_window` gives the problem a window."""
    run = innermost_run(nests)
    every = np.arange(nests.count)
    there = problems.loop >= 0
    uneven = nests.conditional | (nests.blocks != 0).any(axis=0)
    guarded = (uneven & run).any(axis=0)
    guarded = guarded | (there & uneven[problems.loop, every]).any(axis=0)
    found: Flags = (nests.lane != 0) & ((nests.width <= fit) | (problems.chunks > 1))
    found = found & (nests.width >= WINDOW_LANES) & problems.core.windows & ~guarded
    those = found.nonzero()[0]
    shares = np.zeros(len(those), bool)
    width = (nests.width // problems.chunks)[those]
    extents = problems.extents[:, those]
    run, extent = run[:, those], nests.extent[:, those]
    for reads, steps in zip(nests.reads[:, :, those], nests.steps[:, those], strict=True):
        moves = np.where(there[:, those], reads[problems.loop[:, those], np.arange(len(those))], 0)
        tile = np.concatenate([moves, (steps * width)[None]])
        along = np.where(run, reads, 0)
        apart = elements(tile, extents) * elements(along, extent)
        both = np.concatenate([tile, along]), np.concatenate([extents, extent])
        shares |= elements(*both) < apart
    found[those] = shares
    return found


def elements(strides: Ints, extents: Ints) -> Ints:
    """`nest.window.elements` of loops by (loop, nest)."""
    far = np.int64(1) << 62
    strides = np.where((strides != 0) & (extents > 1), np.abs(strides), far)
    order = np.argsort(strides, axis=0)
    strides = np.take_along_axis(strides, order, axis=0)
    extents = np.take_along_axis(extents, order, axis=0)
    product = np.ones_like(strides[0])
    last, count = np.zeros_like(product), np.ones_like(product)
    for stride, extent in zip(strides, extents, strict=True):
        here = stride != far
        if not here.any():
            break
        times = stride // np.maximum(last, 1)
        joins = here & (last != 0) & (stride % np.maximum(last, 1) == 0) & (times <= count)
        begins = here & ~joins
        product = np.where(begins, product * count, product)
        last = np.where(begins, stride, last)
        more = count + times * (extent - 1)
        count = np.where(begins, extent, np.where(joins, more, count))
    found: Ints = product * count
    return found
