"""Covers and unions of index sets."""

from autosched import te
from autosched.arith import IntSet
from autosched.te.bounds.region import Regions, record_reads
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Expr, IntImm, Range, Var
from kit.tir import value_of

DEFAULT = Range(IntImm(0), IntImm(100))


def interval(low: Expr | int, high: Expr | int) -> IntSet:
    return IntSet.interval(*(IntImm(e) if isinstance(e, int) else e for e in (low, high)))


def test_cover() -> None:
    x = Var("x")
    regions = Regions()
    assert repr(regions.cover(interval(2, 5), DEFAULT)) == "[2, 2 + 4)"
    assert repr(regions.cover(interval(x * 4, x * 4 + 3), DEFAULT)) == "[x * 4, x * 4 + 4)"
    assert regions.cover(IntSet.everything(), DEFAULT) is DEFAULT


def test_union() -> None:
    x = Var("x")
    regions = Regions()
    assert repr(regions.union([interval(2, 5), interval(0, 3)], DEFAULT)) == "[0, 0 + 6)"
    shifted = [interval(x + d, x + d) for d in (0, 1, 2)]
    assert repr(regions.union(shifted, DEFAULT)) == "[x, x + 3)"
    assert regions.union([], DEFAULT) is DEFAULT
    assert regions.union([interval(2, 5), IntSet.everything()], DEFAULT) is DEFAULT


def test_reads_are_recorded_per_dimension() -> None:
    A = te.placeholder((10, 20), name="A")
    B = te.compute((10, 5), lambda i, j: A[i, j * 2] + A[i, j * 2 + 1], name="B")
    i, j = B.op.axis
    known = {iv: (iv.dom, IntSet.from_range(iv.dom)) for iv in (i, j)}
    needed: dict[Tensor, list[list[IntSet]]] = {A: [[], []]}
    record_reads(B.op, known, needed)
    ends = [[(value_of(s.min_value), value_of(s.max_value)) for s in dim] for dim in needed[A]]
    assert ends == [[(0, 9), (0, 9)], [(0, 8), (1, 9)]]
