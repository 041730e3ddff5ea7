"""Trees of numbers are cut as LoopPartition cuts loops."""

from autosched.features.batched.autosched_1.cut_trees import (
    FREE,
    Condition,
    Cut,
    Leaf,
    Loop,
    _Span,
    cut,
    implies,
)
from autosched.features.batched.autosched_1.left_trees import Variable
from autosched.state.iterator import Annotation

_OUTER, _INNER, _OTHER = (Variable((0, k), False) for k in range(3))


def _below(limit: int, *terms: tuple[Variable, int]) -> Condition:
    return Condition(terms, 1 - limit)


def _tree(limit: int, kind: int = Annotation.NONE) -> tuple[Loop]:
    """for i in 3: for j in 171: for k: if i * 171 + j < limit: store 0"""
    leaf = Leaf(0, (_below(limit, (_OUTER, 171), (_INNER, 1)),))
    inner = Loop(_INNER, 171, Annotation.NONE, (Loop(_OTHER, FREE, Annotation.NONE, (leaf,)),))
    return (Loop(_OUTER, 3, kind, (inner,)),)


def _cut(tree: tuple[Loop, ...]) -> Cut:
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
    assert found.instances == () and found.gone == {0: ((), (((0, 0), 3),))}


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


def test_what_a_program_may_not_grow_by_keeps_its_conditions() -> None:
    tree = (*_tree(512), *[_two_pieces(n) for n in range(1, 66)])
    *_, last = _cut(tree).instances
    assert last.path == () and last.extents == {(65, 0): 4} and last.guards == (1,)


def _two_pieces(stage: int) -> Loop:
    """A loop that is cut in two."""
    var = Variable((stage, 0), False)
    return Loop(var, 4, 0, (Leaf(stage, (Condition(((var, 1),), -2),)),))


def test_a_condition_that_fails_is_seen_behind_one_that_stays() -> None:
    stays, fails = _below(2, (_OUTER, 1)), _below(-3, (_INNER, 1))
    inner = Loop(_INNER, 2, 0, (Leaf(0, (stays, fails)),))
    assert _cut((Loop(_OUTER, 4, Annotation.PARALLEL, (inner,)),)).instances == ()


def test_what_follows_from_another_is_not_asked() -> None:
    spans = {_OUTER: _Span(0, 5, False), _INNER: _Span(0, 2, False), _OTHER: _Span(0, 31, False)}
    rows = _below(500, (_OUTER, 96), (_INNER, 32), (_OTHER, 1))
    assert implies(rows, _below(16, (_OUTER, 3), (_INNER, 1)), spans)
    assert not implies(rows, _below(15, (_OUTER, 3), (_INNER, 1)), spans)
    assert not implies(_below(16, (_OUTER, 3), (_INNER, 1)), rows, spans)
    assert not implies(rows, Condition(((_OUTER, -3),), 3), spans)
