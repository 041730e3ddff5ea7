"""Golden candidates agree with NumPy; faults in their kernels are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched.driver import cuda_source, lower_steps, lower_to_kernels
from autosched.referee.check import Report, Verdict, check_candidate, check_function, lowered
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state.iterator import Annotation
from autosched.state.steps import AnnotationStep, ComputeInlineStep, FuseStep, SplitStep, Step
from autosched.task import Task
from autosched.tir.printer import to_text

Candidate = Callable[[str, int], tuple[Task, tuple[Step, ...]]]

# All 25 settings are in benchmarks/referee.py.
CANDIDATES = [
    ("matmul", 33),
    ("batch_matmul", 1),
    ("conv2d_nchw_bn_relu", 0),
    ("depthwise_conv2d_nhwc", 16),
    ("max_pool2d_nchw", 0),
    ("softmax", 0),
    ("layer_norm", 0),
    ("norm_bmn", 0),
    ("transpose_batch_matmul_softmax", 0),
    ("conv2d_capsule_nhwijc", 0),
]


@pytest.mark.parametrize(("workload", "number"), CANDIDATES)
def test_golden_candidates_agree(golden: Candidate, workload: str, number: int) -> None:
    report = check_candidate(*golden(workload, number), seconds=60)
    assert report.verdict is Verdict.AGREES, str(report)


UNNAMED = """\
from autosched import te

def doubled_twice():
    a = te.placeholder((8, 8), name="compute")
    b = te.compute((8, 8), lambda i, j: a[i, j] * 2)
    k = te.reduce_axis((0, 8))
    return [a, te.compute((8, 8), lambda i, j: te.sum(b[i, k] * b[k, j], axis=k))]
"""


@pytest.mark.parametrize(
    "options", [SearchOptions(space="ansor"), SearchOptions(space="autosched")]
)
def test_tensors_of_one_name(tmp_path: Path, options: SearchOptions) -> None:
    """te.compute calls all stages `compute`; the input was said to be read before it is written."""
    (tmp_path / "unnamed.py").write_text(UNNAMED)
    task = Task.from_python(f"{tmp_path / 'unnamed.py'}:doubled_twice", target="cuda")
    for steps in SearchSpace(task, options).sample(np.random.default_rng(0), 4):
        report = check_candidate(task, steps, seconds=60)
        assert report.verdict is Verdict.AGREES, str(report)


@pytest.mark.parametrize(
    "options", [SearchOptions(space="ansor"), SearchOptions(space="autosched")]
)
def test_reads_that_stop_at_the_border(options: SearchOptions) -> None:
    """Most candidates were refused: the rows of X that a block needs differed in number."""
    expr = "Y[i, o] = sum(k, c, X[clip(i + k - 1, 0, 31), c] * W[k, c, o])"
    shapes = {"X": (32, 8), "W": (3, 8, 32), "Y": (32, 32)}
    task = Task.from_expression(expr, shapes, target="cuda")
    for steps in SearchSpace(task, options).sample(np.random.default_rng(0), 8):
        assert "X_shared" in cuda_source(task.dag, steps, task.target).source
        report = check_candidate(task, steps, seconds=60)
        assert report.verdict is Verdict.AGREES, str(report)


def test_a_sum_of_bfloat16_that_is_compared() -> None:
    """It is kept in float32, as the reference has it: all right kernels were refused."""
    expr = "H[i] = sum(k, A[i, k])\nY[i, j] = where(H[i] > 1, A[i, j], 0)"
    task = Task.from_expression(expr, {"A": (5000, 16)}, dtype="bfloat16", target="cuda")
    for steps in SearchSpace(task).sample(np.random.default_rng(0), 4):
        report = check_candidate(task, steps, seconds=60)
        assert report.verdict is Verdict.AGREES, str(report)


def test_what_takes_too_long_is_said_and_not_skipped(golden: Candidate) -> None:
    task, steps = golden("matmul", 33)
    source, final = lowered(task, steps)
    report = check_function(task, source, final, seconds=0.0, sample=True)
    assert report.verdict is Verdict.UNCHECKED
    assert report.message == "too large: not finished after 0 s"
    assert str(report).startswith("not checked (")


def test_several_kernels_run_whole_on_a_smaller_problem(golden: Candidate) -> None:
    report = check_candidate(*golden("layer_norm", 0), seconds=60)
    assert report.how.startswith("all blocks of the smaller layer_norm(")


def test_steps_that_are_illegal_with_smaller_sizes_run_with_the_real_ones(
    golden: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error was one of the candidate, which is legal."""
    task, steps = golden("matmul", 33)
    illegal = (SplitStep(99, 0, 16, (2,)),)
    monkeypatch.setattr("autosched.referee.check.scaled", lambda *_, **__: (task, illegal))
    monkeypatch.setattr("autosched.referee.check._in_16_bits", lambda _: True)
    report = check_candidate(task, steps, seconds=0.0)
    assert report.verdict is Verdict.UNCHECKED and "smaller" not in report.how


def test_one_kernel_runs_on_some_blocks_of_its_real_size(golden: Candidate) -> None:
    report = check_candidate(*golden("max_pool2d_nchw", 0), seconds=60)
    assert report.how == "4 of 1568 blocks"


def test_what_runs_is_what_the_printer_gets(golden: Candidate) -> None:
    """A kernel's statements here and in the module that CUDA C is printed from are the same."""
    task, steps = golden("depthwise_conv2d_nhwc", 16)
    _, final = lowered(task, steps)
    module = lower_to_kernels(lower_steps(task.dag, steps, task.target))
    (kernel,) = (f for name, f in module.functions.items() if "kernel" in name)
    lines = [line.strip() for line in to_text(kernel).splitlines() if "] =" in line]
    own = [line.strip() for line in to_text(final).splitlines() if "] =" in line]
    assert lines and lines == own


def test_the_least_problem_runs_where_whole_tiles_of_fused_loops_take_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = Task.from_workload("add_relu", target="cuda", M=64, N=100)
    fused = (ComputeInlineStep(2), FuseStep(3, (0, 1)), SplitStep(3, 0, 6400, (32,), True))
    bound = (AnnotationStep(3, 0, Annotation.BLOCK_X), AnnotationStep(3, 1, Annotation.THREAD_X))
    ran: list[str] = []

    def check(task: Task, *_: object, how: str = "", **__: object) -> Report:
        ran.append(task.name)
        return Report(Verdict.UNCHECKED, how, 5.0)

    monkeypatch.setattr("autosched.referee.check.check_function", check)
    assert check_candidate(task, (*fused, *bound)).how.endswith("smaller add_relu(M=2, N=2)")
    assert ran == ["add_relu(M=64, N=100)", "add_relu(M=8, N=8)", "add_relu(M=2, N=2)"]
