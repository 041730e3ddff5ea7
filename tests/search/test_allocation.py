"""Which task gets the next round, worked out by hand."""

import math
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import ConfigError
from autosched.search.allocation import (
    UNKNOWN_COST,
    AllocationOptions,
    TaskState,
    gradients,
    leave_group,
    next_task,
    objective,
    similarity_tag,
)
from autosched.state.dag import ComputeDAG

OPTIONS = AllocationOptions()


def state(cost: float, rounds: int = 1, **more: Any) -> TaskState:
    found = TaskState(flops=more.pop("flops", 1e9), rounds=rounds, best_cost=cost, **more)
    found.history = found.history or [cost] * rounds
    return found


def test_the_objective_is_weighted() -> None:
    assert objective([state(2.0), state(3.0, weight=4.0)], OPTIONS) == 14.0


def test_after_one_round_a_task_promises_all_of_its_cost() -> None:
    # forward = c - c / 1 - c = -c, times 1 - alpha; nothing is known of the past
    assert gradients([state(2.0)], OPTIONS) == pytest.approx([-0.8 * 2.0])
    # after four rounds: forward = c - c / 4 - c = -c / 4
    assert gradients([state(2.0, 4)], OPTIONS) == pytest.approx([-0.8 * 0.5])


def test_recent_improvement_counts() -> None:
    improving = state(1.0, 4, history=[4.0, 2.0, 1.5, 1.0])
    # backward = (1 - 4) / 3 = -1; forward = -1 / 4
    assert gradients([improving], OPTIONS) == pytest.approx([0.2 * -1.0 + 0.8 * -0.25])


def test_weights_scale_the_gradient() -> None:
    light, heavy = gradients([state(1.0), state(1.0, weight=3.0)], OPTIONS)
    assert heavy == pytest.approx(3 * light)


def test_only_the_slowest_counts_where_it_alone_is_asked_for() -> None:
    slowest = AllocationOptions(objective=max)
    states = [state(2e-5), state(1e-5, weight=9.0)]
    assert objective(states, slowest) == 2e-5
    assert gradients(states, slowest) == pytest.approx([-0.8 * 2e-5, 0.0])


def test_a_geometric_mean_counts_relative_gains() -> None:
    """Kernels of microseconds, too, next to which Ansor's step of 1e-4 s is long."""
    options = AllocationOptions(objective=lambda seconds: math.prod(seconds) ** (1 / len(seconds)))
    short, long = gradients([state(1e-6), state(1e-3)], options)
    assert short == pytest.approx(long, rel=0.01) == pytest.approx(-0.8 * 10**-4.5 / 2, rel=0.01)


def test_a_task_without_a_time_does_not_hide_the_others() -> None:
    options = AllocationOptions(objective=sum)
    states = [state(2e-3), state(1e-3), state(UNKNOWN_COST, dead=True)]
    assert objective(states, options) == pytest.approx(5e-3)
    assert gradients(states, options) == pytest.approx([-0.8 * 2e-3, -0.8 * 1e-3, 0.0])


def test_a_slow_task_learns_from_a_similar_one() -> None:
    fast = state(0.1, 10, group="conv_40")
    slow = state(1.0, 10, group="conv_40")
    # by_group = beta * 0.1 = 0.2 s: 0.8 s may be won, where the rounds promise only 0.1 s
    assert gradients([fast, slow], OPTIONS)[1] == pytest.approx(0.8 * (0.2 - 1.0))


def test_a_hopeless_task_leaves_its_group() -> None:
    fast, slow = state(0.1, 2, group="g"), state(1.0, 7, group="g")
    leave_group(slow, [fast, slow], OPTIONS)
    assert slow.group == "g"
    slow.rounds = 8
    leave_group(slow, [fast, slow], OPTIONS)
    assert slow.group == ""


def test_the_steepest_task_is_next() -> None:
    rng = np.random.default_rng(0)
    states = [state(1.0), state(5.0), state(2.0)]
    assert next_task(states, OPTIONS, 0, rng) == 1
    states[1].dead = True
    assert next_task(states, OPTIONS, 0, rng) == 2


def test_equal_tasks_are_drawn() -> None:
    rng = np.random.default_rng(0)
    states = [state(1.0), state(1.0), state(1.0, dead=True)]
    states[2].dead = True
    states[0].best_cost = states[1].best_cost = 0.0
    assert {next_task(states, OPTIONS, 0, rng) for _ in range(30)} == {0, 1}


def test_round_robin_passes_over_dead_tasks() -> None:
    options = AllocationOptions("round-robin")
    rng = np.random.default_rng(0)
    states = [state(1.0), state(1.0, dead=True), state(1.0)]
    order, index = [], -1
    for _ in range(4):
        index = next_task(states, options, index, rng)
        order.append(index)
    assert order == [0, 2, 0, 2]


@pytest.mark.parametrize("strategy", ["gradient", "round-robin"])
def test_nothing_is_left(strategy: str) -> None:
    dead = [state(1.0, dead=True)]
    assert next_task(dead, AllocationOptions(strategy), 0, np.random.default_rng(0)) == -1


def test_updates() -> None:
    found = TaskState(1e9)
    for cost in (float("inf"), 2.0, 2.0, 1.0):
        found.update(cost)
    assert found.history == [UNKNOWN_COST, 2.0, 2.0, 1.0]
    assert (found.rounds, found.best_cost) == (4, 1.0)


def test_unknown_strategies_are_refused() -> None:
    with pytest.raises(ConfigError, match="gradient, round-robin"):
        AllocationOptions("greedy")


def test_similarity_tags() -> None:
    a = te.placeholder((8, 8), name="A")
    attrs = {"auto_scheduler_task_scheduler_tag": "relu"}
    tagged = te.compute((8, 8), lambda i, j: a[i, j] * 2.0, name="B", attrs=attrs)
    # 64 operations: log(65) / log(1.618) = 8.67
    assert similarity_tag(ComputeDAG([a, tagged])) == "relu_8"
    plain = te.compute((8, 8), lambda i, j: a[i, j] * 2.0, name="B")
    assert similarity_tag(ComputeDAG([a, plain])) == ""
    n = te.var("n")
    b = te.placeholder((n,), name="B")
    unknown = te.compute((n,), lambda i: b[i] * 2.0, name="C", attrs=attrs)
    assert similarity_tag(ComputeDAG([b, unknown])) == ""
    copy = te.compute((8, 8), lambda i, j: a[i, j], name="B", attrs=attrs)
    assert similarity_tag(ComputeDAG([a, copy])) == ""  # two would have speeds of 0, to divide by
