"""Candidates are lowered as their task asks, whatever makes code of them."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from autosched.candidate import (
    build_candidate,
    build_cuda_candidate,
    cuda_source_of_candidate,
    kernels_of_candidate,
    lower_candidate,
)
from autosched.driver import lower_steps
from autosched.errors import CompileError
from autosched.referee.check import Verdict, check_candidate
from autosched.referee.scale_workload import scaled
from autosched.runtime.cpu import load
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from kit.passes import ONE, TASK, TILED

ROOT = Path(__file__).resolve().parent.parent
OF_STEPS = {
    *("lower_steps", "lower_func", "lower_to_kernels", "schedule_ops", "pipeline_of"),
    *("build_steps", "build_cuda", "cuda_source"),
}
"""Functions of the driver that know no task."""

WITHIN_CONTEXTS = {
    "autosched/candidate.py",
    "autosched/driver.py",
    "autosched/cli/lower.py",
    "autosched/cli/profile.py",
    "autosched/referee/check.py",
}
"""What calls them inside of `task.lowering.context()`; the tests of each see that it does."""


def test_whatever_makes_code_asks_for_it_here() -> None:
    folders = [ROOT / name for name in ("autosched", "features", "measure", "search")]
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if "/te/" in name or name in WITHIN_CONTEXTS or name.startswith("autosched/measure"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "autosched.driver":
                used = {alias.name for alias in node.names} & OF_STEPS
                assert not used, f"{name}: take {used} from autosched.candidate"


def gpu_steps(task: Task) -> tuple[Step, ...]:
    """A candidate within the limits of a GPU."""
    return next(iter(SearchSpace(task).sample(np.random.default_rng(0), 1)))


def test_without_a_lowering_they_are_those_of_the_driver() -> None:
    assert str(lower_candidate(TASK, TILED)) == str(lower_steps(TASK.dag, TILED, TASK.target))


@pytest.mark.parametrize("rewrite", ["none", "insert-transform-stage", "pre-transformed"])
def test_passes_run_with_every_layout(passes: Path, rewrite: str) -> None:
    task = Task.from_workload(
        "matmul", M=16, N=16, K=16, target=cpu_target(2), layout_rewrite=rewrite
    )
    mine = task.with_lowering([ONE])
    assert "parallel(" in str(lower_candidate(task, TILED))
    assert "parallel(" not in str(lower_candidate(mine, TILED))
    assert build_candidate(task, TILED).parallel and not build_candidate(mine, TILED).parallel
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    kernel = load(build_candidate(mine, TILED, name="other"))
    np.testing.assert_allclose(kernel(*kernel.prepare(a, a)), a @ a)


def test_what_a_pass_computes_is_what_the_kernel_computes(passes: Path) -> None:
    a = np.ones((16, 16), np.float32)
    kernel = load(build_candidate(TASK.with_lowering(["my_passes.py:Zero"]), TILED))
    assert not np.any(kernel(a, a))


GPU = Task.from_workload("matmul", M=16, N=16, K=16, target=cuda_target("sm_80"))


def test_kernels_of_a_gpu(passes: Path) -> None:
    steps = gpu_steps(GPU)
    mine = GPU.with_lowering(["my_passes.py:Zero"])
    plain, zero = (cuda_source_of_candidate(task, steps).source for task in (GPU, mine))
    assert plain != zero and "matmul_kernel" in zero
    assert "own_kernel" in cuda_source_of_candidate(mine, steps, name="own").source
    assert str(kernels_of_candidate(GPU, steps)) != str(kernels_of_candidate(mine, steps))


def test_passes_of_the_device_are_left_out_too() -> None:
    steps = gpu_steps(GPU)
    without = GPU.with_lowering(disabled_pass=["SplitHostDevice"])
    assert len(kernels_of_candidate(GPU, steps).functions) == 2
    assert len(kernels_of_candidate(without, steps).functions) == 1


def test_the_referee_runs_what_is_compiled(passes: Path) -> None:
    steps = gpu_steps(GPU)
    assert check_candidate(GPU.with_lowering([ONE]), steps).verdict is Verdict.AGREES
    wrong = check_candidate(GPU.with_lowering(["my_passes.py:Zero"]), steps)
    assert wrong.verdict is Verdict.WRONG


def test_a_smaller_problem_has_the_passes_too(passes: Path) -> None:
    large = Task.from_workload("matmul", M=512, N=512, K=512, target=cuda_target("sm_80"))
    mine = large.with_lowering(["my_passes.py:Zero"])
    found = scaled(mine, gpu_steps(mine))
    assert found is not None and found[0].lowering == mine.lowering


def test_a_cubin_is_made_with_the_passes(passes: Path) -> None:
    steps = gpu_steps(GPU)
    mine = GPU.with_lowering(["my_passes.py:Zero"])
    built = [build_cuda_candidate(task, steps).source for task in (GPU, mine)]
    assert built == [cuda_source_of_candidate(task, steps).source for task in (GPU, mine)]


CALLS = """
from autosched.tir.expr import Call
from autosched.tir.stmt import BufferStore
from autosched.tir.walk import map_children
from autosched.transform.framework.passes import FunctionPass


class Powers(FunctionPass):
    name = "Powers"
    op, arguments = "pow", 1

    def apply(self, func, ctx):
        return func.with_body(self.call(func.body))

    def call(self, s):
        s = map_children(s, self.call)
        if not isinstance(s, BufferStore):
            return s
        return s.with_(value=Call(s.value.dtype, self.op, (s.value,) * self.arguments))


class Shifts(Powers):
    name = "Shifts"
    op, arguments = "shift_left", 2
"""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Powers", "TypeError: "),
        ("Shifts", "LLVM rejected the generated code: LLVM IR parsing error .* error: instruction"),
    ],
)
def test_code_that_cannot_be_compiled_names_the_passes(passes: Path, name: str, why: str) -> None:
    (passes.parent / "calls.py").write_text(CALLS)
    mine = TASK.with_lowering([ONE, f"calls.py:{name}"])
    with pytest.raises(CompileError) as refused:
        build_candidate(mine, TILED)
    message = f"the code cannot be compiled after {ONE}, calls.py:{name}: {why}"
    assert re.match(message, str(refused.value)) and "\n" not in str(refused.value)
