"""Conditions leave loops as HoistIfThenElse moves them."""

from __future__ import annotations

from autosched.features.batched.autosched_1.cut_trees import (
    FREE,
    Alone,
    Condition,
    Cut,
    Leaf,
    Loop,
    cut,
)
from autosched.features.batched.autosched_1.left_trees import (
    Instance,
    Left,
    Out,
    Variable,
    copies_in,
    has_decided,
    hoist,
    simplify,
)

_OUTER, _INNER, _OTHER = (Variable((0, k), False) for k in range(3))


def _store(number: int) -> Instance:
    return Instance(number, {}, (), {}, False, number)


def _asking(body: list[Left], *variables: Variable) -> Out:
    return Out(None, body, frozenset(variables))


def _below(limit: int, *terms: tuple[Variable, int]) -> Condition:
    return Condition(terms, 1 - limit)


def _cut(tree: tuple[Loop, ...]) -> Cut:
    found = cut(tree)
    assert isinstance(found, Cut)
    return found


def _guards(nodes: list[Left]) -> list[tuple[int, ...]]:
    return [item.guards for item in copies_in(nodes)]


def test_a_condition_leaves_the_loops_that_it_does_not_ask_for() -> None:
    asked = _asking([_asking([_store(0)], _INNER)], _OUTER)
    nodes: list[Left] = [Out(_OUTER, [Out(_INNER, [Out(_OTHER, [asked])])])]
    assert hoist(nodes)
    assert _guards(nodes) == [(1, 2)]
    assert not hoist(nodes)


def test_a_condition_stays_beside_others() -> None:
    nodes: list[Left] = [Out(_OUTER, [Out(_INNER, [_asking([_store(0)], _OUTER), _store(1)])])]
    assert not hoist(nodes)
    assert _guards(nodes) == [(2,), ()]


def test_what_is_decided_is_gone() -> None:
    never, always = (Out(None, [_store(k)], frozenset(), bool(k)) for k in range(2))
    nodes: list[Left] = [Out(_OUTER, [never, always, _store(2)]), Out(_INNER, [never])]
    assert has_decided(nodes)
    (left,) = simplify(nodes)
    assert isinstance(left, Out) and left.loop == _OUTER
    assert [(item.store, item.count) for item in copies_in([left])] == [(1, 2), (2, 2)]
    assert not has_decided([left])


def test_what_encloses_has_surroundings_of_its_own() -> None:
    body = (Alone((Leaf(0, ()),)), Leaf(1, ()))
    start, step = _cut((Loop(_OUTER, FREE, 0, body),)).instances
    assert (start.floor, start.beside) == (1, -1)
    assert (step.level, step.count, step.beside) == (1, 2, 1)


def test_a_guard_that_is_left_alone_leaves_its_loop() -> None:
    never = Leaf(1, (_below(0, (_INNER, 1)),))
    guard = Alone((Leaf(0, ()),), guard=(_OUTER,))

    def around(*body: Alone | Leaf) -> Cut:
        return _cut((Loop(_OUTER, FREE, 0, (Loop(_INNER, 3, 0, body),)),))

    left = around(guard, never)
    assert left.simplified and left.instances[0].guards == (1,)
    assert not around(guard, Leaf(1, ())).simplified
    assert not around(Alone((Leaf(0, ()),)), never).simplified


def test_something_else_may_clear_a_tree() -> None:
    step = Leaf(1, (_below(4, (_OUTER, 3), (_INNER, 1)),))
    guard = Alone((Leaf(0, ()),), guard=(_OUTER,))
    tree = (Loop(_OUTER, 2, 0, (guard, Loop(_INNER, 3, 0, (step,)))),)
    assert _cut(tree).cleared is None
    found = cut(tree, may_simplify=True)
    assert isinstance(found, Cut) and found.cleared is not None
    assert [item.store for item in found.instances] == [0, 1, 0, 1]
    assert [item.store for item in found.cleared] == [0, 1, 1]
    assert [item.guards for item in found.cleared] == [(), (), ()]
    assert [item.guards for item in found.instances] == [(0,), (), (0,), ()]
