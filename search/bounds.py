"""Infer the bounds of many states at once."""

from __future__ import annotations

from collections.abc import Iterator as Iterates
from collections.abc import Sequence

from autosched.errors import ScheduleError
from autosched.features.batched.extents import BatchedExtents, Extents
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import THREAD_ANNOTATIONS, Iterator, IterKind
from autosched.state.stage import StateStage
from autosched.state.state import State
from autosched.user_warning import warn
from autosched.words import told

_FEW = 8
"""Fewer states are quicker one by one."""
_THREADS = frozenset(THREAD_ANNOTATIONS.values())


class Bounds:
    """Infers bounds of states of one DAG, of many at once where possible."""

    def __init__(self, dag: ComputeDAG) -> None:
        self._dag = dag
        self._extents: BatchedExtents | None = BatchedExtents(dag)

    def __call__(self, states: Sequence[State]) -> Iterates[State | ScheduleError]:
        """Yield each state with its bounds, or the error that says why it is illegal.

        Loops get the extents that `ComputeDAG.infer_bound` finds. Their starts may be left out.
        """
        for state, extents in zip(states, self._at_once(states), strict=True):
            if extents is not None:
                yield _with_extents(state, extents)
                continue
            try:
                yield self._dag.infer_bound(state)
            except ScheduleError as error:
                yield error

    def _at_once(self, states: Sequence[State]) -> Sequence[Extents | None]:
        """The extents of those states for which there is a rule in array form."""
        if self._extents is not None and len(states) >= _FEW:
            try:
                return self._extents([state.steps for state in states])
            except Exception as error:  # a bug must not end the run: each may still work
                self._extents = None
                warn(
                    "bounds are inferred one by one, which takes longer, because those of many "
                    f"candidates at once could not be inferred ({told(error)}). Please report it"
                )
        return [None] * len(states)


def _with_extents(state: State, extents: Extents) -> State:
    coming = iter(extents)
    return state.with_stages([_ranged(s, next(coming)) if _runs(s) else s for s in state.stages])


def _runs(stage: StateStage) -> bool:
    """Whether the stage is computed in the program, where one without axes has no loops."""
    return not stage.is_placeholder and not stage.is_inlined


def _ranged(stage: StateStage, extents: Sequence[int]) -> StateStage:
    """The stage with the extents of its loops in the order in which they are lowered."""
    order: Sequence[Iterator] = stage.iters
    if any(it.annotation in _THREADS and it.kind is not IterKind.SPATIAL for it in order):
        order = sorted(order, key=_is_serial_reduction)
    found = {it: it.ranged(n) for it, n in zip(order, extents, strict=True)}
    return stage.with_iters(tuple([found[it] for it in stage.iters]))


def _is_serial_reduction(it: Iterator) -> bool:
    return it.kind is IterKind.REDUCTION and it.annotation not in _THREADS
