"""Which of several tasks to give the next round to. Pure: no measuring here.

docs/semantics/search.md gives the formula in words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.errors import ConfigError
from autosched.state.dag import ComputeDAG

UNKNOWN_COST = 1e10  # seconds; stands for "nothing valid was measured yet", as in Ansor
STRATEGIES = ("gradient", "round-robin")
_TAG = "auto_scheduler_task_scheduler_tag"
_STEP = 1e-4


@dataclass(frozen=True, slots=True)
class AllocationOptions:
    """Ansor's parameters of the gradient strategy, by its names."""

    strategy: str = "gradient"
    alpha: float = 0.2
    beta: float = 2.0
    backward_window_size: int = 3

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ConfigError(
                f"task scheduler: strategy {self.strategy!r} is unknown, expected one of "
                f"{', '.join(STRATEGIES)}"
            )


@dataclass(slots=True)
class TaskState:
    """What is known of one task: rounds so far, best cost (seconds), and its course."""

    flops: float
    weight: float = 1.0
    group: str = ""
    rounds: int = 0
    best_cost: float = UNKNOWN_COST
    best_round: int = 0
    history: list[float] = field(default_factory=list)
    dead: bool = False

    def update(self, cost: float) -> None:
        """Count a round whose best cost so far is `cost` (infinity: none)."""
        self.rounds += 1
        if cost < self.best_cost:
            self.best_cost, self.best_round = cost, self.rounds
        self.history.append(self.best_cost)


def similarity_tag(dag: ComputeDAG) -> str:
    """Tasks with the same non-empty tag are alike: operations of one kind and size.

    Empty without the attribute `auto_scheduler_task_scheduler_tag`, or when flops are unknown or
    none, for then they say nothing of speed.
    """
    tags = [str(op.attrs[_TAG]) + "_" for op in dag.ops if _TAG in op.attrs]
    if not tags or dag.flop_count <= 0:
        return ""
    return "".join(tags) + str(int(math.log(dag.flop_count + 1, 1.618)))


def objective(states: Sequence[TaskState]) -> float:
    """The sum of the best costs times their weights: what a run tries to make small."""
    return sum(state.weight * state.best_cost for state in states)


def gradients(states: Sequence[TaskState], options: AllocationOptions) -> list[float]:
    """The expected change of the objective by another round of each task; 0 for dead ones.

    Ansor's estimate: the recent improvement (backward), and the smaller of what the number of
    rounds promises and what similar tasks reach (forward).
    """
    return [0.0 if s.dead else _gradient(s, states, options) for s in states]


def _gradient(state: TaskState, states: Sequence[TaskState], options: AllocationOptions) -> float:
    cost, last = state.best_cost, state.rounds - 1
    earlier = last - options.backward_window_size
    backward = 0.0
    if last < len(state.history) and earlier >= 0:
        change = state.history[last] - state.history[earlier]
        backward = change / options.backward_window_size
    by_rounds = cost - cost / max(1, state.rounds)
    group = _group(state, states)
    by_group = options.beta * 1e30
    if len(group) > 1:
        by_group = options.beta * state.flops / max(s.flops / s.best_cost for s in group)
    forward = min(by_rounds, by_group) - cost
    # The objective is linear in the cost, so this is its weight.
    chain = (state.weight * cost - state.weight * (cost - _STEP)) / _STEP
    return chain * (options.alpha * backward + (1 - options.alpha) * forward)


def _group(state: TaskState, states: Sequence[TaskState]) -> list[TaskState]:
    return [s for s in states if s.group and s.group == state.group]


def leave_group(state: TaskState, states: Sequence[TaskState], options: AllocationOptions) -> None:
    """Take the task out of its group when it stays far behind after many more rounds."""
    others = [s for s in _group(state, states) if s is not state]
    if not others:
        return
    best = max(s.flops / s.best_cost for s in (state, *others))
    slow = state.flops / state.best_cost < best / options.beta
    if slow and state.rounds > 5 + max(s.rounds for s in others):
        state.group = ""


def next_task(
    states: Sequence[TaskState],
    options: AllocationOptions,
    previous: int,
    rng: np.random.Generator,
) -> int:
    """The index of the task for the next round; -1 when all are dead."""
    alive = [k for k, state in enumerate(states) if not state.dead]
    if not alive:
        return -1
    if options.strategy == "round-robin":
        return next((k for k in alive if k > previous), alive[0])
    found = gradients(states, options)
    if max(found) == min(found):
        return int(rng.choice(alive))
    return min(alive, key=found.__getitem__)
