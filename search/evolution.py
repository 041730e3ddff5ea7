"""Evolution of thousands of candidates, as rows of numbers, scored by a surrogate model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from autosched.search.crossing import crossed
from autosched.search.initial import PIPELINE_STAGES, Rng, unroll_limits
from autosched.search.population import (
    Rows,
    Structures,
    first_of_each,
    moved_factors,
    redrawn_pipelines,
    redrawn_unrolls,
)
from autosched.search.rules.protocol import Context
from autosched.search.surrogate import Scores
from autosched.search.thread_tiles import suited

_MOVES = 8  # moved factors after which a row hardly depends on the one that it was made of
_ATTEMPTS = 3  # random changes that are tried until a GPU's tiles are suited
_UNROLLS, _PIPELINES, _TRANSPLANTS = 0.05, 0.05, 0.05
"""Shares of mutations that redraw an unroll limit, redraw how many tiles a pipelined loop holds, or
change the structure. All others cross two rows or move a factor of a split."""
_CROSSINGS = 0.3  # share of mutations that cross two rows; Ansor's space and GPUs have none


def evolved(
    context: Context,
    structures: Structures,
    judge: Callable[[Rows], Scores],
    start: Rows,
    rng: Rng,
) -> Rows:
    """Evolve the rows `start` and return those that `judge` scores highest, best first.

    `judge` returns the logarithm of a score for each row. The first generation is `start` and
    random rows of its structures. The options say how many generations follow, and their size.
    """
    size = context.options.evolutionary_search_population
    share = context.options.evolutionary_search_mutation_prob
    population = _unique(start.joined(_relatives(context, structures, start, size, rng)))
    scores = judge(population)
    for _ in range(context.options.evolutionary_search_num_iters):
        best = np.argsort(-scores, kind="stable")[:size]
        population, scores = population.take(best), scores[best]
        parents = population.take(rng.choice(len(population), size=size, p=_shares(scores)))
        parents = parents.take(np.flatnonzero(rng.random(size) < share))
        judged = len(population)  # they are unique and stay in front: only later rows are new
        population = _unique(population.joined(mutated(context, structures, parents, rng)))
        new = judge(population.take(np.arange(judged, len(population))))
        scores = np.concatenate([scores, new])
    return population.take(np.argsort(-scores, kind="stable")[:size])


def _relatives(context: Context, structures: Structures, start: Rows, count: int, rng: Rng) -> Rows:
    """Draw `count` rows that have structures of `start` and almost random numbers."""
    rows = start.take(rng.integers(len(start), size=count))
    for _ in range(_MOVES):
        rows = _moved(context, structures, rows, rng)
    rows = redrawn_unrolls(structures, rows, rng, unroll_limits(context))
    return _redrawn(context, structures, rows, rng)


def mutated(context: Context, structures: Structures, parents: Rows, rng: Rng) -> Rows:
    """Apply one random mutation to each row. The result is ordered by the kind of mutation."""
    draw = rng.random(len(parents))
    crossings = 0.0 if context.is_gpu or context.options.space == "ansor" else _CROSSINGS
    pipelines = _PIPELINES if structures.any_pipelines else 0.0
    limits = np.cumsum([_UNROLLS, _TRANSPLANTS, crossings, pipelines])
    kinds = np.searchsorted(limits, draw, side="right")
    unroll, transplant, cross, pipeline, move = (
        parents.take(np.flatnonzero(kinds == kind)) for kind in range(5)
    )
    return (
        _moved(context, structures, move, rng)
        .joined(redrawn_unrolls(structures, unroll, rng, unroll_limits(context)))
        .joined(_redrawn(context, structures, pipeline, rng))
        .joined(structures.transplanted(transplant, rng))
        .joined(crossed(structures, cross, rng))
    )


def _moved(context: Context, structures: Structures, rows: Rows, rng: Rng) -> Rows:
    """Move a factor of one split in each row."""
    limit = context.options.max_innermost_split_factor
    move = partial(moved_factors, structures, rng=rng, innermost=limit)
    return _where_it_suits(context, structures, rows, move)


def _redrawn(context: Context, structures: Structures, rows: Rows, rng: Rng) -> Rows:
    """Redraw how many tiles one pipelined loop of each row holds."""
    redraw = partial(redrawn_pipelines, structures, rng=rng, choices=PIPELINE_STAGES)
    return _where_it_suits(context, structures, rows, redraw)


def _where_it_suits(
    context: Context, structures: Structures, rows: Rows, change: Callable[[Rows], Rows]
) -> Rows:
    """Apply the random `change` to the numbers of the rows.

    If the tiles of a row would no longer be `suited` to a GPU, other changes are tried; after
    _ATTEMPTS the row stays as it is. A row that was not suited before may change to any numbers.
    """
    anywhere = ~suited(context, structures, rows)
    numbers, left = rows.numbers.copy(), np.arange(len(rows))
    for _ in range(_ATTEMPTS):
        changed = change(rows.take(left))
        legal = suited(context, structures, changed) | anywhere[left]
        numbers[left[legal]] = changed.numbers[legal]
        left = left[~legal]
        if not left.size:
            break
    return Rows(rows.structures, numbers)


def _shares(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    weights: npt.NDArray[np.float64] = np.exp((scores - scores.max()).astype(np.float64))
    weights /= weights.sum()
    return weights


def _unique(rows: Rows) -> Rows:
    """Each row once, in order of appearance."""
    return rows.take(first_of_each(rows))
