"""Every option of the search, given in YAML by its Ansor name, changes what the search does."""

import json
from itertools import product

import numpy as np
import pytest

from autosched.cli.config import load_config
from autosched.cli.tune_settings import Overrides, tune_options
from autosched.errors import ConfigError
from autosched.search import policy as policy_module
from autosched.search.learner import Learner
from autosched.search.options import SearchOptions
from autosched.search.policy import SketchPolicy
from autosched.search.rules.tiling import structure_problem
from autosched.search.space import SearchSpace
from autosched.state.iterator import Annotation
from autosched.state.steps import ComputeAtStep, ComputeInlineStep, ComputeRootStep, SplitStep
from autosched.target import cuda_target
from autosched.task import Task

MATMUL = "workload: {op: matmul, args: {M: 64, N: 64, K: 64}}\n"
SOFTMAX = "workload: {op: softmax, args: {M: 16, N: 64}}\n"
GENERATIONS = SearchOptions().evolutionary_search_num_iters
SMALL = "sample_init_min_population: 6, evolutionary_search_population: 6"


class Model:
    """Scores by the steps' rows; trained from the start."""

    trained = True

    def prepare(self) -> None:
        pass

    def fit(self, programs, throughputs) -> None:
        pass

    def opinions(self, programs):
        return np.array([p[0, 0] for p in programs], np.float32).reshape(-1, 1)


@pytest.fixture
def read(tmp_path):
    """(settings, workload, target) -> the task and the options of the search."""

    def made(settings, workload=MATMUL, target="cpu"):
        path = tmp_path / "t.yaml"
        path.write_text(f"{workload}target: {{kind: {target}}}\nsearch: {{{settings}}}\n")
        config = load_config(path)
        return config.task(), tune_options(config, Overrides()).search

    return made


def row(steps):
    """A row that differs between candidates, the same in every run."""
    lengths = [s.lengths[-1] for s in steps if isinstance(s, SplitStep)]
    return np.full((1, 2), 1 + sum(lengths) % 7, np.float32)


@pytest.fixture
def policy(read):
    """settings -> a policy whose model likes long lists of steps."""

    def made(settings):
        task, options = read(settings)
        rng = np.random.default_rng(0)
        space = SearchSpace(task, options)
        return SketchPolicy(space, Learner(Model()), rng, lambda found: list(map(row, found)))

    return made


def population(task, options, count=40):
    return SearchSpace(task, options).sample(np.random.default_rng(0), count)


@pytest.mark.parametrize(
    ("target", "structure", "levels"),
    [("cpu", "SSRS", (2, 0)), ("cpu", "srs", (1, 0)), ("cuda", "SSSRRS", (3, 1))],
)
def test_tiling_structures(read, target, structure, levels) -> None:
    """The splits of a spatial and a reduction loop have a level less than letters."""
    setting = f"{target if target == 'cpu' else 'gpu'}_multi_level_tiling_structure: {structure}"
    task, options = read(setting, target=target)
    last = SearchSpace(task, options).sketches[-1]
    splits = [len(s.lengths) for s in last.steps if isinstance(s, SplitStep)]
    spatial, reduction = levels
    assert splits[:2] == [spatial, spatial]
    assert splits[2:] == ([reduction] if reduction else [])


def test_max_innermost_split_factor(read) -> None:
    task, options = read("max_innermost_split_factor: 2")
    lasts = [
        step.lengths[-1]
        for steps in population(task, options)
        for step in steps
        if isinstance(step, SplitStep)
    ]
    assert max(lasts) == 2
    task, options = read("max_innermost_split_factor: 16")
    assert (
        max(
            step.lengths[-1]
            for steps in population(task, options)
            for step in steps
            if isinstance(step, SplitStep)
        )
        == 16
    )


def longest_vector(task, options):
    return max(
        it.extent
        for steps in population(task, options)
        for stage in task.dag.infer_bound_of(steps).stages
        for it in stage.iters
        if it.annotation is Annotation.VECTORIZE
    )


def test_max_vectorize_size(read) -> None:
    assert longest_vector(*read("max_vectorize_size: 4")) == 4
    assert longest_vector(*read("max_vectorize_size: 32")) == 32


