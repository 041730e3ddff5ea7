"""Whether threads meet in an element, against everything that they touch."""

from __future__ import annotations

from itertools import chain, product

import numpy as np
import pytest

from autosched.tir.expr import Expr, Var
from autosched.tir.op import const
from autosched.transform.device.thread_index import MOST, Place, Span, may_meet

THREAD, LOOP, INNER = (
    Span(Var(name), 0, extent) for name, extent in (("t", 4), ("i", 3), ("j", 2))
)
SPANS = (THREAD, LOOP, INNER)


def _touched(factors: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """(element, thread, iteration) of the index that is a sum of the variables by factors."""
    *of_spans, constant = factors
    every = product(*(range(span.extent) for span in SPANS))
    return [
        (sum(f * v for f, v in zip(of_spans, values, strict=True)) + constant, values[0], values[1])
        for values in every
    ]


def _index(factors: tuple[int, ...]) -> Expr:
    *of_spans, constant = factors
    index = const(constant)
    for factor, span in zip(of_spans, SPANS, strict=True):
        index = index + factor * span.var
    return index


@pytest.mark.parametrize("far", [1, 16 * MOST], ids=["near", "far apart"])
@pytest.mark.parametrize("repeated", [False, True], ids=["once", "in a loop"])
def test_as_all_that_touch_an_element_say(repeated: bool, far: int) -> None:
    """Elements far apart are numbered before they are looked up."""
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(150):
        drawn = [tuple(far * int(f) for f in rng.integers(-4, 13, 4)) for _ in range(2)]
        first, second = drawn[0], drawn[rng.integers(2)]
        touched = _touched(first), _touched(second)
        expected = False
        for element in {e for e, _, _ in touched[0]} & {e for e, _, _ in touched[1]}:
            every = [each for each in chain(*touched) if each[0] == element]
            threads, iterations = ({each[k] for each in every} for k in (1, 2))
            expected |= len(threads) > 1 and (len(iterations) > 1 or not repeated)
        more = () if repeated else (LOOP,)
        a, b = (Place(_index(factors), (INNER, *more)) for factors in (first, second))
        found = may_meet(a, b, [THREAD], LOOP if repeated else None)
        assert found == expected, (first, second)
        seen.add(found)
    assert seen == {False, True}


def test_loops_around_both_are_in_one_iteration() -> None:
    """Remainders by what an outer loop gives are decided for each of its iterations."""
    rng = np.random.default_rng(1)
    around = Span(Var("a"), 2, 3)
    seen = set()
    for _ in range(60):
        drawn = [[int(f) for f in rng.integers(0, 5, 4)] for _ in range(2)]

        def at(f: list[int], t: int, j: int, a: int) -> int:
            return (f[0] * t + f[1] * j) // a * 7 + (f[2] * t + f[3] * j) % a

        def index(f: list[int]) -> Expr:
            t, j, a = THREAD.var, INNER.var, around.var
            divided = (f[0] * t + f[1] * j) // a
            return divided * 7 + (f[2] * t + f[3] * j) % a

        expected = any(
            at(drawn[0], t, j, a) == at(drawn[1], other, k, a)
            for a in range(2, 5)
            for t, j, other, k in product(range(4), range(2), range(4), range(2))
            if t != other
        )
        first, second = (Place(index(f), (INNER,)) for f in drawn)
        assert may_meet(first, second, [THREAD], None, {around.var: around}) == expected, drawn
        seen.add(expected)
    assert seen == {False, True}
