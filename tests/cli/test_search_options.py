"""Every option of the search, given in YAML by its Ansor name, changes what the search does."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.cli.read_config import load_config
from autosched.cli.tune_settings import settings_of
from autosched.errors import ConfigError
from autosched.search import evolution
from autosched.search import policy as policy_module
from autosched.search.learner import Learner
from autosched.search.options import SearchOptions
from autosched.search.policy import SketchPolicy
from autosched.search.population import Rows, Structures
from autosched.search.rules.protocol import Context
from autosched.search.rules.tiling import structure_problem
from autosched.search.space import SearchSpace
from autosched.state.iterator import Annotation
from autosched.state.steps import ComputeAtStep, ComputeInlineStep, ComputeRootStep, SplitStep, Step
from autosched.target import cuda_target
from autosched.task import Task
from kit.certain_model import CertainModel
from kit.types import Array

MATMUL = "workload: {op: matmul, args: {M: 64, N: 64, K: 64}}\n"
SOFTMAX = "workload: {op: softmax, args: {M: 16, N: 64}}\n"
GENERATIONS = SearchOptions().evolutionary_search_num_iters
SMALL = "sample_init_min_population: 6, evolutionary_search_population: 6"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., tuple[Task, SearchOptions]]:
    """(settings, workload, target) -> the task and the options of the search."""

    def made(
        settings: str, workload: str = MATMUL, target: str = "cpu"
    ) -> tuple[Task, SearchOptions]:
        path = tmp_path / "t.yaml"
        path.write_text(f"{workload}target: {{kind: {target}}}\nsearch: {{{settings}}}\n")
        config = load_config(path)
        return config.task(), settings_of(config).options().search

    return made


def row(steps: tuple[Step, ...]) -> Array:
    """A row that differs between candidates, the same in every run."""
    lengths = [s.lengths[-1] or 0 for s in steps if isinstance(s, SplitStep)]
    return np.full((1, 2), 1 + sum(lengths) % 7, np.float32)


@pytest.fixture
def policy(read: Callable[..., tuple[Task, SearchOptions]]) -> Callable[[str], SketchPolicy]:
    """settings -> a policy whose model likes long lists of steps."""

    def made(settings: str) -> SketchPolicy:
        task, options = read(settings)
        rng = np.random.default_rng(0)
        space = SearchSpace(task, options)
        return SketchPolicy(
            space, Learner(CertainModel()), rng, lambda found: list(map(row, found))
        )

    return made


def population(task: Task, options: SearchOptions, count: int = 40) -> list[tuple[Step, ...]]:
    return SearchSpace(task, options).sample(np.random.default_rng(0), count)


@pytest.mark.parametrize(
    ("target", "structure", "levels"),
    [("cpu", "SSRS", (2, 0)), ("cpu", "srs", (1, 0)), ("cuda", "SSSRRS", (3, 1))],
)
def test_tiling_structures(
    read: Callable[..., tuple[Task, SearchOptions]],
    target: str,
    structure: str,
    levels: tuple[int, int],
) -> None:
    """The splits of a spatial and a reduction loop have a level less than letters."""
    setting = f"{target if target == 'cpu' else 'gpu'}_multi_level_tiling_structure: {structure}"
    task, options = read(setting, target=target)
    last = SearchSpace(task, options).sketches[-1]
    splits = [len(s.lengths) for s in last.steps if isinstance(s, SplitStep)]
    spatial, reduction = levels
    assert splits[:2] == [spatial, spatial]
    assert splits[2:] == ([reduction] if reduction else [])


def test_max_innermost_split_factor(read: Callable[..., tuple[Task, SearchOptions]]) -> None:
    task, options = read("space: ansor, max_innermost_split_factor: 2")
    lasts = [
        step.lengths[-1] or 0
        for steps in population(task, options)
        for step in steps
        if isinstance(step, SplitStep)
    ]
    assert max(lasts) == 2
    task, options = read("space: ansor, max_innermost_split_factor: 16")
    assert (
        max(
            step.lengths[-1] or 0
            for steps in population(task, options)
            for step in steps
            if isinstance(step, SplitStep)
        )
        == 16
    )


def longest_vector(task: Task, options: SearchOptions) -> int:
    return max(
        it.extent or 0
        for steps in population(task, options)
        for stage in task.dag.infer_bound_of(steps).stages
        for it in stage.iters
        if it.annotation is Annotation.VECTORIZE
    )


def test_max_vectorize_size(read: Callable[..., tuple[Task, SearchOptions]]) -> None:
    assert longest_vector(*read("max_vectorize_size: 4")) == 4
    assert longest_vector(*read("max_vectorize_size: 32")) == 32


def test_disable_change_compute_location(read: Callable[..., tuple[Task, SearchOptions]]) -> None:
    moves = (ComputeAtStep, ComputeRootStep, ComputeInlineStep)

    def places(value: str) -> set[tuple[Step, ...]]:
        setting = f"disable_change_compute_location: {value}"
        task, options = read(setting, SOFTMAX)
        return {
            tuple(s for s in steps if isinstance(s, moves)) for steps in population(task, options)
        }

    assert len(places("true")) < len(places("false"))


def test_eps_greedy(policy: Callable[[str], SketchPolicy]) -> None:
    for share, random in (("0.0", 0), ("0.5", 4), ("1.0", 8)):
        batch = policy(f"{SMALL}, eps_greedy: {share}").next_batch(8)
        assert sum(c.predicted is None for c in batch) == random


def test_retry_search_one_round_on_empty(
    policy: Callable[[str], SketchPolicy], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []

    def empty(self: SketchPolicy, count: int) -> list[Any]:
        rounds.append(count)
        return []

    monkeypatch.setattr(SketchPolicy, "_round", empty)
    assert policy("retry_search_one_round_on_empty: 3").next_batch(8) == []
    assert len(rounds) == 4


def test_sample_init_min_population(
    policy: Callable[[str], SketchPolicy], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[int] = []
    sample = SearchSpace.sample

    def noted(space: SearchSpace, rng: Any, count: int, *rest: Any) -> list[tuple[Step, ...]]:
        wanted.append(count)
        return sample(space, rng, count, *rest)

    monkeypatch.setattr(SearchSpace, "sample", noted)
    policy("sample_init_min_population: 20, evolutionary_search_population: 6").next_batch(4)
    assert wanted == [20]


@dataclass
class Seen:
    """What the surrogate learned from first, and how many rows each generation mutated."""

    taught: list[tuple[Step, ...]] = field(default_factory=list)
    mutated: list[int] = field(default_factory=list)


def evolved(
    policy: Callable[[str], SketchPolicy],
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    measured: int = 20,
) -> tuple[Seen, list[tuple[Step, ...]]]:
    """A round after so many candidates were measured: what was seen, and those measured."""
    found = policy(settings)
    candidates = found.space.sample(np.random.default_rng(1), measured)
    found.tell(candidates, [1.0 + k for k in range(len(candidates))])
    seen = Seen()
    mutated = evolution.mutated
    rows = Structures.rows

    def note_rows(self: Structures, candidates: Sequence[tuple[Step, ...]]) -> Rows:
        seen.taught += candidates
        return rows(self, candidates)

    def count(
        context: Context, structures: Structures, parents: Rows, rng: np.random.Generator
    ) -> Rows:
        seen.mutated.append(len(parents))
        return mutated(context, structures, parents, rng)

    monkeypatch.setattr(Structures, "rows", note_rows)
    monkeypatch.setattr(evolution, "mutated", count)
    monkeypatch.setattr(policy_module, "_STAGES", 1)
    found.next_batch(4)
    monkeypatch.undo()
    return seen, candidates


def test_sample_init_use_measured_ratio(
    policy: Callable[[str], SketchPolicy], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = "sample_init_min_population: 6, evolutionary_search_population: 10"
    for ratio, elite in (("0.0", 0), ("0.5", 5)):
        settings = f"{base}, sample_init_use_measured_ratio: {ratio}"
        seen, measured = evolved(policy, monkeypatch, settings)
        assert set(measured[:elite]) <= set(seen.taught)
        assert ratio != "0.0" or not set(measured) & set(seen.taught)


def test_evolutionary_search_num_iters(
    policy: Callable[[str], SketchPolicy], monkeypatch: pytest.MonkeyPatch
) -> None:
    for iters in (0, 3):
        settings = f"{SMALL}, evolutionary_search_num_iters: {iters}"
        seen, _ = evolved(policy, monkeypatch, settings)
        assert len(seen.mutated) == iters


def test_evolutionary_search_population_and_mutation_prob(
    policy: Callable[[str], SketchPolicy], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = "sample_init_min_population: 6, evolutionary_search_population: 30"
    for probability, expected in (("0.0", 0), ("1.0", 30)):
        settings = f"{base}, evolutionary_search_mutation_prob: {probability}"
        seen, _ = evolved(policy, monkeypatch, settings)
        assert seen.mutated == [expected] * GENERATIONS


@pytest.mark.parametrize("name", list(SearchOptions.__dataclass_fields__))
def test_every_option_is_read_and_a_bad_value_is_refused_by_name(
    read: Callable[..., tuple[Task, SearchOptions]], name: str
) -> None:
    default = getattr(SearchOptions(), name)
    other = {bool: not default, str: "SSSSRSRS", int: 2, float: 0.25}[type(default)]
    other = "ansor" if name == "space" else other
    assert other != default
    _, options = read(f"{name}: {json.dumps(other)}")
    assert getattr(options, name) == other
    for bad in ("-1", "[1]", "nonsense"):
        with pytest.raises(ConfigError, match=rf":3: search\.{name}: .*found"):
            read(f"{name}: {bad}")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("cpu_multi_level_tiling_structure", "SXR", "only the letters S and R"),
        ("cpu_multi_level_tiling_structure", "SSS", "at least one R"),
        ("cpu_multi_level_tiling_structure", "SR", "SSRSRS"),
        ("gpu_multi_level_tiling_structure", "SSRSRS", "SSSRRSRS"),
        ("eps_greedy", "1.5", "less than or equal to 1"),
        ("max_vectorize_size", "0", "greater than 0"),
        ("evolutionary_search_num_iters", "1.5", "expected an integer"),
    ],
)
def test_what_is_impossible_is_explained(
    read: Callable[..., tuple[Task, SearchOptions]], name: str, value: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read(f"{name}: {value}")


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_accepted_structures_give_sketches_for_fused_and_plain_stages(target: str) -> None:
    """Every structure of up to seven letters that is accepted; every fifth is also sampled."""
    kind = cuda_target() if target == "cuda" else "cpu"
    tasks = [
        Task.from_workload("dense_bias_relu", M=32, N=64, K=16, target=kind),
        Task.from_workload("matmul", M=32, N=64, K=16, target=kind),
    ]
    name = f"{'gpu' if target == 'cuda' else 'cpu'}_multi_level_tiling_structure"
    accepted = 0
    for length in range(1, 8):
        for letters in product("SR", repeat=length):
            text = "".join(letters)
            if structure_problem(text, is_gpu=target == "cuda"):
                continue
            accepted += 1
            for task in tasks:
                given: dict[str, Any] = {name: text}
                options = SearchOptions(**given)
                assert SearchSpace(task, options).sketches, text
                if accepted % 5 == 0:
                    assert population(task, options, 2), text
    assert accepted
