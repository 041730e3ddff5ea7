"""Operators for which Ansor's own draws hardly ever fit a GPU, or never do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from autosched.driver import cuda_source, lower_for_features
from autosched.errors import ScheduleError
from autosched.search.options import SearchOptions, SpaceName
from autosched.search.sample import Sampler
from autosched.search.space import SearchSpace
from autosched.state.steps import CacheReadStep, Step
from autosched.target import cuda_target
from autosched.task import Task

TARGET = cuda_target("sm_90")
SPACES: tuple[SpaceName, SpaceName] = ("ansor", "autosched")

Expression = dict[str, Any]
SIX_AXES: Expression = {
    "expr": "C[a, b, c, d, e, f] = sum(k, A[a, b, c, k] * B[d, e, f, k])",
    "shapes": {"A": [2, 3, 2, 8], "B": [3, 2, 3, 8]},
}
LARGE_PRIME: Expression = {  # of 100,003 threads, or of 4 at most, less than Ansor's warp
    "expr": "C[i, j] = sum(k, A[i, k] * B[k, j])",
    "shapes": {"A": [100003, 4], "B": [4, 4]},
}
LOOKED_UP: Expression = {
    "expr": "Y[n, d] = sum(k, T[I[n], k] * W[k, d])",
    "shapes": {"T": [100000, 64], "I": [30], "W": [64, 48]},
    "dtype": {"T": "float32", "I": "int32", "W": "float32"},
}
PRODUCT: Expression = {
    "expr": "Y[i, j] = sum(k, A[i * j + k] * B[k])",
    "shapes": {"A": [200000], "B": [4], "Y": [300, 400]},
}
SMALL_TABLE: Expression = {**LOOKED_UP, "shapes": {**LOOKED_UP["shapes"], "T": [100, 64]}}


def space_of(expression: Expression, name: SpaceName) -> tuple[Task, SearchSpace]:
    task = Task.from_json_workload(expression, TARGET)
    return task, SearchSpace(task, SearchOptions(space=name))


def legal_samples(
    expression: Expression, name: SpaceName, count: int = 2
) -> list[tuple[Step, ...]]:
    task, space = space_of(expression, name)

    def legal(batch: Sequence[tuple[Step, ...]]) -> list[bool]:
        return [is_legal(task, steps, name == "ansor") for steps in batch]

    found = space.sample(np.random.default_rng(0), count, legal)
    for steps in found:
        assert "__global__" in cuda_source(task.dag, steps, TARGET).source
    return found


def is_legal(task: Task, steps: tuple[Step, ...], as_ansor: bool) -> bool:
    try:
        lower_for_features(task.dag, steps, TARGET, ansor_limits=as_ansor)
    except ScheduleError:
        return False
    return True


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        pytest.param(SIX_AXES, "autosched", id="six axes"),  # "ansor": below
        pytest.param(LARGE_PRIME, "autosched", id="large prime"),
        *(pytest.param(LOOKED_UP, name, id=f"looked up-{name}") for name in SPACES),
        *(pytest.param(PRODUCT, name, id=f"product of axes-{name}") for name in SPACES),
        *(pytest.param(SMALL_TABLE, name, id=f"small table-{name}") for name in SPACES),
    ],
)
def test_something_legal_is_drawn(expression: Expression, name: SpaceName) -> None:
    assert legal_samples(expression, name)


@pytest.mark.parametrize("expression", [SIX_AXES, LARGE_PRIME], ids=["six axes", "large prime"])
def test_ansors_own_draws_have_nothing(expression: Expression) -> None:
    """What is drawn in their place are attempts of an evolution, too."""
    task, space = space_of(expression, "ansor")
    own = Sampler(space.context).drawn(space.sketches, np.random.default_rng(0), 32)
    assert not any(is_legal(task, steps, True) for steps in own)
    found = legal_samples(expression, "ansor", 1)
    assert "threadIdx.x" in task.dag.infer_bound_of(found[0]).to_str()
    if expression is SIX_AXES:
        assert space.attempts(np.random.default_rng(0), 32)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize(
    ("expression", "fetched"),
    [(LOOKED_UP, 2), (PRODUCT, 1), (SMALL_TABLE, 3)],
    ids=["looked up", "product of axes", "small table"],
)
def test_a_table_beyond_shared_memory_is_read_where_it_is(
    expression: Expression, fetched: int, name: SpaceName
) -> None:
    """All of its rows would be fetched: which of them are read, data says, or a product."""
    for sketch in space_of(expression, name)[1].sketches:
        assert sum(isinstance(step, CacheReadStep) for step in sketch.steps) == fetched


def test_no_more_of_a_table_is_fetched_than_there_is() -> None:
    """What the index may be as an int32 fits nowhere, so that nearly no attempt had a tile."""
    _, space = space_of(SMALL_TABLE, "autosched")
    assert len(space.attempts(np.random.default_rng(0), 32)) == 32
