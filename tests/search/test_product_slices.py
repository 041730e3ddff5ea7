"""Products in slices on GPUs: where the rule applies, what the loops are, results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from autosched.referee.check import Verdict, check_candidate
from autosched.search.evolution import mutated
from autosched.search.options import SearchOptions
from autosched.search.population import Structures
from autosched.search.rules.product_slices import slice_counts
from autosched.search.space import SearchSpace
from autosched.state.queries import sliced_products
from autosched.state.state import State
from autosched.state.steps import AnnotationStep, SplitStep, Step
from autosched.target import cpu_target, cuda_target
from autosched.task import Task

PRODUCT = "C[i, j] = sum(k, A[i, k] * B[k, j])"
_CONV = {"KH": 3, "KW": 3, "stride": 1, "padding": 1}


def matmul(m: int, n: int, k: int, **args: Any) -> Task:
    return Task.from_workload("matmul", target=cuda_target("sm_90"), M=m, N=n, K=k, **args)


def sliced(task: Task, options: SearchOptions | None = None) -> list[State]:
    return [s for s in SearchSpace(task, options).sketches if sliced_products(s.steps)]


def lengths(steps: tuple[Step, ...], k: int) -> tuple[int | None, ...]:
    step = steps[k]
    assert isinstance(step, SplitStep)
    return step.lengths


def test_slices_have_blocks_and_a_second_kernel_adds_them_up() -> None:
    direct, turned = sliced(matmul(64, 64, 4096))
    assert "A.shared.shared storage_offset" in turned.to_str()  # of rows that are neighbours
    text = direct.to_str().splitlines()
    assert [line.strip() for line in text if line.endswith("= ...")] == [
        *("B.shared = ...", "A.shared = ...", "C.rf.local = ...", "C.rf = ...", "C.repl = ...")
    ]
    assert text[1].startswith("for k_o.0")  # slices are tiled as the images of a batch
    *_, rows, columns, slices, _ = text
    assert (rows, columns) == ("for ax0 (0,64)", "  for ax1 (0,64)")
    assert slices.startswith("    for k_o_v ")


def test_how_many_there_are_is_drawn_first() -> None:
    """Splits inside know the terms of a slice: their lengths divide them."""
    task = matmul(128, 64, 4096)
    (sketch, _) = sliced(task)
    found = SearchSpace(task).sample(np.random.default_rng(0), 40, sketch=sketch)
    counts = set()
    for steps in found:
        ((k, tile),) = sliced_products(steps)
        (count,) = lengths(steps, k)
        assert count is not None
        counts.add(count)
        splits = [step for step in steps[k + 2 :] if isinstance(step, SplitStep)]
        assert [split.extent for split in splits[:4]] == [count, 128, 64, 4096 // count]
        assert lengths(steps, tile) == (1, 1, 1, 1)  # a block has one slice
    assert counts == {32, 64} == set(slice_counts(128 * 64, 4096, 4096))


@pytest.mark.parametrize(
    ("elements", "terms", "axis", "counts"),
    [
        (64 * 64, 8192, 8192, (64, 128)),  # more have fewer than 64 terms each
        (512 * 512, 8192, 8192, (2, 4, 8)),  # of 64 tiles: more are more than 512 blocks
        (49 * 512, 9 * 512, 512, (16, 32, 64)),
        (64 * 64, 1100, 1100, (11,)),  # fewer blocks than there should be: as many as may be
        (64 * 64, 1031, 1031, ()),  # prime
        (64 * 64, 64 * 17, 17, (17,)),  # of several axes that are summed along
    ],
)
def test_how_many_there_may_be(
    elements: int, terms: int, axis: int, counts: tuple[int, ...]
) -> None:
    assert slice_counts(elements, terms, axis) == counts


@pytest.mark.parametrize(
    ("expr", "shapes", "number"),
    [
        (PRODUCT, {"A": [64, 1024], "B": [1024, 64]}, 2),
        (PRODUCT, {"A": [64, 1023], "B": [1023, 64]}, 0),
        (PRODUCT, {"A": [64, 1031], "B": [1031, 64]}, 0),  # prime
        (PRODUCT, {"A": [512, 1024], "B": [1024, 512]}, 2),  # 64 tiles
        (PRODUCT, {"A": [513, 1024], "B": [1024, 512]}, 0),
        ("S[i] = sum(k, A[i, k])", {"A": [64, 4096]}, 0),  # nothing is read twice
    ],
)
def test_what_is_sliced(expr: str, shapes: dict[str, list[int]], number: int) -> None:
    task = Task.from_expression(expr, shapes, target=cuda_target("sm_90"))
    assert len(sliced(task)) == number
    assert sliced(task, SearchOptions(space="ansor")) == []


def test_what_is_on_tensor_cores_or_on_a_cpu_is_not() -> None:
    assert sliced(matmul(64, 64, 4096, dtype="float16", acc_dtype="float32")) == []
    on_cpu = Task.from_workload("matmul", target=cpu_target(), M=64, N=64, K=4096)
    assert sliced(on_cpu) == []


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 4099 * 2), (2, 1031, 1024), (5, 7, 1100)])
def test_something_is_drawn_of_awkward_sizes(m: int, n: int, k: int) -> None:
    """Where results alone make no threads, the slices do."""
    task = matmul(m, n, k)
    for sketch in sliced(task):
        assert SearchSpace(task).sample(np.random.default_rng(0), 1, sketch=sketch)


def test_evolution_leaves_slices_as_they_are() -> None:
    """Others would have other terms, which the tiles were drawn for."""
    task = matmul(48, 64, 2304)
    (sketch, _) = sliced(task)
    space = SearchSpace(task)
    rng = np.random.default_rng(2)
    before = space.sample(rng, 24, sketch=sketch)
    structures = Structures()
    rows = structures.rows(before)
    for _ in range(4):
        rows = mutated(space.context, structures, rows, rng)
    after = structures.candidates(rows)
    assert sum(a != b for a, b in zip(before, after, strict=True)) > len(before) // 2
    for old, new in zip(before, after, strict=True):
        ((k, tile),) = sliced_products(new)
        assert lengths(old, k) == lengths(new, k)
        assert lengths(new, tile) == (1, 1, 1, 1)


def test_threads_that_add_up_divide_the_results() -> None:
    """Where some do: what is computed in them would else compare each axis with its end."""
    args: dict[str, Any] = {
        "N": 1,
        "H": 7,
        "W": 7,
        "CI": 256,
        "CO": 96,
        "K": 3,
        "stride": 1,
        "padding": 1,
    }
    task = Task.from_workload("conv2d_nchw_bn_relu", target=cuda_target("sm_90"), **args)
    found = SearchSpace(task).sample(np.random.default_rng(0), 12, sketch=sliced(task)[0])
    results = 7 * 7 * 96
    threads = set()
    for steps in found:
        for k, step in enumerate(steps[:-1]):
            after = steps[k + 1]
            if isinstance(step, SplitStep) and step.extent == results:
                assert isinstance(after, AnnotationStep)
                threads.add(step.lengths[0])
    assert threads == {32}  # 4704 is no multiple of 64


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("matmul", {"M": 5, "N": 7, "K": 1100}),
        ("matmul", {"M": 1, "N": 40, "K": 1024}),
        ("matmul", {"M": 6, "N": 10, "K": 1026, "dtype": "int8", "acc_dtype": "int32"}),
        ("dense_bias_relu", {"M": 6, "N": 20, "K": 1152}),
        ("batch_matmul", {"B": 3, "M": 4, "N": 6, "K": 1024}),
        ("conv2d_nhwc", {"N": 1, "H": 3, "W": 3, "CI": 128, "CO": 6, **_CONV}),
    ],
)
def test_candidates_compute_it(name: str, args: dict[str, Any]) -> None:
    """`arch` without tensor cores for whole numbers, which would take the int8 product."""
    task = Task.from_workload(name, target=cuda_target("sm_70"), **args)
    found = sliced(task)
    assert found
    for sketch in found[:3]:
        (steps, *_) = SearchSpace(task).sample(np.random.default_rng(1), 1, sketch=sketch)
        report = check_candidate(task, steps, seconds=30)
        assert report.verdict is Verdict.AGREES, report.message


def test_sums_in_slices_are_all_terms() -> None:
    """The slices divide the axis, and the tiles a slice: nothing is added up twice."""
    task = matmul(20, 36, 1536)
    for steps in SearchSpace(task).sample(np.random.default_rng(3), 8, sketch=sliced(task)[0]):
        ((k, _),) = sliced_products(steps)
        (count,) = lengths(steps, k)
        assert count is not None and 1536 % count == 0
        inside = [step for step in steps[k + 2 :] if isinstance(step, SplitStep)][3]
        assert inside.extent == 1536 // count
        assert inside.extent % math.prod(n or 1 for n in inside.lengths) == 0
