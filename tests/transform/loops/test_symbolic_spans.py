from __future__ import annotations

import itertools

import pytest

from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.op import add, eq, ge, lt, mul
from autosched.tir.walk import substitute
from autosched.transform.loops.loop_interval import Condition, as_condition
from autosched.transform.loops.symbolic_spans import symbolic_spans

i, j = Var("i"), Var("j")
n, m, low, high = Var("n"), Var("m"), Var("low"), Var("high")
SETS: list[list[Expr]] = [
    [lt(i, n)],
    [ge(i, n)],
    [eq(i, n)],
    [eq(mul(i, 2), n)],
    [lt(i, n), lt(i, m)],
    [lt(i, n), ge(i, m)],
    [lt(mul(i, 3), n), lt(i, m), lt(i, add(n, 2))],
    [lt(add(mul(i, 3), j), n)],
    [lt(add(mul(i, 3), j), n), lt(i, m)],
    [ge(add(i, j), n), ge(i, m), lt(i, 4)],
]


def value(e: Expr, table: dict[Var, int]) -> int:
    found = substitute(e, {var: IntImm(v) for var, v in table.items()})
    assert isinstance(found, IntImm)
    return found.value


def relaxed(source: Expr) -> Condition:
    """The condition for all j in [0, 2]."""
    found = as_condition(source)
    assert found is not None
    return Condition(found.source, tuple(p.relaxed({j: (0, 2)}) for p in found.parts))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("sources", SETS, ids=str)
def test_spans_cover_the_range_and_say_what_holds(sources: list[Expr], nested: bool) -> None:
    spans = symbolic_spans(i, low, high, [relaxed(s) for s in sources], nested=nested)
    assert len(spans) <= (2 * len(sources) + 1 if nested else 3)
    for a, b, first, last in itertools.product((-1, 0, 2, 5), (0, 3, 4), (0, 2), (1, 2, 5)):
        table = {n: a, m: b, low: first, high: last}
        seen: list[int] = []
        for span in spans:
            values = range(value(span.low, table), value(span.high, table))
            seen += values
            for v in values:
                truths = {
                    s: [bool(value(s, {**table, i: v, j: w})) for w in range(3)] for s in sources
                }
                assert all(all(truths[c.source]) for c in span.holds)
                assert not any(any(truths[c.source]) for c in span.fails)
                assert not any(all(truths[c.source]) for c in span.not_throughout)
        assert seen == list(range(first, last))
