"""Choose which of several tasks gets the next tuning round, from their states alone.

docs/semantics/search.md gives the formula in words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.errors import ConfigError
from autosched.search.objective import Objective, objective_of
from autosched.state.dag import ComputeDAG

UNKNOWN_COST = 1e10  # seconds; stands for "nothing valid was measured yet", as in Ansor
STRATEGIES = ("gradient", "round-robin")
_TAG = "auto_scheduler_task_scheduler_tag"
_STEP = 1e-4  # seconds by which a cost falls in a derivative of the objective
_SHARE = 0.01  # the largest such step relative to the cost, for an objective of the user


@dataclass(frozen=True, slots=True)
class AllocationOptions:
    """The strategy, and the parameters of `gradient` under their names in Ansor.

    A run minimises `objective`, by default the weighted sum of the best times.
    """

    strategy: str = "gradient"
    alpha: float = 0.2
    beta: float = 2.0
    backward_window_size: int = 3
    objective: Objective | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ConfigError(
                f"task scheduler: strategy {self.strategy!r} is unknown, expected one of "
                f"{', '.join(STRATEGIES)}"
            )


@dataclass(slots=True)
class TaskState:
    """The tuning state of one task.

    `flops` are the operations of one call and `weight` is the factor of its cost in the objective.
    `group` is the similarity tag, empty for a task in no group. `rounds` counts the rounds so far.
    `best_cost` is in seconds; `history` has it as of each round. A `dead` task gets no more rounds.
    """

    flops: float
    weight: float = 1.0
    group: str = ""
    rounds: int = 0
    best_cost: float = UNKNOWN_COST
    history: list[float] = field(default_factory=list)
    dead: bool = False

    def update(self, cost: float) -> None:
        """Count a round after which the best cost is `cost` (infinity if nothing was valid)."""
        self.rounds += 1
        self.best_cost = min(self.best_cost, cost)
        self.history.append(self.best_cost)


def similarity_tag(dag: ComputeDAG) -> str:
    """A tag that is equal for tasks whose operations are of the same kind and of similar size.

    Empty without the attribute `auto_scheduler_task_scheduler_tag`. Also empty when the flop count
    is unknown or 0, because tasks are compared by their throughput.
    """
    tags = [str(op.attrs[_TAG]) + "_" for op in dag.ops if _TAG in op.attrs]
    if not tags or dag.flop_count <= 0:
        return ""
    return "".join(tags) + str(int(math.log(dag.flop_count + 1, 1.618)))


def objective(states: Sequence[TaskState], options: AllocationOptions) -> float:
    """The value that a run minimises: by default the sum of the best costs times their weights."""
    return _objective(_costs(states, options), states, options)


def _objective(
    costs: Sequence[float], states: Sequence[TaskState], options: AllocationOptions
) -> float:
    return objective_of(costs, [state.weight for state in states], options.objective)


def _costs(states: Sequence[TaskState], options: AllocationOptions) -> list[float]:
    """The best costs. For a user's objective a task without one counts as slow as the slowest."""
    costs = [state.best_cost for state in states]
    if options.objective is None:
        return costs
    slowest = max((cost for cost in costs if cost < UNKNOWN_COST), default=1.0)
    return [cost if cost < UNKNOWN_COST else slowest for cost in costs]


def gradients(states: Sequence[TaskState], options: AllocationOptions) -> list[float]:
    """The expected change of the objective by another round of each task; 0 for dead tasks.

    Ansor's estimate: `alpha * backward + (1 - alpha) * forward`, times the derivative of the
    objective by the task's best cost. `backward` is the mean change of that cost in the last
    rounds. `forward` is the change to the smaller of two predicted costs: one from the number of
    rounds, one from the throughput of similar tasks.
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
    chain = _derivative(state, states, options)
    return chain * (options.alpha * backward + (1 - options.alpha) * forward)


def _derivative(state: TaskState, states: Sequence[TaskState], options: AllocationOptions) -> float:
    """By how much the objective falls for each second that the task's best cost falls."""
    cost = state.best_cost
    if options.objective is None:  # the sum is linear in the cost
        return (state.weight * cost - state.weight * (cost - _STEP)) / _STEP
    costs = _costs(states, options)
    step = min(_STEP, _SHARE * cost)
    less = [c - step if s is state else c for s, c in zip(states, costs, strict=True)]
    return (_objective(costs, states, options) - _objective(less, states, options)) / step


def _group(state: TaskState, states: Sequence[TaskState]) -> list[TaskState]:
    return [s for s in states if s.group and s.group == state.group]


def leave_group(state: TaskState, states: Sequence[TaskState], options: AllocationOptions) -> None:
    """Take a task out of its group if its throughput stays below 1 / `beta` of the group's best.

    It must have had over five rounds more than any other task of the group.
    """
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
