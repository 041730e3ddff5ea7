"""How often the branches of conditions run."""

from collections.abc import Iterator

import pytest

from autosched.features.autosched_1.branches import share_of_branches
from autosched.features.walk.scope import BufferInfo
from autosched.features.walk.visitor import Nest
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, FloatImm, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import and_, floormod, le
from autosched.tir.stmt import BufferStore, For, ForKind, IfThenElse, Stmt, seq

A = decl_buffer((64,), name="A")
I, J = Var("i"), Var("j")


class Shares:
    """Notes the share of each store."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def store(self, stmt: BufferStore, nest: Nest) -> None:
        self.found.append(share_of_branches(nest))

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        """Nothing is allocated."""


def stores() -> Iterator[Stmt]:
    while True:
        yield BufferStore(A, FloatImm(0.0), (I,))


def shares(body: Stmt) -> list[float]:
    for var, extent in ((J, 4), (I, 28)):
        body = For(var, IntImm(0), IntImm(extent), ForKind.SERIAL, body)
    found = Shares()
    handle = Var("A_handle", "handle")
    Nest(PrimFunc((handle,), body, {handle: A}), found)
    return found.found


def test_each_branch_counts_by_the_iterations_in_which_it_runs() -> None:
    one, two, three, four = (store for store, _ in zip(stores(), range(4), strict=False))
    inside = and_(le(IntImm(1), I), le(I, IntImm(26)))
    corner = IfThenElse(le(IntImm(1), J), two, three)
    assert shares(seq(IfThenElse(inside, one, corner), four)) == [
        26 / 28,
        2 * 3 / (28 * 4),
        2 * 1 / (28 * 4),
        1.0,
    ]


def test_parts_of_a_fused_loop() -> None:
    one, two = (store for store, _ in zip(stores(), range(2), strict=False))
    condition = le(floormod(I, IntImm(7)), IntImm(0))
    assert shares(IfThenElse(condition, one, two)) == [4 / 28, 24 / 28]


@pytest.mark.parametrize("condition", [le(Var("n"), IntImm(3)), le(A[I], FloatImm(0.0))])
def test_what_is_no_loop_is_not_counted(condition: Expr) -> None:
    one, two = (store for store, _ in zip(stores(), range(2), strict=False))
    assert shares(IfThenElse(condition, one, two)) == [1.0, 1.0]


def test_a_condition_without_another_branch_does_not_count() -> None:
    assert shares(IfThenElse(le(I, IntImm(3)), next(stores()))) == [1.0]
