"""What passes make of a copy with a border alone is what they make of it in its program."""

from __future__ import annotations

from autosched.features.autosched_1.rows import passes_followed
from autosched.features.batched.autosched_1.border_copy import PASSES, OwnLoop, copies_of
from autosched.te.operations.compute import placeholder
from autosched.tir.expr import ProducerLoad, Var
from autosched.tir.op import all_, const, if_then_else


def test_a_copy_is_cut_at_its_border() -> None:
    h, w, outside = Var("h"), Var("w"), Var("outside")
    source = placeholder((14, 8), name="X")
    row = outside * 4 + h
    inside = all_(row >= 1, row < 15, w >= 1)
    value = if_then_else(inside, ProducerLoad(source, (row - 1, w - 1)), const(0.0))
    found = copies_of(value, [OwnLoop(h, 6, 0), OwnLoop(w, 9, 0)], [(outside, 4)])
    # Where the rows are all inside, and where not: the first column, and the others.
    assert [(c.loads, c.guarded, c.extents) for c in found] == [
        (False, False, (6, 0)),
        (True, False, (6, 8)),
        (False, False, (6, 0)),
        (True, True, (6, 8)),
    ]
    assert [c.asked for c in found] == [(False, False)] * 3 + [(True, False)]
    assert [c.nodes[0] for c in found] == [0, 0, 2, 2]
    assert all(c.same for c in found)
    assert [(c.floor, c.guards) for c in found] == [(1, (0,)), (1, (0,))] * 2


def test_a_branch_knows_more_of_loops_around() -> None:
    h, w, tile = Var("h"), Var("w"), Var("tile")
    row, column = tile // 4 * 4 + h, tile % 4 * 4 + w
    load = ProducerLoad(placeholder((99, 99), name="X"), (row - 1, column - 1))
    value = if_then_else(all_(row >= 1, column >= 1), load, const(0.0))
    own = [OwnLoop(h, 6, 0), OwnLoop(w, 6, 0)]
    found = copies_of(value, own, [(tile, 16)])
    assert [c.same for c in found] == [True, True, False, False]


def test_the_passes_are_those_that_rows_come_after() -> None:
    assert list(PASSES) == list(passes_followed()[-len(PASSES) :])
