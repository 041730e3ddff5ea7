"""Sampling of the initial population."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from autosched.errors import ScheduleError
from autosched.search.blocks import fill_blocks
from autosched.search.column_slices import fill_slices
from autosched.search.initial import (
    InitialRule,
    Rng,
    change_compute_location,
    fill_tile_size,
    one_of,
    parallel,
    pipeline,
    unroll,
    vectorize,
)
from autosched.search.product_slices import fill_product_slices
from autosched.search.rules.protocol import Context
from autosched.search.structure import Steps
from autosched.search.thread_bind import thread_bind
from autosched.search.thread_tiles import fill_thread_tiles
from autosched.search.window_tiles import fill_windows
from autosched.state import queries
from autosched.state.state import State

CPU_INITIAL: tuple[InitialRule, ...] = (
    fill_blocks,
    fill_windows,
    fill_slices,
    fill_tile_size,
    change_compute_location,
    parallel,
    unroll,
    vectorize,
)
GPU_INITIAL: tuple[InitialRule, ...] = (
    fill_product_slices,
    fill_thread_tiles,
    fill_tile_size,
    thread_bind,
    pipeline,
    unroll,
)

_BATCH = 32  # attempts are made in multiples of it
_MOST_ATTEMPTS = 1 << 14  # in a batch, however many samples are wanted
_BARREN_BATCHES = 5
_FEW_LEGAL, _MOST_TIMES = 0.5, 4
"""If a smaller share of the attempts is legal, up to _MOST_TIMES as many are made at once."""


def sample_one(context: Context, sketches: Sequence[State], rng: Rng) -> State | str:
    """A random sketch filled in at random, or why a rule discards it."""
    state = one_of(rng, sketches)
    rules = GPU_INITIAL if context.is_gpu else CPU_INITIAL
    try:
        for rule in rules:
            following = rule(context, state, rng)
            if following is None:
                return f"{rule.__name__}: nothing that fits the loops and the target's limits"
            state = following
    except ScheduleError as error:
        return str(error)
    return state


def drawn(context: Context, sketches: Sequence[State], rng: Rng, attempts: int) -> Iterator[State]:
    """Yield the samples of `attempts` attempts that are not discarded.

    On a CPU none has a parallel loop inside another.
    """
    for found in _attempted(context, sketches, rng, attempts):
        if isinstance(found, State):
            yield found


def discarded(
    context: Context, sketches: Sequence[State], rng: Rng, attempts: int
) -> Iterator[str]:
    """Yield why an attempt was discarded, for each of `attempts` that was (`drawn` skips these)."""
    for found in _attempted(context, sketches, rng, attempts):
        if not isinstance(found, State):
            yield found


def _attempted(
    context: Context, sketches: Sequence[State], rng: Rng, attempts: int
) -> Iterator[State | str]:
    for generator in rng.spawn(attempts):
        found = sample_one(context, sketches, generator)
        if isinstance(found, State) and not context.is_gpu and queries.has_nested_parallel(found):
            found = "a parallel loop stands inside another one"
        yield found


def sample_population(
    context: Context,
    sketches: Sequence[State],
    rng: Rng,
    count: int,
    legal: Callable[[Sequence[Steps]], Sequence[bool]] | None = None,
) -> list[Steps]:
    """At least `count` different samples, fewer when the space is smaller.

    Illegal samples are dropped, on a CPU also those with a parallel loop inside another, and those
    that `legal` refuses: a GPU's limits show only when a candidate is lowered. If few attempts are
    legal, more are made at once, because the cost of arrays is per batch. After five batches in a
    row without a new sample the wanted number is halved, as in Ansor.

    For a GPU Ansor leaves it to chance whether tiles make enough threads, and not too many. If five
    such batches have found no sample at all, tiles are drawn among those that fit instead.
    """
    found: list[Steps] = []
    texts: set[str] = set()
    barren, share = 0, 1.0
    while len(found) < count:
        batch: list[Steps] = []
        attempts = math.ceil((count - len(found)) / share / _BATCH) * _BATCH
        attempts = min(attempts, _MOST_ATTEMPTS)
        for state in drawn(context, sketches, rng, attempts):
            text = state.to_str()
            if text not in texts:
                texts.add(text)
                batch.append(state.steps)
                if share == 1 and len(found) + len(batch) >= count:
                    attempts = len(batch)  # a lower bound: the draw stopped early
                    break
        before = len(found)
        kept = legal(batch) if legal is not None else [True] * len(batch)
        found += [steps for steps, keep in zip(batch, kept, strict=True) if keep]
        barren = barren + 1 if len(found) == before else 0
        legal_share = (len(found) - before) / attempts
        share = max(legal_share, 1 / _MOST_TIMES) if legal_share < _FEW_LEGAL else 1.0
        if barren == _BARREN_BATCHES:
            if context.is_gpu and not context.fits_tiles and not found:
                context, barren = replace(context, fitting=True), 0
                continue
            if count <= 1:
                break
            count, barren = count // 2, 0
    return found
