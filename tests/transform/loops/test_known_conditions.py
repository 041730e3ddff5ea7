"""What is left to ask of conditions, by what is assumed and by the values of variables."""

from __future__ import annotations

from autosched.tir.expr import Var
from autosched.tir.op import add, and_, likely, lt
from autosched.tir.parser import parse_func
from autosched.transform.loops.known_conditions import KnownConditions
from autosched.transform.loops.loop_interval import as_condition

I, N = Var("i"), Var("n")
SMALL, SHORT = lt(I, 8), lt(add(I, 1), N)


def test_what_is_decided_is_not_asked() -> None:
    known = KnownConditions(in_values=False)
    both = likely(and_(SMALL, SHORT))
    assert known.left_of(both) is both
    known.env[I] = (0, 7)
    assert known.left_of(both) is likely(SHORT)
    short = as_condition(SHORT)
    assert short is not None
    with known.assuming([short]):
        assert known.left_of(both) is True
    with known.assuming([], [short]):
        assert known.left_of(both) is False
    assert known.left_of(both) is likely(SHORT)
    assert known.left_of(SMALL) is SMALL, "only a likely() may be dropped"
    known.every = True
    assert known.left_of(SMALL) is True


def test_loops_are_asked_for_by_conditions_alone() -> None:
    body = parse_func("""
def main(A: Buffer((64,), float32), n: int32):
    for i in range(8):
        for j in range(8):
            if i < n:
                A[i * 8 + j] = if_then_else(j < n, 1.0, 0.0)
""").body
    names = [
        {var.name for var in KnownConditions(in_values).asked_in(body)}
        for in_values in (False, True)
    ]
    assert names == [{"i", "n"}, {"i", "j", "n"}]