def test_disable_change_compute_location(read) -> None:
    moves = (ComputeAtStep, ComputeRootStep, ComputeInlineStep)

    def places(value):
        setting = f"disable_change_compute_location: {value}"
        task, options = read(setting, SOFTMAX)
        return {
            tuple(s for s in steps if isinstance(s, moves)) for steps in population(task, options)
        }

    assert len(places("true")) < len(places("false"))


def test_eps_greedy(policy) -> None:
    for share, random in (("0.0", 0), ("0.5", 4), ("1.0", 8)):
        batch = policy(f"{SMALL}, eps_greedy: {share}").next_batch(8)
        assert sum(c.predicted is None for c in batch) == random


def test_retry_search_one_round_on_empty(policy, monkeypatch) -> None:
    rounds = []
    monkeypatch.setattr(SketchPolicy, "_round", lambda self, count: rounds.append(count) or [])
    assert policy("retry_search_one_round_on_empty: 3").next_batch(8) == []
    assert len(rounds) == 4


def test_sample_init_min_population(policy, monkeypatch) -> None:
    wanted = []
    sample = SearchSpace.sample
    monkeypatch.setattr(SearchSpace, "sample", lambda *a: wanted.append(a[2]) or sample(*a))
    policy("sample_init_min_population: 20, evolutionary_search_population: 6").next_batch(4)
    assert wanted == [20]


def evolved(policy, monkeypatch, settings, measured=20):
    """The population of every generation, how many of the first were measured, and mutations."""
    found = policy(settings)
    candidates = population_of(found, measured)
    found.tell(candidates, [1.0 + k for k in range(len(candidates))])
    seen = {"populations": [], "measured": 0, "mutated": 0}
    offspring, mutate = SketchPolicy._offspring, policy_module.mutate

    def count_populations(self, population, scores, size):
        if not seen["populations"]:
            seen["measured"] = sum(steps in set(candidates) for steps in population)
        seen["populations"].append(len(population))
        return offspring(self, population, scores, size)

    def count_mutations(*arguments):
        seen["mutated"] += 1
        return mutate(*arguments)

    monkeypatch.setattr(SketchPolicy, "_offspring", count_populations)
    monkeypatch.setattr(policy_module, "mutate", count_mutations)
    found.next_batch(4)
    monkeypatch.undo()
    return seen


def population_of(found, count):
    return found.space.sample(np.random.default_rng(1), count)


def test_sample_init_use_measured_ratio(policy, monkeypatch) -> None:
    base = "sample_init_min_population: 6, evolutionary_search_population: 10"
    for ratio, elite in (("0.0", 0), ("0.5", 5)):
        seen = evolved(policy, monkeypatch, f"{base}, sample_init_use_measured_ratio: {ratio}")
        assert seen["measured"] == elite


def test_evolutionary_search_num_iters(policy, monkeypatch) -> None:
    for iters in (0, 3):
        seen = evolved(policy, monkeypatch, f"{SMALL}, evolutionary_search_num_iters: {iters}")
        assert len(seen["populations"]) == iters


def test_evolutionary_search_population(policy, monkeypatch) -> None:
    settings = "sample_init_min_population: 6, evolutionary_search_mutation_prob: 1.0"
    seen = evolved(policy, monkeypatch, f"{settings}, evolutionary_search_population: 30")
    assert seen["mutated"] == GENERATIONS * 30
    assert seen["populations"][1] == 30


def test_evolutionary_search_mutation_prob(policy, monkeypatch) -> None:
    for probability, expected in (("0.0", 0), ("1.0", GENERATIONS * 6)):
        settings = f"{SMALL}, evolutionary_search_mutation_prob: {probability}"
        assert evolved(policy, monkeypatch, settings)["mutated"] == expected


@pytest.mark.parametrize("name", list(SearchOptions.__dataclass_fields__))
def test_every_option_is_read_and_a_bad_value_is_refused_by_name(read, name) -> None:
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
def test_what_is_impossible_is_explained(read, name, value, message) -> None:
    with pytest.raises(ConfigError, match=message):
        read(f"{name}: {value}")


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_accepted_structures_give_sketches_for_fused_and_plain_stages(target) -> None:
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
                options = SearchOptions(**{name: text})
                assert SearchSpace(task, options).sketches, text
                if accepted % 5 == 0:
                    assert population(task, options, 2), text
    assert accepted
