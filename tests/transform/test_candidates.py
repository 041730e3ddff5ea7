"""Random candidates mean the same after every pass of the pipelines, on both targets.

Sizes are odd, prime or one, so that tiles do not divide loops. A failure names the first pass
whose output no longer computes what NumPy does, the workload, the seed and the steps.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

from autosched import workloads
from autosched.driver import lower_steps, pipeline_of, schedule_ops
from autosched.errors import ScheduleError
from autosched.measure.check import compare
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.target import HardwareParams, cpu_target, cuda_target
from autosched.task import Task
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.op import const
from autosched.tir.stmt import Evaluate
from autosched.tir.verify import verify
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.instruments import Verify
from autosched.transform.framework.passes import FunctionPass, Pass, Sequential
from kit.golden_lines import golden_candidates
from kit.tir import Stages, value_of
from kit.types import Array

CANDIDATES = 3
TARGETS = {"cpu": cpu_target(threads=2), "cuda": cuda_target()}
WORKLOADS = [
    ("matmul", {"M": 5, "N": 7, "K": 9}),
    ("matmul", {"M": 1, "N": 13, "K": 4}),
    ("batch_matmul", {"B": 3, "M": 1, "N": 6, "K": 5}),
    ("dense_bias_relu", {"M": 6, "N": 11, "K": 3}),
    ("conv1d_nlc", {"N": 1, "L": 9, "CI": 3, "CO": 4, "K": 3, "stride": 2, "padding": 1}),
    ("depthwise_conv2d_nhwc", {"N": 1, "H": 3, "W": 5, "C": 3, "K": 3, "stride": 1, "padding": 1}),
    ("max_pool2d_nchw", {"N": 1, "C": 2, "H": 5, "W": 7, "K": 3, "stride": 2, "padding": 1}),
    ("norm_bmn", {"B": 2, "M": 5, "N": 7}),
    ("softmax", {"M": 5, "N": 13}),
    ("layer_norm", {"M": 1, "N": 11}),
    ("add_relu", {"M": 3, "N": 17}),
]


def drawn(task: Task, seed: int, count: int) -> list[tuple[Step, ...]]:
    """Steps of `count` random candidates, fewer where the space is smaller."""
    hardware = HardwareParams.default("cuda") if task.target.is_gpu else HardwareParams(num_cores=2)
    space = SearchSpace.of(Context(task.dag, hardware, task.target.is_gpu, SearchOptions()))
    return space.sample(np.random.default_rng(seed), count)


def stages_of_lowering(
    task: Task, steps: tuple[Step, ...], passes: tuple[Pass, ...]
) -> list[tuple[str, PrimFunc]]:
    """(pass, function) before the first pass and after each one that changed something."""
    stages = Stages()
    with PassContext(instruments=[stages, Verify(verify)]):
        Sequential(passes)(schedule_ops(*task.dag.apply_steps(steps)))
    return stages.seen


def problem_of(
    task: Task, func: PrimFunc, expected: Sequence[Array], eager_select: bool
) -> str | None:
    """Why `func` is not what NumPy computes, or None."""
    outputs = task.tensors[-task.num_outputs :]
    found = [np.full([value_of(e) for e in t.shape], 77, t.dtype.numpy) for t in outputs]
    try:
        interp.run(func, [*task.inputs(seed=0), *found], eager_select=eager_select)
    except interp.InterpreterError as error:
        return f"{type(error).__name__}: {error}"
    names = [t.name for t in outputs]
    problems = map(compare, names, found, expected)
    return next((problem for problem in problems if problem is not None), None)


def check(
    task: Task,
    seed: int,
    steps: tuple[Step, ...],
    expected: Sequence[Array],
    passes: tuple[Pass, ...],
) -> None:
    """Fails, naming the first pass after which the candidate no longer computes `expected`."""
    eager = False
    for name, func in stages_of_lowering(task, steps, passes):
        eager = eager or name == "RewriteUnsafeSelect"
        problem = problem_of(task, func, expected, eager)
        if problem is not None:
            pytest.fail(
                f"after {name}: {problem}\n{task.name} on {task.target.kind}, seed {seed}, steps\n"
                + json.dumps(steps_to_json(steps))
            )


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize(("op", "args"), WORKLOADS, ids=lambda p: str(p).replace(" ", ""))
def test_every_pass_keeps_the_meaning(op: str, args: dict[str, Any], kind: str) -> None:
    task = Task.from_workload(op, target=TARGETS[kind], **args)
    expected = task.reference(task.inputs(seed=0))
    seed = sum(args.values())
    found = drawn(task, seed, CANDIDATES)
    assert found
    for steps in found:
        check(task, seed, steps, expected, pipeline_of(task.target))


@dataclass(frozen=True)
class _DropsTheBody(FunctionPass):
    name: ClassVar[str] = "DropsTheBody"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return replace(func, body=Evaluate(const(0)))


def test_a_pass_that_errs_is_named() -> None:
    task = Task.from_workload("add_relu", M=3, N=5, target=TARGETS["cpu"])
    expected = task.reference(task.inputs(seed=0))
    (steps,) = drawn(task, 3, 1)
    first, second, *rest = pipeline_of(task.target)
    with pytest.raises(pytest.fail.Exception, match="after DropsTheBody: wrong") as caught:
        check(task, 3, steps, expected, (first, second, _DropsTheBody(), *rest))
    assert "add_relu(M=3, N=5) on cpu, seed 3" in str(caught.value)
    assert json.dumps(steps_to_json(steps)) in str(caught.value)


# Tiles of two channels straddle the groups of three: the channels that a tile reads are a different
# number from tile to tile, and so is the length of the vectorized loop over the padded input.
STRADDLING = [
    ["SP", 3, 3, 6, [2], 1],
    ["RE", 3, [0, 1, 2, 3, 5, 6, 7, 4]],
    ["CA", 1, 3, 3],
    ["AN", 1, 3, 2],
]


def test_a_vectorized_loop_of_varying_length_is_serial() -> None:
    """Ansor generates such candidates and fails to build them."""
    args: dict[str, Any] = {"N": 1, "H": 3, "W": 3, "CI": 4, "CO": 6, "KH": 1, "KW": 1}
    args |= {"stride": 1, "padding": 1, "groups": 2}
    task = Task.from_workload("conv2d_nhwc", target=TARGETS["cpu"], **args)
    steps = steps_from_json(STRADDLING)
    expected = task.reference(task.inputs(seed=0))
    check(task, 0, steps, expected, pipeline_of(task.target, lenient=True))
    with pytest.raises(ScheduleError, match="VectorizeLoop: the extent of the loop i3 must be"):
        Sequential(pipeline_of(task.target))(schedule_ops(*task.dag.apply_steps(steps)))


@cache
def golden_dag(workload: str, args: str) -> ComputeDAG:
    return ComputeDAG(workloads.get(workload).tensors(**json.loads(args)))


@pytest.mark.parametrize("kind", TARGETS)
def test_candidates_of_ansor_are_lowered(kind: str) -> None:
    """A sixth of them all; some need more shared memory than any GPU of that architecture has."""
    chosen = list(golden_candidates("ansor_v06.jsonl.gz", target=kind))[::6]
    assert len(chosen) > 30
    refused = 0
    for line in chosen:
        dag = golden_dag(line["workload"], json.dumps(line["args"]))
        try:
            func = lower_steps(dag, steps_from_json(line["steps"]), TARGETS[kind])
        except ScheduleError as error:
            assert "bytes of shared memory, even merged; at most 166912" in str(error)
            refused += 1
        else:
            assert len(func.params) == len(dag.tensors)
    assert refused == {"cpu": 0, "cuda": 10}[kind]
