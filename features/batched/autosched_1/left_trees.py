"""What is left of a tree of loops that are cut, and what becomes of the conditions in it.

HoistIfThenElse on numbers: a condition that is all of a loop's body and does not ask for it leaves
it, and then the program is simplified:

    for i in 4:                      for i in 4:
      for j in 8:          ->          if i * 3 + k < 10:
        if i * 3 + k < 10:               for j in 8:
          store 0                          store 0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

Place = tuple[int, int]
"""A loop: its stage, and its position there."""
Path = tuple[tuple[Place, int], ...]
"""Of which piece of each loop that is cut."""


class Variable(NamedTuple):
    """That of the loop at a place; a start of a reduction has loops of its own."""

    place: Place
    of_start: bool


@dataclass(eq=False, slots=True)
class Instance:
    """A copy of a store: the extents of the loops around it, the pieces it is in, and what is
    added to the variables of loops. A loop that a piece has no more has no extent. `asked`: it was
    in conditions; `number` is its place in the program, `guards` how many loops are around each
    condition that it is still in, `storage` the extents of the loops around the last storage of
    its buffer, where nothing is stored to that; the others are its `Surroundings`."""

    store: int
    extents: dict[Place, int]
    path: Path
    added: dict[Place, int]
    asked: bool
    number: int
    floor: int = 0
    level: int = 0
    outer: int = 0
    count: int = 1
    beside: int = -1
    guards: tuple[int, ...] = ()
    storage: dict[Place, int] | None = None


@dataclass(eq=False, slots=True)
class Out:
    """A loop, or something else that encloses, in the tree after cutting: a condition has the
    variables that it asks for, and whether it `holds` where that is decided."""

    loop: Variable | None
    body: list[Left]
    asks: frozenset[Variable] | None = None
    holds: bool | None = None


Left = Out | Instance


def hoist(nodes: list[Left]) -> bool:
    """Move conditions out of loops, in place, and tell whether one moved."""
    moved = False
    for k, node in enumerate(nodes):
        if isinstance(node, Out):
            moved = hoist(node.body) or moved
            if node.loop is not None:
                nodes[k] = _lifted(node, node.loop)
                moved = moved or nodes[k] is not node
    return moved


def _lifted(loop: Out, var: Variable) -> Out:
    """The loop inside the conditions that are all of its body and do not ask for it."""
    free: list[Out] = []
    holder = loop
    while len(holder.body) == 1:
        (child,) = holder.body
        if isinstance(child, Instance) or child.loop is not None:
            break
        if child.asks is not None and var not in child.asks:
            free.append(child)
            holder.body = child.body
        else:
            holder = child
    found = loop
    for condition in reversed(free):
        condition.body = [found]
        found = condition
    return found


def has_decided(nodes: Sequence[Left]) -> bool:
    """Whether simplification takes out a condition."""
    return any(
        isinstance(node, Out) and (node.holds is not None or has_decided(node.body))
        for node in nodes
    )


def simplify(nodes: Sequence[Left]) -> list[Left]:
    """Without the conditions that are decided; a tree of its own."""
    found: list[Left] = []
    for node in nodes:
        if isinstance(node, Instance):
            found.append(replace(node))
        elif node.holds is not False:
            body = simplify(node.body)
            if node.holds:
                found += body
            elif body:
                found.append(Out(node.loop, body, node.asks))
    return found


def copies_in(nodes: Sequence[Left]) -> tuple[Instance, ...]:
    """The copies of stores in program order, with what stands beside each (`walk/visitor.py`):
    level, outer, count, and which; and the conditions around."""
    _note(nodes, 0, 0, None, (), [])
    return tuple(_instances_in(nodes))


def _instances_in(nodes: Sequence[Left]) -> Iterator[Instance]:
    for node in nodes:
        if isinstance(node, Instance):
            yield node
        else:
            yield from _instances_in(node.body)


def _note(
    nodes: Sequence[Left],
    depth: int,
    floor: int,
    beside: tuple[int, int, int, int] | None,
    guards: tuple[int, ...],
    made: list[None],
) -> None:
    if len(nodes) > 1:
        made.append(None)
        beside, floor = (depth, floor, len(nodes), len(made)), depth
    for node in nodes:
        if isinstance(node, Instance):
            node.floor, node.guards = floor, guards
            if beside is not None:
                node.level, node.outer, node.count, node.beside = beside
        elif node.loop is not None:
            _note(node.body, depth + 1, floor, beside, guards, made)
        else:
            own = guards if node.asks is None else (*guards, depth)
            _note(node.body, depth, depth, None, own, made)
