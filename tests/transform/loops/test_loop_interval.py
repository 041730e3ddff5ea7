import itertools

import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.op import all_, eq, likely
from autosched.tir.stmt import BufferStore, For, ForKind, IfThenElse, LetStmt
from autosched.tir.walk import substitute
from autosched.transform.loops.loop_interval import as_part, likely_parts, loop_conditions

A = decl_buffer((64,), "float32", "A")
N = decl_buffer((8,), "int32", "N")
i, j, n = Var("i"), Var("j"), Var("n")


def guarded(condition, extent=4):
    body = IfThenElse(likely(condition), BufferStore(A, A[0], (i,)))
    return For(j, IntImm(0), IntImm(extent), ForKind.SERIAL, body)


def test_likely_parts() -> None:
    parts = list(likely_parts(all_(i < 1, likely(all_(i < 2, j < 3)))))
    assert parts == [(i < 1, False), (i < 2, True), (j < 3, True)]


@pytest.mark.parametrize("condition", [i < 5, i <= 5, j > i, j + 2 >= i, i * 2 - j > 3, 3 - i >= j])
def test_a_part_is_the_comparison(condition) -> None:
    part = as_part(condition)
    for a, b in itertools.product(range(-2, 9), range(4)):
        low, high = part.bounds({i: (a, a), j: (b, b)})
        truth = substitute(condition, {i: IntImm(a), j: IntImm(b)}).value
        assert low == high
        assert (low <= 0) == bool(truth)


@pytest.mark.parametrize("condition", [eq(i, 3), A[i] < A[0], i < N[0]])
def test_not_a_part(condition) -> None:
    assert as_part(condition) is None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (i * 4 + j < 10, (0, 2)),
        (i * 4 + j >= 6, (2, 8)),
        (all_(i * 4 + j < 30, i - j > 0), (4, 7)),
        (i * 3 <= j + 6, (0, 3)),
        (i < n, (0, 8)),
    ],
)
def test_constant_interval(condition, expected) -> None:
    assert loop_conditions(i, guarded(condition)).constant_interval(0, 8) == expected


def test_limits_of_variables_outside() -> None:
    conditions = loop_conditions(i, guarded(all_(i * 4 + j < n, i + j >= n)))
    lows, highs = conditions.limits()
    assert [repr(e) for e in lows] == ["n"]
    assert [repr(e) for e in highs] == ["(n - 4) // 4 + 1"]
    assert len(conditions.symbolic()) == 2


def test_conditions_on_what_is_bound_inside_are_left_out() -> None:
    t = Var("t")
    body = LetStmt(t, i + 1, guarded(i + t < 5))
    assert loop_conditions(i, body).parts == []
    assert loop_conditions(i, guarded(i // 2 + j < 5)).parts == []
    unknown = For(n, IntImm(0), i + 1, ForKind.SERIAL, guarded(i + n < 5))
    assert loop_conditions(i, unknown).parts == []
