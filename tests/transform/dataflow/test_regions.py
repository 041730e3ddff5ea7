from __future__ import annotations

import itertools

import numpy as np
import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, IntImm, Ramp, Var
from autosched.tir.stmt import nop
from autosched.tir.walk import substitute
from autosched.transform.dataflow.regions import Prover, Region, over_loop, region_of
from kit.stmts import loop

A = decl_buffer((64,), "float32", "A")
M = decl_buffer((8, 8), "float32", "M")
i, j, n = Var("i"), Var("j"), Var("n")


def known(region: Region | None) -> Region:
    assert region is not None
    return region


def elements(region: Region, **values: int) -> set[tuple[int, ...]]:
    """The indices in a region, given the values of variables by name."""
    table = {v: IntImm(values[v.name]) for v in (i, j, n) if v.name in values}
    assert region.bounds is not None
    ranges = []
    for pair in region.bounds:
        low, high = (substitute(e, table) for e in pair)
        assert isinstance(low, IntImm) and isinstance(high, IntImm)
        ranges.append(range(low.value, high.value))
    return set(itertools.product(*ranges))


def test_accesses_without_a_region() -> None:
    assert region_of(A, (Ramp(i, IntImm(2), 4),)) is None
    assert region_of(A, (decl_buffer((4,), "int32")[i],)) is None


@pytest.mark.parametrize(
    "index",
    [i, i + 3, i * 2, i * -1 + 20, Ramp(i * 4, IntImm(1), 4), Ramp(i, IntImm(1), 4), i // 2],
)
@pytest.mark.parametrize("low", [0, 2])
@pytest.mark.parametrize("extent", [0, 1, 5, n])
def test_a_loop_reaches_the_union_of_its_iterations(
    index: Expr, low: int, extent: int | Expr
) -> None:
    """Where a box is given, it is that; for symbolic lengths, too, also for none at all."""
    region = known(region_of(A, (index,)))
    whole = over_loop(region, i, IntImm(low), IntImm(extent) if isinstance(extent, int) else extent)
    if whole is None:
        return
    for length in (0, 1, 2, 5) if extent is n else (extent,):
        assert isinstance(length, int)
        reached = [elements(region, i=v, n=length) for v in range(low, low + length)]
        assert elements(whole, n=length) == set().union(*reached)


def test_no_box_over_two_dimensions_or_gaps() -> None:
    assert over_loop(known(region_of(M, (i, i))), i, IntImm(0), IntImm(4)) is None
    assert over_loop(known(region_of(A, (i * 2,))), i, IntImm(0), IntImm(4)) is None
    row = over_loop(known(region_of(M, (i, j))), j, IntImm(0), IntImm(8))
    assert row is not None and elements(row, i=3) == {(3, c) for c in range(8)}


def test_what_is_proven_of_two_regions_is_so() -> None:
    rng = np.random.default_rng(0)
    proven = 0
    indices: list[Expr] = [i, i + 1, i * 2, j + 4, Ramp(i * 4, IntImm(1), 4), IntImm(3), i + j]
    for _ in range(300):
        first, second = (known(region_of(A, (indices[k],))) for k in rng.integers(0, 7, 2))
        prover = Prover()
        with prover.inside(loop(i, 3, nop())), prover.inside(loop(j, 2, nop())):
            inside, apart = prover.contains(first, second), prover.disjoint(first, second)
        for a, b in itertools.product(range(3), range(2)):
            one, other = elements(first, i=a, j=b), elements(second, i=a, j=b)
            assert not inside or other <= one
            assert not apart or one.isdisjoint(other)
        proven += inside + apart
    assert proven > 50
