"""Random candidates and their mutations."""

from __future__ import annotations

import numpy as np

from autosched.search.evolution import mutated
from autosched.search.population import Structures, moved_factors
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.task import Task


def with_relatives(task: Task, seed: int, count: int, mutations: int) -> list[tuple[Step, ...]]:
    """`count` random candidates, and as many mutated ones.

    `mutations` times, each of these is mutated and has factors moved beyond what a search does, so
    that vectors and virtual threads are often too large.
    """
    rng = np.random.default_rng(seed)
    space = SearchSpace(task)
    found = space.sample(rng, count)[:count]
    structures = Structures()
    rows = structures.rows(found)
    for _ in range(mutations):
        rows = mutated(space.context, structures, rows, rng)
        rows = moved_factors(
            structures, rows, rng, space.context.options.max_innermost_split_factor
        )
    return [*found, *structures.candidates(rows)]
