"""The search space: what a task, its options and the user's rules make of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context, Decision, FunctionRule
from autosched.search.sample import Sampler
from autosched.search.sketch import generate_sketches
from autosched.search.space import SearchSpace
from kit.types import MakeTask

RNG = np.random.default_rng(0)


def test_it_is_the_sketches_of_the_task_and_samples_of_them(make_task: MakeTask) -> None:
    task = make_task("matmul")
    target = task.target
    context = Context(
        task.dag,
        target.hardware,
        target.is_gpu,
        SearchOptions(),
        vector_bytes=target.vector_bytes,
        second_cache=target.caches[1],
    )
    sketches = generate_sketches(context)
    space = SearchSpace(task)
    assert [s.to_str() for s in space.sketches] == [s.to_str() for s in sketches]
    drawn = Sampler(context).population(sketches, np.random.default_rng(5), 6)
    assert space.sample(np.random.default_rng(5), 6) == drawn
    assert SearchSpace.of(context).sample(np.random.default_rng(5), 6) == drawn


def test_one_sketch_alone_may_be_sampled(make_task: MakeTask) -> None:
    space = SearchSpace(make_task("matmul"))
    assert len(space.sketches) > 1
    for sketch in space.sketches:
        stages = [stage.name for stage in sketch.stages]
        for steps in space.sample(np.random.default_rng(0), 3, sketch=sketch):
            assert [stage.name for stage in space.context.dag.state_of(steps).stages] == stages


def test_options_and_rules_are_part_of_it(make_task: MakeTask) -> None:
    never = FunctionRule("Never", lambda *_: Decision.SKIP, lambda *_: [])
    nothing = FunctionRule("Empty", lambda *_: Decision.APPLY_AND_SKIP_REST, lambda *_: [])
    task = make_task("matmul")
    assert len(SearchSpace(task, custom_rules=[never]).sketches) == len(SearchSpace(task).sketches)
    with pytest.raises(ConfigError, match="the sketch rules Empty leave no sketch"):
        SearchSpace(task, custom_rules=[nothing])
    with pytest.raises(ConfigError, match="cpu_multi_level_tiling_structure"):
        SearchSpace(task, SearchOptions(cpu_multi_level_tiling_structure="SR"))
    options = SearchOptions(max_innermost_split_factor=1)
    for steps in SearchSpace(task, options).sample(np.random.default_rng(0), 4):
        assert all(s.lengths[-1] == 1 for s in steps if hasattr(s, "lengths"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda space: SearchSpace(space), r"^task: expected a Task, e.g. Task.from_workload"),
        (lambda space: space.sample(0, 4), r"^rng: expected a Generator, e\.g\. np\.random\.def"),
        (lambda space: space.sample(RNG, "4"), r"^count: expected an integer, found '4' \(str\)$"),
        (lambda space: space.sample(RNG, -1), "^count: expected at least 0, found -1$"),
        (lambda space: space.sample(RNG, 1, sketch=0), "^sketch: expected a State, e.g. one of Se"),
        (lambda space: space.mutated(None, ()), "^rng: expected a Generator"),
        (lambda space: space.mutated(RNG, None), "^candidate: expected a tuple of steps, as Sear"),
        (lambda space: space.mutated(RNG, ["SP"]), r"^candidate: .*, found \['SP'\] \(list\)$"),
    ],
)
def test_wrong_arguments_are_told_in_words(
    call: Callable[[Any], object], message: str, make_task: MakeTask
) -> None:
    with pytest.raises(ConfigError, match=message):
        call(SearchSpace(make_task("matmul")))


def test_options_that_are_none(make_task: MakeTask) -> None:
    with pytest.raises(ConfigError, match=r"^options: expected a SearchOptions, found \{\} "):
        SearchSpace(make_task("matmul"), {})  # type: ignore[arg-type]  # a mapping


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (None, "^sketch_rules: expected a list of rules, found None$"),
        ("mine", r"^sketch_rules: expected a list of rules, found 'mine' \(str\)$"),
        ([3], "^sketch_rules: number 0: expected a rule with a name, condition"),
    ],
)
def test_what_are_no_rules(rules: Any, message: str, make_task: MakeTask) -> None:
    with pytest.raises(ConfigError, match=message):
        SearchSpace(make_task("matmul"), custom_rules=rules)
