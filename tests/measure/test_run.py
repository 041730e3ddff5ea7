"""Candidates of every layout option, built, run and compared with NumPy, without processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.driver import build_steps
from autosched.errors import MeasureError
from autosched.layout import LayoutChange, LayoutOption
from autosched.measure import build, run
from autosched.measure.check import compare
from autosched.measure.guard import poison
from autosched.runtime.cpu import CpuArtifact, build_artifact, load
from autosched.search.space import SearchSpace
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.target import cpu_target
from autosched.task import Task
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import FloatImm, IntImm, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, nop
from kit.tir import value_of

TARGET = cpu_target(threads=2)
CANDIDATES = 3
REWRITES = ("insert-transform-stage", "pre-transformed")
CONV = {"N": 1, "H": 6, "W": 5, "CI": 4, "CO": 8, "KH": 3, "KW": 3, "stride": 1, "padding": 1}
TILED = steps_from_json(
    [
        ["SP", 2, 0, 8, [4], 1],
        ["SP", 2, 2, 32, [8], 1],
        ["SP", 2, 4, 16, [4], 1],
        ["RE", 2, [0, 2, 4, 1, 5, 3]],
        ["AN", 2, 0, 3],
        ["AN", 2, 5, 2],
    ]
)


def of(source: dict[str, Any], rewrite: str) -> Task:
    """A task from `op`, arguments and perhaps layout-free names of an expression."""
    if "expr" in source:
        return Task.from_expression(**source, target=TARGET, layout_rewrite=rewrite)
    return Task.from_workload(**source, target=TARGET, layout_rewrite=rewrite)


def candidates(task: Task, seed: int) -> list[tuple[Step, ...]]:
    return SearchSpace(task).sample(np.random.default_rng(seed), CANDIDATES)


def built(task: Task, steps: tuple[Step, ...]) -> bytes:
    artifact, _ = build.make_handler()((task.to_json(), steps_to_json(steps)))
    result: bytes = artifact
    return result


def layouts(artifact: bytes) -> list[LayoutChange]:
    return [p.layout for p in CpuArtifact.from_bytes(artifact).params if p.layout]


@pytest.mark.parametrize("rewrite", ["none", *REWRITES])
@pytest.mark.parametrize(
    "source",
    [
        {"name": "matmul", "M": 12, "N": 18, "K": 16},
        {"name": "matmul", "M": 7, "N": 13, "K": 11},
        {"name": "dense_bias_relu", "M": 6, "N": 10, "K": 9},
        {"name": "conv2d_nhwc", **CONV},
        {"name": "conv2d_nhwc", **CONV, "groups": 2},
        {"name": "conv2d_nchw_bn_relu", "N": 1, "H": 4, "W": 5, "CI": 3, "CO": 4, "K": 3}
        | {"stride": 2, "padding": 1},
        {
            "expr": "T[j, k] = B[k, j] * 2\nC[i, j] = sum(k, A[i, k] * B[k, j] + W[k] * T[j, k])",
            "shapes": {"A": [6, 8], "B": [8, 4], "W": [8]},
            "layout_free": ["B", "W"],
        },
    ],
    ids=lambda s: s.get("name", "expr") + "".join(str(s.get(k, "")) for k in ("M", "groups")),
)
def test_sampled_candidates_agree_with_numpy(source: dict[str, Any], rewrite: str) -> None:
    task = of(source, rewrite)
    handle = run.make_handler()
    handle(("task", task.to_json()))
    changed = 0
    for index, steps in enumerate(candidates(task, seed=len(rewrite))):
        artifact = built(task, steps)
        changed += len(layouts(artifact))
        handle(("load", index, artifact))
        handle(("check", index))
    assert (changed > 0) == (rewrite == "pre-transformed")


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_split_that_does_not_divide_keeps_the_order(rewrite: str) -> None:
    task = Task.from_workload("matmul", M=8, N=30, K=16, target=TARGET, layout_rewrite=rewrite)
    artifact = built(task, TILED)
    assert layouts(artifact) == []
    handle = run.make_handler()
    handle(("task", task.to_json()))
    handle(("load", 0, artifact))
    handle(("check", 0))


def test_a_wrong_order_is_a_wrong_answer() -> None:
    task = Task.from_workload(
        "matmul", M=8, N=32, K=16, target=TARGET, layout_rewrite="pre-transformed"
    )
    artifact = CpuArtifact.from_bytes(built(task, TILED))
    (change,) = [p.layout for p in artifact.params if p.layout]
    assert change.text == "B: 16k32j -> 4j4k4k8j"
    swapped = tuple(change.dims[k] for k in (1, 0, 2, 3))
    wrong = artifact.with_layouts([replace(change, dims=swapped)])
    handle = run.make_handler()
    handle(("task", task.to_json()))
    handle(("load", 0, wrong.to_bytes()))
    with pytest.raises(MeasureError, match="wrong answer"):
        handle(("check", 0))


def test_transformed_inputs_are_dropped_when_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "STORED_BYTES", 1)
    task = Task.from_workload(
        "matmul", M=12, N=18, K=16, target=TARGET, layout_rewrite="pre-transformed"
    )
    runner = run._Runner()
    runner.handle(("task", task.to_json()))
    artifacts = [built(task, steps) for steps in candidates(task, 3)]
    for index, artifact in enumerate(artifacts):
        runner.handle(("load", index, artifact))
        assert len(runner._stored) <= 1
    for index in range(len(artifacts)):
        assert runner.handle(("first", index)) > 0
        runner.handle(("check", index))
        assert all(t > 0 for t in runner.handle(("time", index, 1e-4, 2)))
    runner.handle(("drop",))
    assert not runner._stored


def test_disturbed_visits_are_repeated_then_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    disturbed = [True, False, False, *[True] * 3, True, True, False]

    class Watch:
        seconds = 0.0

        def disturbed_since(self, before: Watch) -> bool:
            return disturbed.pop(0)

        @classmethod
        def now(cls) -> Watch:
            return cls()

    monkeypatch.setattr(run, "Moment", Watch)
    task = Task.from_workload("matmul", M=8, N=8, K=8, target=TARGET)
    runner = run._Runner()
    runner.handle(("task", task.to_json()))
    for index in range(2):
        runner.handle(("load", index, built(task, ())))
    asked = [0, 1, 1, 1, 0]  # the first again, the second not, the third three times again
    for index in asked:
        assert len(runner.handle(("time", index, 1e-4, 2))) in (1, 2)
    assert (disturbed, runner.handle(("disturbed",))) == ([], {1: 2})
    runner.handle(("drop",))
    assert (runner._again, runner.handle(("disturbed",))) == (0, {})
    runner.handle(("load", 0, built(task, ())))
    monkeypatch.setattr(run, "_LONG", -1.0)
    disturbed.append(True)
    runner.handle(("time", 0, 1e-4, 2))  # a long one is not repeated: it might take too long
    assert (runner._again, runner.handle(("disturbed",))) == (0, {0: 1})


@pytest.mark.parametrize(
    "call, calls",
    [(1e-6, [1, 833, 833, 833]), (5e-4, [1, 1, 1, 1]), (1e-3, [1, 1]), (2e-3, [1, 1]), (4e-3, [1])],
)
def test_a_warm_up_is_part_of_the_time_of_a_visit(
    monkeypatch: pytest.MonkeyPatch, call: float, calls: list[int]
) -> None:
    asked: list[int] = []

    def seconds_of(number: int) -> float:
        asked.append(number)
        return number * call

    monkeypatch.setattr(run._Runner, "_timer", lambda runner, index: seconds_of)
    repeats = run._Runner()._time(0, 2.5e-3, 3)  # not `_visit`, which repeats disturbed ones
    assert asked == calls
    assert repeats == pytest.approx([call] * max(1, len(calls) - 1))


def test_a_user_prepares_the_constant_inputs_once() -> None:
    task = Task.from_workload(
        "matmul", M=8, N=32, K=16, target=TARGET, layout_rewrite="pre-transformed"
    )
    kernel = load(build_steps(task.dag, TILED, TARGET, layout=LayoutOption.FOR_PRE_TRANSFORMED))
    a, b = task.inputs()
    c = np.zeros((8, 32), np.float32)
    same, stored = kernel.prepare(a, b)
    assert same is a
    assert stored.shape == (4, 4, 4, 8)
    kernel(a, stored, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    with pytest.raises(MeasureError, match=r"16k32j -> 4j4k4k8j, which kernel\.prepare makes"):
        kernel(a, b, c)
    with pytest.raises(MeasureError, match="must be a NumPy array"):
        kernel.prepare(a, b.tolist())
    plain = load(build_steps(task.dag, TILED, TARGET))
    assert plain.prepare(a, b, c) == (a, b, c)


def test_a_kernel_that_writes_nothing_is_wrong_even_after_a_right_one() -> None:
    task = Task.from_workload("matmul", M=8, N=32, K=16, target=TARGET)
    right = CpuArtifact.from_bytes(built(task, TILED))
    buffers = [
        decl_buffer(tuple(value_of(e) for e in t.shape), t.dtype, t.name) for t in task.tensors
    ]
    handles = [pointer(f"{b.name}_handle", b.dtype) for b in buffers]
    empty = PrimFunc(tuple(handles), nop(), dict(zip(handles, buffers)), {"global_symbol": "idle"})
    handle = run.make_handler()
    handle(("task", task.to_json()))
    handle(("load", 0, right.to_bytes()))
    handle(("load", 1, build_artifact(empty, TARGET).to_bytes()))
    handle(("check", 0))
    with pytest.raises(MeasureError, match="wrong answer: 256 of 256 elements"):
        handle(("check", 1))
    handle(("check", 0))


def stored(task: Task, row: int, column: int) -> bytes:
    """A kernel that stores a one at [row, column] of the last argument."""
    buffers = [
        decl_buffer(tuple(value_of(e) for e in t.shape), t.dtype, t.name) for t in task.tensors
    ]
    handles = [pointer(f"{b.name}_handle", b.dtype) for b in buffers]
    body = BufferStore(buffers[-1], FloatImm(1.0), (IntImm(32 * row + column),))
    func = PrimFunc(tuple(handles), body, dict(zip(handles, buffers)), {"global_symbol": "one"})
    return build_artifact(func, TARGET).to_bytes()


@pytest.mark.parametrize(
    ("row", "column", "said"),
    [
        (8, 0, "outside of C: 4 bytes behind it, the nearest in element 1 behind its last"),
        (8, 3, "outside of C: 4 bytes behind it, the nearest in element 4 behind its last"),
        (-1, 31, "outside of C: 4 bytes before it, the nearest in element 1 before its first"),
        (7, 31, "wrong answer: 256 of 256 elements"),
    ],
)
def test_a_write_outside_is_a_wrong_answer(row: int, column: int, said: str) -> None:
    task = Task.from_workload("matmul", M=8, N=32, K=16, target=TARGET)
    handle = run.make_handler()
    handle(("task", task.to_json()))
    handle(("load", 0, stored(task, row, column)))
    handle(("load", 1, built(task, TILED)))
    with pytest.raises(MeasureError, match=said) as caught:
        handle(("check", 0))
    assert (caught.value.stage, caught.value.kind) == ("check", "wrong_answer")
    handle(("check", 1))  # what it left behind is not another's fault


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64"])
def test_no_output_that_is_not_written_is_right(dtype: str) -> None:
    want = np.array([0, 1, -1, 7], dtype)
    if want.dtype.kind == "f":
        want[1] = np.nan
        want[2] = -np.inf
    out = want.copy()
    poison(out, want)
    problem = compare("C", out, want)
    assert problem is not None and "4 of 4 elements" in problem


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_inputs_that_are_no_ordinary_numbers(tmp_path: Path, dtype: str) -> None:
    """Kernels and reference agree on NaN, infinities, zeros of both signs and denormals."""
    small = np.finfo(dtype).smallest_subnormal
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, small, -small, 100 * small, 1.5, -2.0]
    np.save(tmp_path / "a.npy", np.array(values * 4, dtype).reshape(8, 5))
    expr = (
        "T[i] = sum(k, A[i, k])\nM[i] = max(k, A[i, k])\n"
        "C[i, k] = max(A[i, k], 0) + A[i, k] * 0.5\nD[i, k] = A[i, k] * 2 if A[i, k] > 0 else 1"
    )
    task = Task.from_expression(expr, {"A": (8, 5)}, dtype=dtype, target=TARGET)
    task = task.with_inputs({"A": {"file": str(tmp_path / "a.npy")}})
    handle = run.make_handler()
    handle(("task", task.to_json()))
    for index, steps in enumerate(((), *candidates(task, 1))):
        handle(("load", index, built(task, steps)))
        handle(("check", index))
