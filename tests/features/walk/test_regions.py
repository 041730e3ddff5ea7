"""Bounds of indices per loop level, and what a store leaves in the tables of its loops."""

from collections.abc import Sequence

import pytest

from autosched.arith.const_int_bound import POS_INF
from autosched.features.walk.regions import IndexBounds, first_extents, touch
from autosched.features.walk.scope import Access, BufferInfo, Loop
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, Var

i, j = Var("i"), Var("j")


def walked(var: Var, extent: int, first: int = 0) -> Loop:
    return Loop(var, extent, (first, first), (first, first + extent - 1), {})


def access(*indices: tuple[Expr], shape: tuple[int] = (64,), kind: str = "kRead") -> Access:
    buffer = decl_buffer([n or 1 for n in shape], name="A")
    return Access(buffer.data, BufferInfo(shape, 4, buffer), kind, list(indices), frozenset((i, j)))


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (i * 8 + j, [(0, 31), (0, 7)]),
        (j - i, [(-3, 7), (0, 7)]),
        (i * 8 + j + 5, [(5, 36), (5, 12)]),
        (j // 3, [(0, 2), (0, 2)]),
        ((i * 8 + j) % 16, [(0, 15), (0, 7)]),
        (i + j - i, [(-3, 10), (0, 7)]),  # every occurrence is independent
    ],
)
def test_outer_loops_stand_at_their_first_iteration(
    index: Expr, expected: Sequence[tuple[int, int]]
) -> None:
    bounds = IndexBounds([walked(i, 4), walked(j, 8)])
    assert bounds.levels(index) == expected


def test_a_loop_need_not_start_at_zero() -> None:
    assert IndexBounds([walked(i, 4, 2)]).levels(i * 3) == [(6, 15)]


def test_lets_take_part() -> None:
    inner = Var("t")
    loops = [walked(i, 4), walked(j, 8)]
    loops[1].lets.append((inner, i + j))
    assert IndexBounds(loops).levels(inner * 2) == [(0, 20), (0, 14)]


def test_tables_remember_every_store() -> None:
    loops = [walked(i, 4), walked(j, 8)]
    read = access((i * 8 + j,), (j,))
    memory, outermost = touch([read], loops)
    assert memory == [8 * 4, 32 * 4]
    assert outermost == [[32]]
    touch([access((j,))], loops)
    touch([read], loops)
    assert [size for size, _ in loops[0].table[read.data]] == [32, 32]
    assert [size for size, _ in loops[1].table[read.data]] == [8, 8]


def test_a_region_of_unknown_size_is_truncated_to_32_bits() -> None:
    data_dependent = Var("n")
    memory, outermost = touch([access((data_dependent,))], [walked(i, 4)])
    assert (memory, outermost) == ([0], [[0]])


def test_extents_that_vary_are_those_of_the_first_iteration_around() -> None:
    # for i in range(4): for j in range(i % 2 * 8 + 2)
    outer, inner = walked(i, 4), walked(j, 10)
    inner.size = i % 2 * 8 + 2
    nest = [outer, inner]
    assert IndexBounds(nest).levels(j) == [(0, 9), (0, 1)]
    assert IndexBounds(nest).levels(i * 16 + j) == [(0, 57), (0, 1)]
    assert first_extents(nest) == [4, 2]
    assert touch([access((j,))], nest)[0] == [8, 40]


def test_extents_without_a_bound_count_once() -> None:
    inner = walked(j, 1)
    inner.size = Var("n", "int64")
    inner.span = (0, POS_INF - 1)
    assert first_extents([walked(i, 4), inner]) == [4, 1]
