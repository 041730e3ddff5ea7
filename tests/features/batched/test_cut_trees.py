"""Trees of numbers are cut as LoopPartition cuts loops."""

from autosched.features.batched.autosched_1.cut_trees import (
    FREE,
    Alone,
    Condition,
    Cut,
    Leaf,
    Loop,
    Variable,
    cut,
)
from autosched.state.iterator import Annotation

_OUTER, _INNER, _OTHER = (Variable((0, k), False) for k in range(3))


def _below(limit: int, *terms: tuple[Variable, int]) -> Condition:
    return Condition(terms, 1 - limit)


def _tree(limit: int, kind: int = Annotation.NONE) -> tuple[Loop]:
    """for i in 3: for j in 171: for k: if i * 171 + j < limit: store 0"""
    leaf = Leaf(0, (_below(limit, (_OUTER, 171), (_INNER, 1)),))
    inner = Loop(_INNER, 171, Annotation.NONE, (Loop(_OTHER, FREE, Annotation.NONE, (leaf,)),))
    return (Loop(_OUTER, 3, kind, (inner,)),)


def _cut(tree: tuple[Loop]) -> Cut:
    found = cut(tree)
    assert isinstance(found, Cut)
    return found


def test_the_last_iteration_is_a_piece_of_its_own() -> None:
    first, last = _cut(_tree(512)).instances
    assert first.extents == {(0, 0): 2, (0, 1): 171, (0, 2): FREE}
    assert last.extents == {(0, 1): 170, (0, 2): FREE}
    assert first.added == {} and last.added == {(0, 0): 2}
    assert first.path == (((0, 0), 0),)
    assert last.path == (((0, 0), 1), ((0, 1), 0))
    assert first.count == last.count == 2 and first.beside == last.beside


def test_a_condition_that_always_holds_cuts_nothing() -> None:
    (only,) = _cut(_tree(513)).instances
    assert only.path == () and only.asked and only.beside == -1


def test_a_store_that_is_never_reached_is_gone() -> None:
    found = _cut((Loop(_OUTER, 3, 0, (Leaf(0, (_below(0, (_OUTER, 1)),)),)),))
    assert found.instances == () and found.gone == {0: ()}


def test_a_parallel_loop_is_not_cut() -> None:
    (only,) = _cut(_tree(512, Annotation.PARALLEL)).instances
    assert only.path == () and only.extents[0, 0] == 3


def test_a_limit_that_moves_with_an_outer_loop_has_no_rule() -> None:
    leaf = Leaf(0, (_below(4, (_OUTER, 1), (_INNER, 1)),))
    vector = Loop(_INNER, 3, Annotation.VECTORIZE, (leaf,))
    assert cut((Loop(_OUTER, 4, Annotation.PARALLEL, (vector,)),)) == "two versions of a loop"


def test_equal_trees_are_cut_once() -> None:
    assert cut(_tree(400)) is cut(_tree(400))


def test_what_a_program_may_grow_is_counted_down() -> None:
    assert _cut(_tree(512)).budget < _cut(_tree(513)).budget


def test_what_encloses_has_surroundings_of_its_own() -> None:
    body = (Alone((Leaf(0, ()),)), Leaf(1, ()))
    start, step = _cut((Loop(_OUTER, FREE, 0, body),)).instances
    assert (start.floor, start.beside) == (1, -1)
    assert (step.level, step.count, step.beside) == (1, 2, 1)


def test_a_guard_that_is_left_alone_leaves_its_loop() -> None:
    never = Leaf(1, (_below(0, (_OUTER, 1)),))
    guard = Alone((Leaf(0, ()),), guard=True)
    assert _cut((Loop(_OUTER, 3, 0, (guard, never)),)).simplified
    assert not _cut((Loop(_OUTER, 3, 0, (guard, Leaf(1, ()))),)).simplified
    assert not _cut((Loop(_OUTER, 3, 0, (Alone((Leaf(0, ()),)), never)),)).simplified
