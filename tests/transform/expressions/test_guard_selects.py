"""Selects of values that may not be read: what becomes of them, and that nothing is read."""

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower_func, pipeline_of, schedule_ops
from autosched.runtime.cpu import build_artifact, load
from autosched.target import Target, cpu_target, cuda_target
from autosched.te.operations.tensor import Tensor
from autosched.tir import interp
from autosched.tir.expr import Expr
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.transform.expressions.facts import Facts
from autosched.transform.expressions.guard_selects import GuardSelects
from autosched.transform.framework.passes import Sequential
from kit.pages import outcome_at_edges
from kit.types import Array, BodyText, SameResult

Value = Callable[[Tensor, Expr], Expr]
N = 64
CPU = cpu_target(threads=1)
PARAMETERS = (
    "n: int32, A: Buffer((64,), float32), M: Buffer((4, 16), float32), S: Buffer((n,), float32), "
    "Z: Buffer((), float32), B: Buffer((64,), float32)"
)


def function_of(value: str, loop: str = "vectorized(64)") -> PrimFunc:
    """B[i] = value for all i."""
    text = f"def main({PARAMETERS}):\n    for i in {loop}:\n        B[i] = {value}\n"
    return parse_func(text)


STAYS = {
    "inside": "Select(0.0 < A[i], A[i], A[63 - i])",
    "inside of the memory": "Select(i < 8, M[1, i % 16 - 16], M[i // 32, 32])",
    "the element of a tensor without axes": "Select(i < 8, Z[], 0.0)",
    "arithmetic": "Select(i < 8, float32(i) * 2.0, 0.0)",
    "under a guard": "if_then_else(1 <= i, Select(0.0 < A[i], A[i - 1], 0.0), 0.0)",
    "under the other side of a guard": "if_then_else(i < 1, 0.0, Select(i < 9, A[i - 1], 0.0))",
    "a guard inside": "Select(0.0 < A[i], if_then_else(1 <= i, A[i - 1], 1.0), 0.0)",
    "with a predicate": "Select(i < 8, load(A[i + 1], predicate=i < 63), 0.0)",
    "divided by what is not zero": "Select(i < 8, float32(64 // (i + 1)), 0.0)",
    "divided by data": "Select(i < 8, float32(64 // int32(A[i])), 0.0)",
    "a size": "Select(i < 8, if_then_else(i < n, S[i], 0.0), 0.0)",
}
BRANCHES = {
    "before": "Select(1 <= i, A[i - 1], 0.0)",
    "behind": "Select(i < 63, A[i + 1], 0.0)",
    "the other value": "Select(i == 0, 0.0, A[i - 1])",
    "before a matrix": "Select(i < 8, M[0, i % 16 - 1], 0.0)",
    "at an index that is loaded": "Select(0.0 <= A[i], A[int32(A[i])], 0.0)",
    "a guard that holds elsewhere": (
        "Select(1 <= i, if_then_else(0.0 < A[i], A[i - 1], 1.0), 0.0)"
    ),
    "a division": "Select(i < 5, float32(64 // (i - 5)), 0.0)",
    "of a size": "Select(i < n, S[i], 0.0)",
    "a call": 'Select(i < 8, call_extern("f", i, dtype=float32), 0.0)',
}


@pytest.mark.parametrize("name", STAYS)
def test_what_may_be_computed_in_vain_stays(name: str) -> None:
    before = function_of(STAYS[name])
    assert GuardSelects()(before) is before


@pytest.mark.parametrize("name", BRANCHES)
def test_what_may_not_is_chosen_first(name: str, body_text: BodyText) -> None:
    after = GuardSelects()(function_of(BRANCHES[name]))
    wanted = BRANCHES[name].replace("Select(", "if_then_else(")
    assert f"B[i] = {wanted}" in body_text(after)


def test_selects_inside_are_looked_at_where_they_are_chosen(body_text: BodyText) -> None:
    value = "Select(1 <= i, Select(A[i] < 0.0, A[i - 1], A[i - 2]), Select(i < 1, A[i], 0.0))"
    after = GuardSelects()(function_of(value))
    assert "B[i] = if_then_else(1 <= i, if_then_else(A[i] < 0.0, A[i - 1], A[i - 2]), " in (
        body_text(after)
    )
    assert body_text(after).endswith("Select(i < 1, A[i], 0.0))")


def test_loops_conditions_and_lets_count(same_result: SameResult) -> None:
    before = parse_func(
        "def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):\n"
        "    for i in range(1, 64):\n"
        "        if likely(i < 40):\n"
        "            x: int32 = i + 24\n"
        "            B[i] = Select(A[i] < 0.0, A[x], A[i - 1])\n"
        "        else:\n"
        "            B[i] = Select(A[i] < 0.0, A[i - 40], A[i - 41])\n"
    )
    after = GuardSelects()(before)
    text = str(after)
    assert "Select(A[i] < 0.0, A[x], A[i - 1])" in text
    assert "if_then_else(A[i] < 0.0, A[i - 40], A[i - 41])" in text
    same_result(before, after)


