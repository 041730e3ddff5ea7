"""The loops of a padded copy as numbers: cut and hoisted as the passes do it."""

from __future__ import annotations

import pytest

from autosched.features.batched.autosched_1.border_trees import (
    Axis,
    Border,
    Branches,
    Digit,
    Limit,
    Nest,
    NoRuleError,
    Sequence,
    Store,
    tree_of,
)
from autosched.state.iterator import Annotation

_ROW, _COLUMN, _TILE = 1, 2, 3


def _border(
    rows: int, columns: int, scale: int, kinds: tuple[int, ...] = (0, 0, 0), limit: int = 57
) -> Border:
    """for c: for row: for column: P[c, tile * scale + row, column], with a border of one."""
    row = Axis((Digit(_ROW, 1, 0, 1), Digit(_TILE, 1, 0, scale)), 0, 1, limit)
    column = Axis((Digit(_COLUMN, 1, 0, 1),), 0, 1, limit)
    return Border((2, rows, columns, 14), kinds, (row, column), ((0, -1), (1, -1)), True, False)


def test_a_loop_is_cut_where_its_own_iterations_are_outside() -> None:
    column = Axis((Digit(0, 1, 0, 1),), 0, 1, 57)
    node, hoisted, _ = tree_of(Border((58,), (0,), (column,), ((0, -1),), True, False))
    assert isinstance(node, Sequence) and not hoisted
    first, inside, last = node.nodes
    assert isinstance(first, Store) and (first.left, first.pieces) == (None, ((0, 0),))
    assert isinstance(inside, Nest) and inside.extent == 56
    assert isinstance(inside.body, Store) and inside.body.left == ()
    assert isinstance(last, Store) and (last.left, last.pieces) == (None, ((57, 0),))


def test_a_condition_on_a_loop_around_leaves_the_loops() -> None:
    node, hoisted, _ = tree_of(_border(6, 20, 4))
    assert isinstance(node, Branches) and hoisted
    none = frozenset[int]()
    assert node.test == (Limit(0, False, 1, none), Limit(0, True, 51, none))
    for branch, left in ((node.then, ()), (node.other, ((0, False), (0, True)))):
        assert isinstance(branch, Nest) and branch.loop == 0
        assert isinstance(branch.body, Nest) and branch.body.loop == _ROW
        assert isinstance(branch.body.body, Sequence)
        _, inside = branch.body.body.nodes
        assert isinstance(inside, Nest) and isinstance(inside.body, Store)
        assert inside.body.left == left


def test_where_a_number_decides_nothing_else_is_asked() -> None:
    row = Axis((Digit(0, 1, 0, 1),), 0, 1, 57)
    column = Axis((Digit(1, 1, 0, 1),), 0, 1, 57)
    border = Border((58, 58), (0, 0), (row, column), ((0, -1), (1, -1)), True, False)
    node, _, grown = tree_of(border)
    assert isinstance(node, Sequence) and grown == 2
    first = node.nodes[0]
    assert isinstance(first, Nest) and (first.loop, first.extent) == (1, 58)


@pytest.mark.parametrize("kind", [Annotation.PARALLEL, Annotation.UNROLL])
def test_only_serial_loops_around_such_are_marked(kind: Annotation) -> None:
    node = tree_of(_border(6, 20, 4, (0, 0, kind))).root
    assert isinstance(node, Nest) and isinstance(node.body, Nest)
    assert isinstance(node.body.body, Nest) and isinstance(node.body.body.body, Store)
    assert len(node.body.body.body.left or ()) == 4


def test_a_loop_that_other_axes_have_digits_of_is_not_cut() -> None:
    column = Axis((Digit(0, 1, 0, 1),), 0, 1, 57)
    other = Axis((Digit(0, 4, 0, 1),), 0, None, None)
    with pytest.raises(NoRuleError):
        tree_of(Border((58,), (0,), (column, other), ((0, -1),), True, False))
