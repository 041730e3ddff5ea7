"""Where simplification stops as Ansor's does: what is left of an index decides features."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched.arith import Analyzer
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import BufferLoad, Expr, Range, Var
from autosched.tir.op import add, cast, const, eq, floormod, ge, lt, max_, min_, mul, select, sub

O, T, V, Q = Var("o"), Var("t"), Var("v"), Var("q")


def both(
    e: Expr, o: int, t: int, v: int = 1, given: Expr | None = None, q: int = 1
) -> tuple[str, str]:
    """`e` as Ansor simplifies it, and as far as it goes; o, t, v and q have those extents."""
    found = []
    for as_ansor in (True, False):
        analyzer = Analyzer(as_ansor)
        for var, extent in ((O, o), (T, t), (V, v), (Q, q)):
            analyzer.bind(var, Range.of(extent))
        if given is None:
            found.append(repr(analyzer.simplify(e)))
        else:
            with analyzer.constraint(given):
                found.append(repr(analyzer.simplify(e)))
    return found[0], found[1]


@pytest.mark.parametrize(
    ("factor", "divisors", "ansor", "simplest"),
    [
        # the first division already drops t
        (2, (14, 14, 24), "o % 2352 // 98", "o % 2352 // 98"),
        (32, (128, 8), "o % 32 // 4", "o % 32 // 4"),
        # only the product of the first two does: depthwise convolution and pooling
        (4, (14, 14, 24), "(o * 4 + t) % 4704 // 196", "o % 1176 // 49"),
        (40, (64, 15, 3), "(o * 40 + t) % 2880 // 960", "o % 72 // 24"),
    ],
)
def test_quotients_of_sums_are_merged_last(
    factor: int, divisors: tuple[int, ...], ansor: str, simplest: str
) -> None:
    *quotients, modulus = divisors
    index = T + O * factor
    total = modulus
    for divisor in quotients:
        index = index // divisor
        total *= divisor
    assert both(index % modulus, total * 2 // factor, factor) == (ansor, simplest)


def test_the_outermost_quotient_is_as_simple() -> None:
    index = (T + O * 4) // 14 // 14 // 24
    assert both(index, 2352, 4) == ("o // 1176", "o // 1176")


def test_only_less_is_divided_by_a_common_factor() -> None:
    lanes = O * 300 + T * 6 + V
    assert both(lt(lanes, 2496), 9, 50, 6) == ("o * 50 + t < 416",) * 2
    ansor, simplest = both(ge(lanes // 24, 2), 9, 50, 6)
    assert ansor == "48 <= o * 300 + t * 6 + v"
    assert simplest == "8 <= o * 50 + t"


def test_a_condition_about_a_sum_bounds_its_multiples_only_beyond_ansor() -> None:
    lanes, inside = O * 300 + T * 6 + V, lt(O * 50 + T, 416)
    assert both(lanes % 2496, 9, 50, 6, given=inside) == (
        "(o * 300 + t * 6 + v) % 2496",
        "o * 300 + t * 6 + v",
    )
    # of a sum that contains it both know the bound
    assert both(lt(V * 128 + O * 50 + T, 672), 9, 50, 3, given=inside) == ("True",) * 2


def test_results_of_the_two_kinds_do_not_mix() -> None:
    index = ((T + O * 4) // 14 // 14) % 24
    first = both(index, 2352, 4)
    assert both(index, 2352, 4) == first
    assert first[0] != first[1]


def test_a_condition_around_bounds_the_quotient_in_another() -> None:
    fetched = (O * 800 + T * 8 + V) // 14
    within = lt(O * 100 + T, 112)
    for var_first in (fetched + Q * 64, Q * 64 + fetched):
        assert both(lt(var_first, 256), 2, 100, 8, within, q=4) == ("True", "True")
    for limit, given in ((255, within), (256, lt(O * 100 + T, 113))):
        found = both(lt(Q * 64 + fetched, limit), 2, 100, 8, given, q=4)
        assert "True" not in found and "False" not in found


@pytest.mark.parametrize(
    ("operation", "ansor"),
    [
        (add, "Select(v < 3, o + t, 5)"),
        (sub, "Select(v < 3, o - t, -1)"),
        (max_, "Select(v < 3, max(o, t), 3)"),
        (mul, "Select(v < 3, o, 2) * Select(v < 3, t, 3)"),
    ],
)
def test_operations_of_two_choices(operation: Callable[[Expr, Expr], Expr], ansor: str) -> None:
    condition = lt(V, 3)
    e = operation(select(condition, O, 2), select(condition, T, 3))
    found, simplest = both(e, 2000, 3000, 5)
    assert found == ansor
    assert simplest == ("Select(v < 3, o * t, 6)" if operation is mul else ansor)


def small(value: int) -> Expr:
    return const(value, "int8")


BYTE = BufferLoad(decl_buffer((4,), "int8", "A"), (O,))
MASK = cast("int8", BufferLoad(decl_buffer((4,), "bool", "M"), (O,)))


@pytest.mark.parametrize(
    ("e", "ansor", "simplest"),
    [
        (max_(MASK, small(0)), "max(int8(M[o]), int8(0))", "int8(M[o])"),
        (floormod(MASK, small(3)), "int8(M[o]) % int8(3)", "int8(M[o])"),
        (lt(MASK, small(0)), "int8(M[o]) < int8(0)", "False"),
        (eq(MASK, small(2)), "int8(M[o]) == int8(2)", "False"),
        (ge(MASK, small(0)), "int8(0) <= int8(M[o])", "True"),
        (sub(BYTE, BYTE), "A[o] - A[o]", "int8(0)"),
        (sub(add(BYTE, small(1)), small(1)), "A[o] + int8(1) - int8(1)", "A[o]"),
        (
            max_(max_(BYTE, small(1)), small(3)),
            "max(max(A[o], int8(1)), int8(3))",
            "max(A[o], int8(3))",
        ),
        (min_(BYTE, small(127)), "min(A[o], int8(127))", "A[o]"),
        (cast("float32", mul(BYTE, small(1))), *["float32(A[o])"] * 2),
    ],
)
def test_no_rules_for_other_integers_than_indices(e: Expr, ansor: str, simplest: str) -> None:
    assert both(e, 4, 1) == (ansor, simplest)
