from typing import Any

import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import float32, int32
from autosched.tir.expr import Add, Broadcast, Call, Expr, FloatImm, IntImm, Ramp, StringImm, Var
from autosched.tir.kinds import loads_in
from autosched.tir.op import all_, likely
from autosched.transform.vector.vectorize_expr import (
    LaneExprs,
    NotVectorisableError,
    split_condition,
    unsafe_loads,
)

A = decl_buffer((64,), "float32", "A")
N = decl_buffer((8, 8), "int32", "N")
i, j = Var("i"), Var("j")
ZERO = FloatImm(0.0, float32)


def vector(e: Expr, **options: Any) -> Expr:
    return LaneExprs(j, 4, options.get("masked", False))(e)


def test_what_is_the_same_in_all_lanes_is_the_same_object() -> None:
    e = A[i * 4] + 1.0
    assert vector(e) is e


def test_a_vector_that_turns_out_to_be_one_value_is_scalar() -> None:
    assert vector(i + j - j) is i
    assert vector((i * 8 + j) // 8) is vector(i * 8 // 8)


@pytest.mark.parametrize(
    "e",
    [
        N[j, i],
        Ramp(j, IntImm(1), 4),
        Broadcast(j, 2),
        Call(int32, "call_pure_extern", (StringImm("f"), j)),
        Call(int32, "if_then_else", (j < 2, i, j)),
    ],
)
def test_no_vector_form(e: Expr) -> None:
    with pytest.raises(NotVectorisableError):
        vector(e)


def test_indirect_loads_are_gathers() -> None:
    assert repr(vector(N[i, N[i, j]])) == "N[i, N[i, 0:4]]"


def test_split_condition() -> None:
    scalar, mixed = split_condition(vector(likely(all_(i < 3, j < 2, i > 0))))
    assert repr(scalar) == "i < 3 and i > 0"
    assert repr(mixed) == "ramp(0, 1, 4) < broadcast(2, 4)"
    assert split_condition(i < 3) == (i < 3, None)


def test_unsafe_loads_read_what_the_condition_may_guard() -> None:
    assert unsafe_loads(A[i], j, i + j < 5)
    assert not unsafe_loads(A[i + j], j, i + j < 5)
    assert not unsafe_loads(A[Var("k")], j, i + j < 5)
    assert unsafe_loads(A[-2], j, j < 2) and unsafe_loads(A[A.shape[0]], j, j < 2)
    assert not unsafe_loads(A[0], j, j < 2)


def choice(condition: Expr, a: Expr, b: Expr) -> Expr:
    return Call(a.dtype, "if_then_else", (condition, a, b))


def masked_loads(e: Expr) -> int:
    return sum(load.predicate is not None for load in loads_in(vector(e, masked=True)))


def test_what_a_condition_reads_needs_no_mask_behind_it() -> None:
    """With masks that read what is masked by others, twenty levels took minutes."""
    e: Expr = ZERO
    for k in range(20):
        e = choice(A[j] > float(k), A[j] * float(k), e)
    assert masked_loads(e) == 0


@pytest.mark.parametrize(
    "e",
    [
        choice(i < 5, A[j + 60], ZERO) + choice(j < i, A[j + 60], ZERO),
        choice(all_(i < 5, A[j + 60] > 0.0), A[j], ZERO) + choice(j < i, A[j + 60], ZERO),
        choice(j < i, A[j + 60], ZERO) + choice(j > i, A[j + 60], ZERO),
    ],
    ids=["in one branch", "in a part of a condition", "under another mask"],
)
def test_what_some_lanes_may_not_read_stays_masked(e: Expr) -> None:
    found = vector(e, masked=True)
    assert isinstance(found, Add)
    assert [load.predicate is None for load in loads_in(found.b) if "60" in repr(load)] == [False]


def test_conditions_that_each_read_another_element() -> None:
    """The masks of so many levels would be too long; the lanes become a loop."""
    e: Expr = ZERO
    for k in range(5):
        e = choice(A[j + k] > 0.0, A[j + k + 20], e)
    assert masked_loads(e)
    for k in range(5, 20):
        e = choice(A[j + k] > 0.0, A[j + k + 20], e)
    with pytest.raises(NotVectorisableError):
        vector(e, masked=True)