def test_memory_that_is_made_inside_counts(body_text: BodyText) -> None:
    before = parse_func(
        "def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):\n"
        '    C = allocate((64,), float32, "global")\n'
        "    for i in range(64):\n"
        "        C[i] = A[i]\n"
        "    for i in range(64):\n"
        "        B[i] = Select(A[i] < 0.0, C[i], 0.0) + Select(i < 63, C[i + 1], 0.0)\n"
    )
    after = body_text(GuardSelects()(before))
    assert after.endswith(
        "B[i] = Select(A[i] < 0.0, C[i], 0.0) + if_then_else(i < 63, C[i + 1], 0.0)"
    )


def test_vectors_count(body_text: BodyText) -> None:
    before = parse_func(
        "def main(A: Buffer((8,), float32), B: Buffer((16,), float32)):\n"
        "    for i in range(4):\n"
        "        B[i * 4:i * 4 + 4] = Select(ramp(i * 4, 1, 4) < broadcast(8, 4), "
        "A[i * 4:i * 4 + 4], broadcast(0.0, 4))\n"
    )
    assert "B[i * 4:i * 4 + 4] = if_then_else(" in body_text(GuardSelects()(before))
    array = np.arange(8, dtype=np.float32)
    wanted = np.concatenate([array, np.zeros(8, np.float32)])
    kernel = load(build_artifact(lower_func(before, CPU), CPU))
    assert outcome_at_edges(kernel, [array], [wanted]) == ["same", "same"]


# -- what is run


def shifted(A: Tensor, i: Expr) -> Expr:
    return te.select(te.all(i >= 3, i < 61), A[i - 3] + A[i + 3], te.const(0.0))


def gathered(A: Tensor, i: Expr) -> Expr:
    return te.select(A[i] < N - 1, A[te.cast("int32", A[i]) + 1], A[i])


def guarded_inside(A: Tensor, i: Expr) -> Expr:
    inner = te.if_then_else(A[i] >= 0.0, A[i - 1], te.const(0.0))
    return te.select(i >= 1, inner, te.const(0.0))


def divided(A: Tensor, i: Expr) -> Expr:
    wide = te.cast("int64", i % 5)
    return te.select(i % 5 > 0, te.cast("float32", te.const(12, "int64") // wide), A[i])


def one_for_all(A: Tensor, i: Expr) -> Expr:
    return te.select(i // 16 < 3, A[i + 16], A[i])


WANTED: dict[Value, Callable[[Array], Array]] = {
    shifted: lambda a: np.where((a >= 3) & (a < 61), a * 2, 0),
    gathered: lambda a: np.minimum(a + 1, N - 1),
    guarded_inside: lambda a: np.maximum(a - 1, 0),
    divided: lambda a: np.where(a % 5 > 0, 12 // np.maximum(a % 5, 1), a),
    one_for_all: lambda a: np.where(a < 48, a + 16, a),
}


def name_of(value: Value) -> str:
    return value.__name__


def scheduled(value: Value, vectorized: bool, target: Target) -> PrimFunc:
    A = te.placeholder((N,), name="A")
    B = te.compute((N,), lambda i: value(A, i), name="B")
    sch = te.create_schedule(B.op)
    outer, inner = sch[B].split(B.op.axis[0], factor=16)
    if vectorized:
        sch[B].vectorize(inner)
    if target.is_gpu:
        sch[B].bind(outer, te.thread_axis("threadIdx.x"))
    return schedule_ops(sch, [A, B])


@pytest.mark.parametrize("vectorized", [True, False])
@pytest.mark.parametrize("value", WANTED, ids=name_of)
def test_no_lane_reads_beyond_the_memory(value: Value, vectorized: bool) -> None:
    lowered = lower_func(scheduled(value, vectorized, CPU), CPU)
    array = np.arange(N, dtype=np.float32)
    wanted: Array = WANTED[value](array).astype(np.float32)
    kernel = load(build_artifact(lowered, CPU))
    assert outcome_at_edges(kernel, [array], [wanted]) == ["same", "same"]


@pytest.mark.parametrize("target", [CPU, cuda_target()], ids=lambda t: t.kind)
@pytest.mark.parametrize("value", WANTED, ids=name_of)
def test_what_is_lowered_chooses_before_it_reads(value: Value, target: Target) -> None:
    """The interpreter reads both values of each Select that is left."""
    lowered = Sequential(pipeline_of(target))(scheduled(value, True, target))
    array, found = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    interp.run(lowered, [array, found], eager_select=True)
    np.testing.assert_array_equal(found, WANTED[value](array))


def test_what_is_safe_is_a_vector_with_no_masks() -> None:
    A = te.placeholder((N,), name="A")
    B = te.compute((N,), lambda i: te.select(A[i] < 0.5, A[N - 1 - i], A[i]), name="B")
    sch = te.create_schedule(B.op)
    _, inner = sch[B].split(B.op.axis[0], factor=16)
    sch[B].vectorize(inner)
    text = str(lower_func(schedule_ops(sch, [A, B]), CPU))
    assert "Select(A[16:32] < broadcast(0.5, 16), " in text
    assert "predicate" not in text and "if_then_else" not in text


def test_values_that_are_always_safe_need_no_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of 256 numbers is as many nested selects: 15 s were not enough for it."""

    def none(*given: object) -> None:
        raise AssertionError(given)

    monkeypatch.setattr(Facts, "under", none)
    table = "0.0"
    for k in range(100):
        table = f"Select(i == {k}, {k}.0, {table})"
    func = function_of(f"A[i] * {table}")
    assert GuardSelects()(func) is func
