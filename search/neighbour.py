"""Mutate one candidate, as evolution mutates thousands at once."""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.search.evolution import mutated
from autosched.search.initial import Rng
from autosched.search.mutation import restructured
from autosched.search.population import Structures
from autosched.search.rules.protocol import Context
from autosched.search.structure import Steps

_ATTEMPTS = 16
_RESTRUCTURED = 0.2  # share of attempts that change the structure instead of a number


def neighbour(context: Context, steps: Steps, rng: Rng) -> Steps:
    """Apply one random mutation to a candidate; returns the candidate itself if all attempts fail.

    A factor moves from one loop of a split to another, an unroll limit or the number of tiles of a
    pipelined loop is drawn anew, a stage moves to another loop, or a parallel loop is fused anew.
    """
    structures = Structures()
    rows = structures.rows([steps])
    for _ in range(_ATTEMPTS):
        if rng.random() < _RESTRUCTURED:
            found = restructured(context, steps, rng)
        else:
            (found,) = structures.candidates(mutated(context, structures, rows, rng))
        if found is not None and found != steps and _applies(context, found):
            return found
    return steps


def _applies(context: Context, steps: Steps) -> bool:
    try:
        context.dag.infer_bound_of(steps)
    except ScheduleError:
        return False
    return True
