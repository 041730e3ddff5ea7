import itertools

import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.op import all_, eq, if_then_else, likely, ne, select
from autosched.tir.stmt import BufferStore, For, ForKind, IfThenElse, LetStmt
from autosched.tir.walk import substitute
from autosched.transform.loops.loop_interval import (
    as_condition,
    as_part,
    likely_parts,
    loop_conditions,
)
from kit.tir import value_of

A = decl_buffer((64,), "float32", "A")
N = decl_buffer((8,), "int32", "N")
i, j, n = Var("i"), Var("j"), Var("n")


def guarded(condition: Expr, extent: int = 4) -> For:
    body = IfThenElse(likely(condition), BufferStore(A, A[0], (i,)))
    return For(j, IntImm(0), IntImm(extent), ForKind.SERIAL, body)


def test_likely_parts() -> None:
    parts = list(likely_parts(all_(i < 1, likely(all_(i < 2, j < 3)))))
    assert parts == [(i < 1, False), (i < 2, True), (j < 3, True)]


@pytest.mark.parametrize("condition", [i < 5, i <= 5, j > i, j + 2 >= i, i * 2 - j > 3, 3 - i >= j])
def test_a_part_is_the_comparison(condition: Expr) -> None:
    part = as_part(condition)
    assert part is not None
    for a, b in itertools.product(range(-2, 9), range(4)):
        bounds = part.bounds({i: (a, a), j: (b, b)})
        assert bounds is not None
        low, high = bounds
        truth = value_of(substitute(condition, {i: IntImm(a), j: IntImm(b)}))
        assert low == high
        assert (low <= 0) == bool(truth)


@pytest.mark.parametrize("condition", [eq(i, 3), A[i] < A[0], i < N[0]])
def test_not_a_part(condition: Expr) -> None:
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
def test_constant_interval(condition: Expr, expected: tuple[int, int]) -> None:
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


@pytest.mark.parametrize("source", [eq(i * 2, j + 3), ne(i, j), i - j < 3, i >= j * 2])
def test_the_truth_of_a_condition(source: Expr) -> None:
    """Where the condition is the same for all values, and only there, its truth is known."""
    condition = as_condition(source)
    assert condition is not None
    spans = [(0, 0), (1, 1), (2, 5), (5, 6), (0, 9)]
    for a, b in itertools.product(spans, spans):
        found = {
            bool(getattr(substitute(source, {i: IntImm(v), j: IntImm(w)}), "value", None))
            for v in range(a[0], a[1] + 1)
            for w in range(b[0], b[1] + 1)
        }
        truth = condition.truth({i: a, j: b})
        assert truth is None or found == {truth}
        if a[0] == a[1] and b[0] == b[1]:
            assert truth is not None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (i < 5, (0, 5)),
        (eq(i, 5), (5, 6)),
        (ne(i, 5), (5, 6)),
        (eq(i * 2, 5), None),
        (i * 4 + j < 10, (0, 2)),
        (i * 4 + j < 3, (0, 1)),  # holds nowhere throughout, and fails from 1 on
        (eq(i * 4 + j, 6), (1, 2)),
        (i < 9, None),
        (i < n, None),
    ],
)
def test_where_a_condition_changes(condition: Expr, expected: tuple[int, int] | None) -> None:
    assert loop_conditions(i, guarded(condition)).deciding_interval(0, 8) == expected


def test_conditions_of_values_and_without_likely() -> None:
    value = select(likely(i < 3), if_then_else(i < 5, A[i], A[0]), A[1])
    body = IfThenElse(i < 7, BufferStore(A, value, (i,)))
    sources = [
        [repr(c.source) for c in loop_conditions(i, body, in_values=a, every=b).conditions]
        for a, b in ((False, False), (True, False), (False, True), (True, True))
    ]
    assert sources == [[], ["i < 3"], ["i < 7"], ["i < 7", "i < 3", "i < 5"]]
