"""Bounds of many states at once are those of each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.features.batched.extents import BatchedExtents
from autosched.search.bounds import Bounds
from autosched.search.options import SearchOptions, SpaceName
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.state import State
from autosched.state.steps import ComputeAtStep, FuseStep, SplitStep, Step, steps_from_json
from autosched.target import cpu_target, cuda_target
from autosched.task import Task

_IMAGE: dict[str, Any] = {"N": 1, "H": 12, "W": 10, "K": 3, "stride": 1, "padding": 1}
_GROUPS: dict[str, Any] = {"N": 1, "H": 14, "W": 14, "CI": 96, "CO": 96, "KH": 3, "KW": 3}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"M": 60, "N": 24, "K": 36}),
    ("conv2d_nchw_bn_relu", {**_IMAGE, "CI": 6, "CO": 8}),
    ("conv2d_nhwc", {**_GROUPS, "stride": 1, "padding": 1, "groups": 2}),
    ("depthwise_conv2d_nhwc", {**_IMAGE, "C": 9, "stride": 2}),
    ("conv2d_transpose_nhwc", {**_IMAGE, "H": 6, "W": 4, "K": 4, "CI": 4, "CO": 6, "stride": 2}),
    ("conv2d_winograd_nhwc", {"N": 1, "H": 8, "W": 8, "CI": 6, "CO": 8}),
    ("norm_bmn", {"B": 2, "M": 6, "N": 7}),
    ("softmax", {"M": 12, "N": 50}),
    ("transpose_batch_matmul_softmax", {"B": 2, "S": 6, "H": 3, "D": 10}),
]
TARGETS = {"cpu": cpu_target(threads=2), "cuda": cuda_target("sm_90")}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[State]:
    """The states whose bounds sampling asks for."""
    found: list[State] = []
    call = Bounds.__call__

    def noted(self: Bounds, states: Sequence[State]) -> Iterator[State | ScheduleError]:
        found.extend(states)
        return call(self, states)

    monkeypatch.setattr(Bounds, "__call__", noted)
    return found


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[State]:
    """The states whose bounds are inferred by themselves."""
    found: list[State] = []
    infer_bound = ComputeDAG.infer_bound

    def noted(self: ComputeDAG, state: State) -> State:
        found.append(state)
        return infer_bound(self, state)

    monkeypatch.setattr(ComputeDAG, "infer_bound", noted)
    return found


def extents(state: State) -> list[list[int | None]]:
    return [[it.extent for it in stage.iters] for stage in state.stages]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("space", get_args(SpaceName))
@pytest.mark.parametrize(("name", "args"), CASES, ids=[name for name, _ in CASES])
def test_extents_are_those_of_each_by_itself(
    name: str,
    args: dict[str, Any],
    space: SpaceName,
    target: str,
    asked: list[State],
    one_by_one: list[State],
) -> None:
    task = Task.from_workload(name, target=TARGETS[target], **args)
    found = SearchSpace(task, SearchOptions(space=space))
    attempts = 160 if target == "cuda" and space == "ansor" else 40
    found.attempts(np.random.default_rng(0), attempts)
    if len(asked) >= 8 and "groups" not in args:  # else quotients, for which there is no rule
        assert len(one_by_one) <= 0.1 * len(asked)
    dag = found.context.dag
    for state, bounded in zip(asked, list(Bounds(dag)(asked)), strict=True):
        assert isinstance(bounded, State)
        assert extents(bounded) == extents(dag.infer_bound(state)), state.steps
        assert bounded.steps == state.steps
    assert asked or (target, space) == ("cuda", "ansor")


@pytest.mark.parametrize("tiles", ["+avx512vnni", "+avx512vnni,+amx-tile,+amx-int8"])
@pytest.mark.parametrize("size", [64, 50])
def test_extents_with_a_tensor_instruction(
    tiles: str, size: int, asked: list[State], one_by_one: list[State]
) -> None:
    """Rows that tiles pack are read at min(i, 49), sums at i // 16 and i % 16: all are constant."""
    features = f"+avx512f,+avx512bw,{tiles}"
    target = replace(TARGETS["cpu"], features=features, triple="x86_64-linux", vector_bytes=64)
    sizes: dict[str, Any] = {"M": size, "N": 100, "K": 33, "in_dtype": "int8", "acc_dtype": "int32"}
    task = Task.from_workload("matmul", target=target, **sizes)
    found = SearchSpace(task, SearchOptions())
    found.attempts(np.random.default_rng(0), 40)
    dag, without_rule = found.context.dag, len(one_by_one)
    for state, bounded in zip(asked, list(Bounds(dag)(asked)), strict=True):
        if isinstance(bounded, ScheduleError):
            without_rule -= 1
        else:
            assert extents(bounded) == extents(dag.infer_bound(state)), state.steps
    assert without_rule <= 0.1 * len(asked)


def states(
    count: int, expr: str, shapes: Mapping[str, tuple[int, ...]], *steps: Step
) -> list[State]:
    dag = Task.from_expression(expr, shapes).dag
    return [dag.state_of(steps)] * count


