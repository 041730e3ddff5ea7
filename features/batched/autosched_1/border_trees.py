"""What HintBorders, LoopPartition and HoistIfThenElse make of a padded copy's loops, on numbers.

    for c: for h in 6: P[...] = if_then_else(1 <= tile * 4 + h, X[...], 0.0)

is two nests in the branches of `1 <= tile * 4`, and each of these has one store or more: its
*leaves*. A copy is made of numbers alone, as a tree of `cut_trees.py` is, and its loops are cut in
the same way; here conditions choose values, and those that loops around decide become branches.
What then becomes of the texts of leaves is told by `border_leaves.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from autosched.state.iterator import Annotation

SERIAL = (Annotation.NONE, Annotation.VECTORIZE)
MOST_GROWN = 32
"""Loops with conditions that are looked at: each counts against what a program may grow."""


class Digit(NamedTuple):
    """scale * (loop % upper // lower); `upper` 0: no remainder is taken."""

    loop: int
    lower: int
    upper: int
    scale: int

    @property
    def whole(self) -> bool:
        """Whether it is the loop's variable."""
        return self.lower == 1 and not self.upper


class Axis(NamedTuple):
    """base + the sum of the digits; where the load is inside the tensor: from `first` on, before
    `end` (None: wherever)."""

    digits: tuple[Digit, ...]
    base: int
    first: int | None
    end: int | None


class Border(NamedTuple):
    """A copy: the extents of its own loops, outermost first (1: there is none), then of those
    around it; the kinds of its own; its axes; and the indices of its load, each an axis and what is
    added to it. `placed`: these are all axes and indices, and places are asked for."""

    extents: tuple[int, ...]
    kinds: tuple[int, ...]
    axes: tuple[Axis, ...]
    loaded: tuple[tuple[int, int], ...]
    is_float: bool
    placed: bool


class Limit(NamedTuple):
    """That the loops around leave an axis at `limit` or above, or below if it is an `upper` one.
    `own`: loops of the copy that are asked for, too."""

    axis: int
    upper: bool
    limit: int
    own: frozenset[int]


Test = tuple[Limit, ...]
"""Limits that hold together."""
Asked = tuple[int, bool]
"""A condition of an axis: the upper one?"""
Piece = tuple[int, int]
"""What is added to the variable of a loop of the copy, and its extent, 0 where it is no loop."""


@dataclass(eq=False, slots=True)
class Store:
    """A store: the conditions that are left of its value, None where it is the constant."""

    left: tuple[Asked, ...] | None
    pieces: tuple[Piece, ...]


@dataclass(eq=False, slots=True)
class Nest:
    """A loop of the copy, by number."""

    loop: int
    extent: int
    body: Node


@dataclass(eq=False, slots=True)
class Branches:
    """What is done where a test holds, and where it does not."""

    test: Test
    then: Node
    other: Node


@dataclass(eq=False, slots=True)
class Sequence:
    """One after the other."""

    nodes: list[Node]


Node = Store | Nest | Branches | Sequence


class NoRuleError(Exception):
    """The passes do something with this copy that has no rule here."""


class Tree(NamedTuple):
    """A copy after the passes; whether a condition left a loop; and how many loops were looked at
    for their conditions."""

    root: Node
    hoisted: bool
    grown: int


def tree_of(border: Border) -> Tree:
    """The copy after the passes. Raises NoRuleError."""
    cutter = _Cutter(border)
    extents = [(0, extent) for extent in border.extents[: len(border.kinds)]]
    root = cutter.enter(0, tuple(extents), frozenset())
    return Tree(root, cutter.hoisted, cutter.grown)


class _Condition:
    """factor * loop, for the copy's loops that are not cut in digits, and others; + constant <= 0.

    `parts` are loops of the copy that it has digits of, `low` and `high` the ends of what loops
    around add, None where that is no sum of their variables; `around`: there is something of them.
    """

    def __init__(self, border: Border, number: int, upper: bool) -> None:
        axis, own = border.axes[number], len(border.kinds)
        sign = 1 if upper else -1
        limit = (axis.end or 0) - 1 if upper else axis.first or 0
        self.asked: Asked = number, upper
        self.constant = sign * (axis.base - limit)
        self.factors: dict[int, int] = {}
        self.parts: set[int] = set()
        self.low = self.high = 0
        self.around = self.unbounded = False
        for digit in axis.digits:
            factor = sign * digit.scale
            if digit.loop >= own:
                self.around = True
                reach = factor * (border.extents[digit.loop] - 1)
                self.unbounded = self.unbounded or not digit.whole
                self.low, self.high = self.low + min(reach, 0), self.high + max(reach, 0)
            elif digit.whole:
                self.factors[digit.loop] = factor
            else:
                self.parts.add(digit.loop)
        self.unbounded = self.unbounded or bool(self.parts)

    def asks(self, loop: int) -> bool:
        return loop in self.factors or loop in self.parts


class _Undecided(NamedTuple):
    """A condition on a loop: `factor * loop + constant <= 0` for all iterations inside, where
    `slack` less is enough for some; `exact`: it asks for nothing else. `own` are loops outside."""

    condition: _Condition
    factor: int
    constant: int
    slack: int
    exact: bool
    own: frozenset[int]


class _Cutter:
    """The passes; `hoisted` once a condition has left a loop, `grown` as in `Tree`."""

    def __init__(self, border: Border) -> None:
        self._kinds = border.kinds
        self._conditions = [
            _Condition(border, k, upper)
            for k, axis in enumerate(border.axes)
            for upper in (False, True)
            if (axis.end if upper else axis.first) is not None
        ]
        self._parts = {d.loop for axis in border.axes for d in axis.digits if not d.whole}
        self._hint = self._hinted()
        self.grown = 0
        self.hoisted = False

    def _hinted(self) -> int:
        """The outermost serial loop that a condition asks for, around others such or vectors."""
        first = len(self._kinds)
        for loop in range(len(self._kinds) - 1, -1, -1):
            if self._kinds[loop] not in SERIAL:
                break
            asked = any(condition.asks(loop) for condition in self._conditions)
            if self._kinds[loop] == Annotation.NONE and asked:
                first = loop
        return first

    def enter(self, loop: int, pieces: tuple[Piece, ...], decided: frozenset[Asked]) -> Node:
        """What is inside of the loops before `loop`; `decided` conditions hold."""
        if loop == len(self._kinds):
            return self._store(pieces, decided)
        return self._loop(loop, pieces, decided)

    def _store(self, pieces: tuple[Piece, ...], decided: frozenset[Asked]) -> Store:
        if self._hint == len(self._kinds):
            return Store(tuple([condition.asked for condition in self._conditions]), pieces)
        left = []
        for condition in self._conditions:
            if condition.asked in decided:
                continue
            if not condition.unbounded:
                low, high = condition.low, condition.high
                for loop, factor in condition.factors.items():
                    start, extent = pieces[loop]
                    reach = factor * max(extent - 1, 0)
                    low += factor * start + min(reach, 0)
                    high += factor * start + max(reach, 0)
                if low + condition.constant > 0:
                    return Store(None, pieces)
                if high + condition.constant <= 0:
                    continue
            left.append(condition.asked)
        return Store(tuple(left), pieces)

    def _loop(self, loop: int, pieces: tuple[Piece, ...], decided: frozenset[Asked]) -> Node:
        end = pieces[loop][1]
        if end == 1:
            return self.enter(loop + 1, pieces, decided)
        if loop < self._hint:
            return self._inside(loop, pieces, decided)
        some = self._undecided(loop, pieces, decided)
        if not some:
            return self._inside(loop, pieces, decided)
        self.grown += 1
        if self.grown > MOST_GROWN:
            raise NoRuleError
        exact = [one for one in some if one.exact]
        low, high = 0, end
        for one in exact:
            low, high = _interval(one.factor, one.constant, low, high)
        if (low, high) != (0, end) and low < high:
            return self._cut(loop, [0, low, high, end], pieces, decided)
        if self._kinds[loop] != Annotation.VECTORIZE:
            loose = [one._replace(constant=one.constant - one.slack) for one in exact]
            for one in (*exact, *loose):
                low, high = _interval(one.factor, one.constant, 0, end)
                if (low, high) != (0, end) and low < high:
                    return self._cut(loop, [0, low, high, end], pieces, decided)
        symbolic = [one for one in some if not one.exact]
        if not symbolic:
            return self._inside(loop, pieces, decided)
        return self._two_versions(loop, symbolic, pieces, decided)

    def _inside(self, loop: int, pieces: tuple[Piece, ...], decided: frozenset[Asked]) -> Node:
        body = self.enter(loop + 1, pieces, decided)
        return self._lifted(loop, pieces[loop][1], body)

    def _lifted(self, loop: int, extent: int, body: Node) -> Node:
        """The loop inside the conditions that are all of its body and do not ask for it."""
        if isinstance(body, Branches) and not any(loop in limit.own for limit in body.test):
            self.hoisted = True
            then = self._lifted(loop, extent, body.then)
            return Branches(body.test, then, self._lifted(loop, extent, body.other))
        return Nest(loop, extent, body)

    def _cut(
        self,
        loop: int,
        edges: Iterable[int],
        pieces: tuple[Piece, ...],
        decided: frozenset[Asked],
    ) -> Node:
        if loop in self._parts:
            raise NoRuleError
        again = [c.asked for c in self._conditions if loop in c.factors]
        start = pieces[loop][0]
        nodes = []
        for low, high in pairwise(edges):
            if low >= high:
                continue
            extent = high - low if high - low > 1 else 0
            own = (*pieces[:loop], (start + low, extent), *pieces[loop + 1 :])
            known = decided.difference(again) if low or not extent else decided
            if extent:
                nodes.append(self._loop(loop, own, known))
            else:
                nodes.append(self._at_number(loop, own, known))
        return nodes[0] if len(nodes) == 1 else Sequence(_flat(nodes))

    def _at_number(self, loop: int, pieces: tuple[Piece, ...], decided: frozenset[Asked]) -> Node:
        """What is inside of the loop where its variable is a number: conditions fold with it."""
        known = set(decided)
        for condition in self._conditions:
            if loop in condition.factors and not condition.around and not condition.parts:
                if any(pieces[other][1] > 1 for other in condition.factors):
                    continue
                value = sum([own * pieces[other][0] for other, own in condition.factors.items()])
                if value + condition.constant > 0:
                    return self._constant(loop + 1, pieces)
                known.add(condition.asked)
        return self.enter(loop + 1, pieces, frozenset(known))

    def _constant(self, loop: int, pieces: tuple[Piece, ...]) -> Node:
        """The loops from this one on around what is a constant."""
        node: Node = Store(None, pieces)
        for inner in range(len(self._kinds) - 1, loop - 1, -1):
            if pieces[inner][1] > 1:
                node = Nest(inner, pieces[inner][1], node)
        return node

    def _undecided(
        self, loop: int, pieces: tuple[Piece, ...], decided: frozenset[Asked]
    ) -> list[_Undecided]:
        """The conditions on the loop that neither hold nor fail throughout, as far as is known."""
        found = []
        for condition in self._conditions:
            factor = condition.factors.get(loop)
            if factor is None or condition.asked in decided:
                continue
            if any(own >= loop for own in condition.parts):
                continue
            constant, slack, low, high = condition.constant, 0, condition.low, condition.high
            outside = []
            for other, own in condition.factors.items():
                start, extent = pieces[other]
                constant += own * start
                reach = own * (extent - 1) if extent else 0
                if other > loop:
                    constant += max(reach, 0)
                    slack += abs(reach)
                elif extent and other < loop:
                    outside.append(other)
                    low, high = low + min(reach, 0), high + max(reach, 0)
                elif other == loop:
                    low, high = low + min(reach, 0), high + max(reach, 0)
            undecided = low + constant - slack <= 0 < high + constant
            if condition.unbounded or undecided:
                own_loops = frozenset([*outside, *condition.parts])
                exact = not (condition.around or own_loops)
                found.append(_Undecided(condition, factor, constant, slack, exact, own_loops))
        return found

    def _two_versions(
        self,
        loop: int,
        symbolic: list[_Undecided],
        pieces: tuple[Piece, ...],
        decided: frozenset[Asked],
    ) -> Node:
        """The loop without conditions where these hold throughout, else as it is."""
        extent = pieces[loop][1]
        test = []
        for one in symbolic:
            axis, upper = one.condition.asked
            constant = one.constant + max(one.factor * (extent - 1), 0)
            test.append(Limit(axis, upper, -constant if upper else constant, one.own))
        known = decided.union([one.condition.asked for one in symbolic])
        then = self._inside(loop, pieces, known)
        return Branches(tuple(test), then, self._inside(loop, pieces, decided))


def _interval(factor: int, constant: int, low: int, high: int) -> tuple[int, int]:
    """The part of [low, high) where factor * loop + constant <= 0."""
    if factor > 0:
        return low, min(high, -constant // factor + 1)
    return max(low, -(-constant // -factor)), high


def _flat(nodes: list[Node]) -> list[Node]:
    found: list[Node] = []
    for node in nodes:
        found += node.nodes if isinstance(node, Sequence) else [node]
    return found
