"""The interpreter, the LLVM kernel and NumPy agree on randomly scheduled small programs.

Candidates are drawn as the search draws them, tile sizes, compute locations and annotations at
random, on workloads of odd and prime sizes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosched.driver import lower_steps
from autosched.measure.check import compare
from autosched.runtime.cpu import build_artifact, load
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.target import cpu_target
from autosched.task import Task
from autosched.tir import interp
from kit.tir import value_of
from kit.types import Array

TARGET = cpu_target(threads=2)
CANDIDATES = 3
WORKLOADS = [
    ("matmul", {"M": 5, "N": 7, "K": 3}),
    ("matmul", {"M": 1, "N": 1, "K": 1}),
    ("matmul", {"M": 17, "N": 1, "K": 31}),
    ("matmul", {"M": 8, "N": 12, "K": 16}),
    ("matmul", {"M": 6, "N": 4, "K": 10, "dtype": "int32"}),
    ("matmul", {"M": 4, "N": 9, "K": 6, "dtype": "float64"}),
    ("matmul", {"M": 3, "N": 8, "K": 5, "dtype": "float16"}),
    ("batch_matmul", {"B": 2, "M": 3, "N": 5, "K": 7}),
    ("dense_bias_relu", {"M": 5, "N": 6, "K": 11}),
    ("conv1d_nlc", {"N": 1, "L": 9, "CI": 3, "CO": 4, "K": 3, "stride": 2, "padding": 1}),
    (
        "conv2d_nhwc",
        {"N": 1, "H": 5, "W": 4, "CI": 3, "CO": 5, "KH": 3, "KW": 3, "stride": 1, "padding": 1},
    ),
    (
        "conv2d_nhwc",
        {"N": 1, "H": 7, "W": 7, "CI": 4, "CO": 4, "KH": 3, "KW": 3}
        | {"stride": 2, "padding": 2, "dilation": 2, "groups": 2},
    ),
    (
        "conv3d_ndhwc",
        {"N": 1, "D": 3, "H": 3, "W": 3, "CI": 2, "CO": 3, "K": 2, "stride": 1, "padding": 0},
    ),
    ("depthwise_conv2d_nhwc", {"N": 1, "H": 5, "W": 5, "C": 6, "K": 3, "stride": 1, "padding": 1}),
    ("depthwise_conv2d_nhwc", {"N": 1, "H": 7, "W": 4, "C": 25, "K": 3, "stride": 1, "padding": 2}),
    (
        "conv2d_transpose_nhwc",
        {"N": 1, "H": 3, "W": 3, "CI": 3, "CO": 2, "K": 4, "stride": 2, "padding": 1},
    ),
    (
        "conv2d_nchw_bn_relu",
        {"N": 1, "H": 4, "W": 5, "CI": 3, "CO": 4, "K": 3, "stride": 1, "padding": 1},
    ),
    ("conv2d_winograd_nhwc", {"N": 1, "H": 5, "W": 4, "CI": 3, "CO": 4, "tile": 2}),
    ("norm_bmn", {"B": 2, "M": 5, "N": 7}),
    ("softmax", {"M": 5, "N": 13}),
    ("layer_norm", {"M": 4, "N": 11}),
    ("transpose_batch_matmul_softmax", {"B": 1, "S": 5, "H": 2, "D": 3}),
    ("max_pool2d_nchw", {"N": 1, "C": 3, "H": 7, "W": 7, "K": 3, "stride": 2, "padding": 1}),
    ("add_relu", {"M": 7, "N": 13}),
]


def arrays_of(task: Task) -> list[Array]:
    """Inputs, then outputs filled with what no result is."""
    outputs = task.tensors[-task.num_outputs :]
    empty = [np.full([value_of(e) for e in t.shape], 77, t.dtype.numpy) for t in outputs]
    return [*task.inputs(seed=0), *empty]


def candidates(task: Task, seed: int, count: int) -> list[tuple[Step, ...]]:
    """Steps of `count` random candidates, fewer where the space is smaller."""
    return SearchSpace(task).sample(np.random.default_rng(seed), count)


def assert_agree(
    names: list[str], left: Sequence[Array], right: Sequence[Array], steps: tuple[Step, ...]
) -> None:
    for name, got, want in zip(names, left, right, strict=True):
        problem = compare(name, got, want)
        assert problem is None, f"{problem}\n" + "\n".join(map(str, steps))


@pytest.mark.parametrize(("op", "args"), WORKLOADS, ids=lambda p: str(p).replace(" ", ""))
def test_sampled_candidates_compute_the_same(op: str, args: dict[str, Any]) -> None:
    task = Task.from_workload(op, **args, target=TARGET)
    names = [t.name for t in task.tensors[-task.num_outputs :]]
    expected = task.reference(task.inputs(seed=0))
    found = candidates(task, seed=sum(args[k] for k in args if k != "dtype"), count=CANDIDATES)
    assert found
    for steps in found:
        func = lower_steps(task.dag, steps, task.target)
        interpreted, compiled = arrays_of(task), arrays_of(task)
        interp.run(func, interpreted)
        load(build_artifact(func, task.target, "light"))(*compiled)
        assert_agree(names, interpreted[-task.num_outputs :], expected, steps)
        assert_agree(names, compiled[-task.num_outputs :], interpreted[-task.num_outputs :], steps)


@pytest.mark.parametrize("vector_bytes", [16, 32])
@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("dense_bias_relu", {"M": 7, "N": 13, "K": 9}),
        (
            "depthwise_conv2d_nhwc",
            {"N": 1, "H": 6, "W": 6, "C": 8, "K": 3} | {"stride": 1, "padding": 1},
        ),
    ],
    ids=lambda p: str(p).replace(" ", ""),
)
def test_narrower_vectors_compute_the_same(
    op: str, args: dict[str, Any], vector_bytes: int
) -> None:
    """Code for machines with fewer lanes takes other paths through the passes."""
    task = Task.from_workload(op, **args, target=TARGET)
    target = replace(TARGET, vector_bytes=vector_bytes)
    expected = task.reference(task.inputs(seed=0))
    for steps in candidates(task, seed=vector_bytes, count=10):
        func = lower_steps(task.dag, steps, target)
        compiled = arrays_of(task)
        load(build_artifact(func, target, "light"))(*compiled)
        assert_agree([task.tensors[-1].name], compiled[-1:], expected, steps)
