"""Sampling of the initial population."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from autosched.errors import ScheduleError
from autosched.search.blocks import fill_blocks
from autosched.search.bounds import Bounds
from autosched.search.column_slices import fill_slices
from autosched.search.fused_products import fill_products
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
from autosched.search.thread_bind import bind_tiles, thread_bind
from autosched.search.thread_tiles import FillThreadTiles
from autosched.search.window_tiles import fill_windows
from autosched.state import queries
from autosched.state.state import State


def forbid_nested_parallel(context: Context, state: State, rng: Rng) -> State | None:
    """ScheduleError for a parallel loop inside another one."""
    if queries.has_nested_parallel(state):
        raise ScheduleError("a parallel loop stands inside another one")
    return state


class Rules(NamedTuple):
    """Rules that fill in a sketch one after the other; bounds are inferred after `first`."""

    first: tuple[InitialRule, ...]
    then: tuple[InitialRule, ...]


CPU_RULES = Rules(
    (
        fill_blocks,
        fill_products,
        fill_windows,
        fill_slices,
        fill_tile_size,
        change_compute_location,
    ),
    (parallel, unroll, vectorize, forbid_nested_parallel),
)


def gpu_rules() -> Rules:
    """The rules for a GPU, with what one of them remembers."""
    return Rules(
        (fill_product_slices, FillThreadTiles(), fill_tile_size, bind_tiles),
        (thread_bind, pipeline, unroll),
    )


_BATCH = 32  # attempts are made in multiples of it
_MOST_ATTEMPTS = 1 << 14  # in a batch, however many samples are wanted
_AT_ONCE = 1 << 10  # of a batch, which limits memory
_BARREN_BATCHES = 5
_FEW_LEGAL, _MOST_TIMES = 0.5, 4
"""If a smaller share of the attempts is legal, up to _MOST_TIMES as many are made at once."""


class Sampler:
    """Draws candidates of one search space, many at once.

    What was worked out for one call is kept for the next.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rules = gpu_rules() if context.is_gpu else CPU_RULES
        self._bounds = Bounds(context.dag)

    def drawn(
        self, sketches: Sequence[State], rng: Rng, attempts: int, *, fitting: bool = False
    ) -> list[Steps]:
        """The samples of `attempts` attempts that are not discarded.

        On a CPU none has a parallel loop inside another. `fitting` is that of `Context`.
        """
        context = replace(self._context, fitting=True) if fitting else self._context
        every = self._attempted(context, sketches, rng, attempts)
        return [found.steps for found in every if isinstance(found, State)]

    def discarded(self, sketches: Sequence[State], rng: Rng, attempts: int) -> list[str]:
        """Why an attempt was discarded, for each of `attempts` that was."""
        every = self._attempted(self._context, sketches, rng, attempts)
        return [found for found in every if not isinstance(found, State)]

    def _attempted(
        self,
        context: Context,
        sketches: Sequence[State],
        rng: Rng,
        attempts: int,
        at_once: int = _AT_ONCE,
    ) -> Iterator[State | str]:
        """Yield samples of random sketches, or why one is discarded; `at_once` are worked out
        together."""
        generators = iter(rng.spawn(attempts))
        while some := list(islice(generators, at_once)):
            found: list[State | str] = [one_of(own, sketches) for own in some]
            _apply(self._rules.first, context, found, some)
            self._infer(context, found)
            _apply(self._rules.then, context, found, some)
            yield from found

    def _infer(self, context: Context, samples: list[State | str]) -> None:
        """Infer the bounds of the samples that need it; one that is illegal becomes the reason."""
        unknown = [
            (k, state)
            for k, state in enumerate(samples)
            if isinstance(state, State) and not _outputs_alone(context, state)
        ]
        found = self._bounds([state for _, state in unknown])
        for (k, _), bounded in zip(unknown, found, strict=True):
            samples[k] = bounded if isinstance(bounded, State) else str(bounded)

    def population(
        self,
        sketches: Sequence[State],
        rng: Rng,
        count: int,
        legal: Callable[[Sequence[Steps]], Sequence[bool]] | None = None,
    ) -> list[Steps]:
        """At least `count` different samples, fewer when the space is smaller.

        Illegal samples are dropped, on a CPU also those with a parallel loop inside another, and
        those that `legal` refuses: a GPU's limits show only when a candidate is lowered. If few
        attempts are legal, more are made at once, because the cost of arrays is per batch. After
        five batches in a row without a new sample the wanted number is halved, as in Ansor.

        For a GPU Ansor leaves it to chance whether tiles make enough threads, and not too many. If
        five such batches have found no sample at all, tiles are drawn among those that fit instead.
        """
        context = self._context
        found: list[Steps] = []
        texts: set[str] = set()
        barren, share = 0, 1.0
        while len(found) < count:
            batch: list[Steps] = []
            attempts = math.ceil((count - len(found)) / share / _BATCH) * _BATCH
            attempts = min(attempts, _MOST_ATTEMPTS)
            at_once = min(count - len(found) if share == 1 else attempts, _AT_ONCE)
            every = self._attempted(context, sketches, rng, attempts, at_once)
            for state in (each for each in every if isinstance(each, State)):
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


def _apply(
    rules: Sequence[InitialRule],
    context: Context,
    samples: list[State | str],
    rngs: Sequence[Rng],
) -> None:
    """Apply rules to those samples that are states; what is discarded becomes the reason."""
    for k, (sample, rng) in enumerate(zip(samples, rngs, strict=True)):
        if isinstance(sample, State):
            samples[k] = _applied(rules, context, sample, rng)


def _applied(rules: Sequence[InitialRule], context: Context, state: State, rng: Rng) -> State | str:
    for rule in rules:
        try:
            found = rule(context, state, rng)
        except ScheduleError as error:
            return str(error)
        if found is None:
            return f"{rule.__name__}: nothing that fits the loops and the target's limits"
        state = found
    return state


def _outputs_alone(context: Context, state: State) -> bool:
    """Whether only outputs have loops and all extents are known: no bounds are to be inferred."""
    return all(
        stage.is_placeholder
        or stage.is_inlined
        or (stage.op in context.dag.outputs and all(it.extent is not None for it in stage.iters))
        for stage in state.stages
    )
