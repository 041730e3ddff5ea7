"""Tensor instructions for products whose operands the sum computes: packing computes them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from autosched.driver import lower_steps
from autosched.measure.check import compare
from autosched.measure.tolerance import tolerances
from autosched.runtime.cpu import build_artifact, load
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.state import State
from autosched.state.steps import InstructionStep, MatrixTilesStep, steps_from_json, steps_to_json
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from autosched.te.intrin.registry import available, instruction
from autosched.tir.interp import run

TARGET = cpu_target(1)
AXES = {"m": 40, "n": 50, "k": 33, "h": 17, "y": 7, "x": 22, "w": 3, "c": 9}

# The axes of each input are letters of AXES.
CASES: dict[str, tuple[str, str, str]] = {
    "narrowed": (
        "vdpbf16ps.zmm",
        "C[i, j] = sum(k, float32(bfloat16(A[i, k])) * float32(B[k, j]))",
        "A mk float32, B kn bfloat16",
    ),
    "bytes as bfloat16": (
        "vdpbf16ps.zmm",
        "C[i, j] = sum(k, max(float32(A[i, k]), 0.0) * float32(B[j, k]))",
        "A mk bfloat16, B nk int8",
    ),
    "scaled weights": (
        "vdpbf16ps.zmm",
        "C[i, j] = sum(k, float32(A[i, k]) * float32(bfloat16(bfloat16(B[k, j]) * S[j])))",
        "A mk bfloat16, B kn int8, S n bfloat16",
    ),
    "eight bits": (
        "vdpbf16ps.zmm",
        "C[i, j] = sum(k, float32(A[i, k]) * float32(B[k, j]))",
        "A mk float8_e4m3fn, B kn float8_e5m2",
    ),
    "rows that data choose": (
        "vdpbf16ps.zmm",
        "C[i, j] = sum(k, float32(A[i, k]) * float32(B[I[k], j]))",
        "A mk bfloat16, B kn bfloat16, I k int32",
    ),
    "relu": (
        "vpdpbusd.zmm",
        "C[i, j] = sum(k, int32(max(A[i, k], 0)) * int32(B[k, j]))",
        "A mk int8, B kn int8",
    ),
    "zero point": (
        "vpmaddwd.zmm.s8",
        "C[i, j] = sum(k, (int32(A[i, k]) - 3) * int32(B[k, j]))",
        "A mk uint8, B kn int8",
    ),
    "zero points of columns": (
        "vpdpwssd.zmm",
        "C[i, j] = sum(k, (int32(A[i, k]) - 3) * (int32(B[j, k]) - int32(Z[j])))",
        "A mk uint8, B nk uint8, Z n uint8",
    ),
    "four bits": (
        "vpdpbusd.zmm.s8",
        "C[i, j] = sum(k, int32(A[i, k]) * ((int32(B[k // 2, j]) >> 4 * (k % 2) & 15) - 8))",
        "A mk int8, B hn uint8",
    ),
    "quantised in the sum": (
        "vpdpbusd.zmm.s8",
        "C[i, j] = sum(k, int32(int8(clip(rint(A[i, k] * S[i]), -128, 127))) * int32(B[k, j]))",
        "A mk float32, B kn int8, S m float32",
    ),
    "convolution": (
        "vpdpbusd.zmm",
        "C[h, w, j] = sum(y, x, c, int32(max(A[h+y, w+x, c], 0)) * int32(B[y, x, c, j]))",
        "A yxc int8, B wwcn int8",
    ),
    "tiles": (
        "amx.tdpbusd",
        "C[i, j] = sum(k, int32(max(A[i, k], 0)) * int32(B[j, k] // 2))",
        "A mk int8, B nk int8",
    ),
    "tiles of a convolution": (
        "amx.tdpbf16ps",
        "C[h, w, j] = sum(y, x, c, max(float32(A[h+y, w+x, c]), 0.0) * float32(B[y, x, c, j]))",
        "A yxc bfloat16, B wwcn bfloat16",
    ),
}


def task_of(case: str, target: Any = TARGET) -> Task:
    _, expr, inputs = CASES[case]
    each = [text.split() for text in inputs.split(", ")]
    shapes = {name: [AXES[axis] for axis in axes] for name, axes, _ in each}
    total = "int32" if "int32(" in expr else "float32"
    dtype = {**{name: kind for name, _, kind in each}, "C": total}
    return Task.from_expression(expr, shapes=shapes, dtype=dtype, target=target)


def space_of(task: Task, *names: str) -> SearchSpace:
    found, options = tuple(map(instruction, names)), SearchOptions(space="autosched")
    return SearchSpace.of(Context(task.dag, TARGET.hardware, False, options, found))


def using(space: SearchSpace) -> list[State]:
    return [s for s in space.sketches if any(isinstance(p, InstructionStep) for p in s.steps)]


@pytest.mark.parametrize("case", CASES)
def test_computes_what_the_reference_does(case: str) -> None:
    """Machine code, where this CPU has the instruction, and the interpreter."""
    name, task = CASES[case][0], task_of(case)
    space, rng = space_of(task, name), np.random.default_rng(0)
    inputs = task.inputs()
    (want,) = task.reference(inputs)
    (tolerance,) = tolerances(task, inputs, [want])
    assert using(space), "the instruction fits"
    compiled = instruction(name) in available(TARGET)
    for number, sketch in enumerate(using(space)[:2]):
        steps = space.sample(rng, 1, sketch=sketch)[0]
        assert steps_from_json(json.loads(json.dumps(steps_to_json(steps)))) == steps
        func = lower_steps(task.dag, steps, TARGET)
        if compiled:
            found = load(build_artifact(func, TARGET))(*inputs)
            assert isinstance(found, np.ndarray)
            assert compare("C", found, want, tolerance) is None
        if number == 0:
            stored = np.zeros_like(want)
            run(func, [*inputs, stored])
            assert compare("C", stored, want, tolerance) is None


def _product(factor: str, dtype: str, rows: int = 64) -> Task:
    return Task.from_expression(
        f"C[i, j] = sum(k, {factor} * int32(B[k, j]))",
        shapes={"A": [rows, 64], "B": [64, 64]},
        dtype={"A": dtype, "B": "int8", "C": "int32"},
        target=TARGET,
    )


def test_what_is_read_as_it_is_goes_before_what_is_computed() -> None:
    """Bytes fit int16, too; packing int8 as int16 by statements is faster than computing it."""
    names = ("vpdpwssd.zmm", "vpdpbusd.zmm", "vpmaddwd.zmm.s8")
    for factor, dtype, name in (
        ("int32(A[i, k])", "uint8", "vpdpbusd.zmm"),
        ("(int32(A[i, k]) - 3)", "uint8", "vpmaddwd.zmm.s8"),
    ):
        (step, *_) = (
            step
            for sketch in using(space_of(_product(factor, dtype), *names))
            for step in sketch.steps
            if isinstance(step, InstructionStep)
        )
        assert step.instruction == name


def test_what_it_is_not_for() -> None:
    wide = space_of(_product("(int32(A[i, k]) - 3)", "int16"), "vpdpwssd.zmm")
    assert not using(wide), "it may be -32771"
    few = Task.from_expression(
        "C[i, j] = sum(k, int32(A[i, k]) * (int32(B[k, j]) - 3))",
        shapes={"A": [16, 64], "B": [64, 64]},
        dtype={"A": "int8", "B": "int8", "C": "int32"},
        target=TARGET,
    )
    assert not using(space_of(few, "vpmaddwd.zmm.s8")), "a row multiplies what it computes"


def test_a_triangle_keeps_its_other_sketches() -> None:
    space = space_of(_product("int32(A[i, k] if i > k else 0)", "int8"), "vpdpbusd.zmm.s8")
    assert 0 < len(using(space)) < len(space.sketches)


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("narrowed", "mma.m16n8k16.bf16"),
        ("bytes as bfloat16", "mma.m16n8k16.bf16"),
        ("eight bits", "mma.m16n8k16.f16"),
        ("relu", "mma.m16n8k32.s8"),
        ("rows that data choose", "mma.m16n8k16.bf16"),
    ],
)
def test_tensor_cores_multiply_what_is_computed_as_it_is_copied(case: str, name: str) -> None:
    task = task_of(case, cuda_target("sm_80"))
    space = SearchSpace(task, SearchOptions(space="autosched"))
    sketch = next(s for s in space.sketches if isinstance(s.steps[0], MatrixTilesStep))
    assert isinstance(sketch.steps[0], MatrixTilesStep)
    assert sketch.steps[0].instruction == name
    steps = space.sample(np.random.default_rng(0), 1, sketch=sketch)[0]
    inputs = task.inputs()
    (want,) = task.reference(inputs)
    found = np.zeros_like(want)
    run(lower_steps(task.dag, steps, task.target), [*inputs, found])
    assert compare("C", found, want, tolerances(task, inputs, [want])[0]) is None