def test_an_extent_that_is_an_expression_stays_one() -> None:
    """Both rows that a part of Y needs may be in one group or in two, InferBound says."""
    expr = "T[i, k] = A[i, k] * 2; Y[i, j] = sum(k, T[i // 3, k] * B[k, j])"
    shapes = {"A": (10, 7), "B": (7, 5), "Y": (30, 5)}
    many = states(8, expr, shapes, SplitStep(3, 0, 30, (2,)), ComputeAtStep(1, 3, 0))
    for bounded in Bounds(many[0].dag)(many):
        assert isinstance(bounded, State)
        assert bounded.stages[1].iters[0].size is not None


_TWICE = ("T[i] = exp(A[i]); U[i] = T[i + 2] * 2; Y[i] = U[i % 2] * U[i]", {"U": (2,)})
_EVEN = ("T[i] = exp(A[i]); Y[i] = T[(2 * i + 4) % 2] + A[i]", {"Y": (5,)})
_DECIDED = "T[i] = exp(A[i]); Y[i] = sum(k < 5, T[i + 3 if k > 5 else 0] if k < 3 else 0)"
_HALVED = "T[i] = exp(A[i]); U[i, j] = sum(k < 8, T[i // 2]); Y[i] = U[i + 4, i + 5] * 3"
_SHIFTED = "T[i] = exp(A[i]); U[i, j] = sum(k < 8, T[i]); Y[i] = U[i + 4, i + 5] * 3"
_SOME: dict[str, tuple[int, ...]] = {"U": (6, 13), "Y": (2,)}
_TILE: list[Any] = [
    *(["CHW", 2, "local"], ["SP", 2, 0, 6, [1, 6, 1, 1], 1], ["SP", 2, 5, 13, [1, 13, 1, 1], 1]),
    *(["FSP", 3, 0, 1, 3], ["FSP", 3, 4, 2, 3], ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]]),
    *(["CA", 2, 3, 5], ["FU", 3, [0, 1]], ["FU", 3, [1, 2]], ["FU", 3, [2, 3]], ["AN", 3, 2, 6]),
]


@pytest.mark.parametrize(
    ("computed", "written"),
    [
        (_TWICE, [["CA", 2, 3, 0]]),
        (_EVEN, []),
        ((_DECIDED, {"Y": (4,)}), []),
        ((_HALVED, _SOME), _TILE),
        ((_SHIFTED, _SOME), _TILE),
    ],
    ids=[
        "one place in two ways",
        "a remainder of 0",
        "a decided choice",
        "halves of threads beyond",
        "threads beyond",
    ],
)
def test_what_inferring_bounds_does_not_know(
    computed: tuple[str, dict[str, tuple[int, ...]]], written: list[Any]
) -> None:
    expr, shapes = computed
    dag = Task.from_expression(expr, {"A": (13,), "T": (13,), **shapes}).dag
    state = dag.state_of(steps_from_json(written))
    want = extents(dag.infer_bound(state))
    for bounded in Bounds(dag)([state] * 8):
        assert isinstance(bounded, State) and extents(bounded) == want


def test_what_is_illegal_is_told() -> None:
    """T is computed in a loop of Y, where Z cannot read it."""
    expr = "T[i] = sum(k, A[i, k]); Y[i] = T[i] * 2; Z[i] = T[i] + Y[i]"
    legal = states(8, expr, {"A": (6, 4)})
    dag = legal[0].dag
    names = [stage.name for stage in legal[0].stages]
    lost = dag.state_of([ComputeAtStep(names.index("T"), names.index("Y"), 0)])
    *found, last = Bounds(dag)([*legal, lost])
    assert all(isinstance(state, State) for state in found)
    assert isinstance(last, ScheduleError) and "T" in str(last)


def test_a_loop_that_was_fused_of_none() -> None:
    many = states(8, "Y[i] = A[i] * 2", {"A": (6,)}, FuseStep(1, ()))
    for bounded in Bounds(many[0].dag)(many):
        assert isinstance(bounded, State)
        assert extents(bounded) == extents(many[0].dag.infer_bound(many[0]))


def test_a_single_element_has_no_loops(one_by_one: list[State]) -> None:
    A = te.placeholder((6,), name="A")
    e = te.compute((), lambda: A[2] * 2, name="e")
    D = te.compute((6,), lambda i: A[i] * e(), name="D")
    dag = ComputeDAG([A, D])
    found = list(Bounds(dag)([dag.state_of((SplitStep(2, 0, 6, (2,)),))] * 8))
    assert one_by_one == []
    assert all(isinstance(state, State) and extents(state) == [[], [], [3, 2]] for state in found)


def test_a_fault_at_many_at_once_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(self: BatchedExtents, candidates: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(BatchedExtents, "__call__", fault)
    many = states(8, "Y[i] = A[i] * 2", {"A": (6,)}, SplitStep(1, 0, 6, (2,)))
    bounds = Bounds(many[0].dag)
    with pytest.warns(UserWarning, match=r"one by one.*\(RuntimeError: a fault\)") as told:
        found = [*bounds(many), *bounds(many)]
    assert len(told) == 1
    assert all(isinstance(state, State) and extents(state) == [[], [3, 2]] for state in found)
