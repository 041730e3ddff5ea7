"""LoopPartition on numbers: the pieces that conditions cut the loops of a tree into.

A tree is made of numbers alone, so what comes of one is known for all candidates that have it. Its
loops are cut as the pass cuts them, which asks of the same conditions in the same way
(`loops/loop_interval.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from autosched.features.batched.autosched_1.left_trees import (
    Instance,
    Left,
    Out,
    Path,
    Place,
    Variable,
    copies_in,
    has_decided,
    hoist,
    simplify,
)
from autosched.state.iterator import Annotation
from autosched.transform.loops.loop_partition import LoopPartition

_Around = tuple[tuple[Place, int], ...]
"""Loops with their extents."""
FREE = 0
"""The extent of a loop that no condition asks of: any above 1."""


class Condition(NamedTuple):
    """sum(factor * variable) + constant <= 0."""

    terms: tuple[tuple[Variable, int], ...]
    constant: int


class Leaf(NamedTuple):
    """A store and the conditions around it."""

    store: int
    conditions: tuple[Condition, ...]


class Alone(NamedTuple):
    """What encloses without being a loop; with a `guard`, the condition that these variables of
    loops outside are 0."""

    body: tuple[Node, ...]
    guard: tuple[Variable, ...] = ()


class Loop(NamedTuple):
    """A loop; `kind` is its annotation."""

    var: Variable
    extent: int
    kind: int
    body: tuple[Node, ...]


Node = Loop | Alone | Leaf


def is_hinted(item: Instance) -> bool:
    """Whether HintBorders marks a copy, if it has a border: no condition is around it, and of loops
    that are cut the first piece keeps the variables, and with them the mark."""
    return not item.asked and not any(number for _, number in item.path)


class Cut(NamedTuple):
    """What comes of a tree: the copies of stores in program order; those that there would be if
    something else had the program simplified, where guards are decided; whether a condition leaves
    a loop, so that it is; of stores with no copy after it, the path of one that is left out and the
    loops around it; and what is left of what the program may grow."""

    instances: tuple[Instance, ...]
    cleared: tuple[Instance, ...] | None
    simplified: bool
    gone: dict[int, tuple[Path, _Around]]
    budget: int


class UncutError(Exception):
    """The pass does something with this candidate that has no rule here."""


@lru_cache(maxsize=5_000)  # of 10 to 13 KB each in convolutions
def cut(roots: tuple[Node, ...], may_simplify: bool = False) -> Cut | str:
    """What comes of a tree, or why there is no rule for it. Where something else `may_simplify` the
    program, copies are `cleared`, too."""
    cutter = _Cutter()
    try:
        found = cutter.run([_known(node)[0] for node in roots], {}, {}, (), ())
    except UncutError as error:
        return str(error)
    simplified = hoist(found)
    cleared = None
    if (simplified or may_simplify) and has_decided(found):
        cleared = copies_in(simplify(found))
    if simplified and cleared is not None:
        return Cut(cleared, None, True, cutter.gone, cutter.budget)
    return Cut(copies_in(found), cleared, simplified, cutter.gone, cutter.budget)


class _Relaxed(NamedTuple):
    """A condition on a loop as it is for all iterations of the loops inside: `slack` less is its
    least value (`loop_interval.Part`)."""

    factor: int
    others: tuple[tuple[Variable, int], ...]
    constant: int
    slack: int


class _Known(NamedTuple):
    """A loop with the conditions on it, and the number of stores inside."""

    loop: Loop
    body: list[_Node]
    conditions: list[_Relaxed]
    size: int


class _Enclosing(NamedTuple):
    body: list[_Node]
    guard: tuple[Variable, ...]


_Node = _Known | _Enclosing | Leaf
_Bodies = tuple[_Node, list[Leaf], dict[Variable, int]]


def _known(node: Node) -> _Bodies:
    """The node with what is known of its loops; its leaves, and the extents of its loops."""
    if isinstance(node, Leaf):
        return node, [node], {}
    body: list[_Node] = []
    leaves: list[Leaf] = []
    inner: dict[Variable, int] = {}
    for child in node.body:
        made, own, extents = _known(child)
        body.append(made)
        leaves += own
        inner.update(extents)
    if isinstance(node, Alone):
        return _Enclosing(body, node.guard), leaves, inner
    conditions = []
    for leaf in leaves:
        for condition in leaf.conditions:
            terms = dict(condition.terms)
            factor = terms.pop(node.var, None)
            if factor is not None:
                conditions.append(_relaxed(factor, terms, condition.constant, inner))
    inner[node.var] = node.extent
    return _Known(node, body, conditions, len(leaves)), leaves, inner


def _relaxed(
    factor: int, terms: dict[Variable, int], constant: int, inner: dict[Variable, int]
) -> _Relaxed:
    others, slack = [], 0
    for var, own in terms.items():
        extent = inner.get(var)
        if extent is None:
            others.append((var, own))
        else:
            constant += max(own, 0) * (extent - 1)
            slack += abs(own) * (extent - 1)
    return _Relaxed(factor, tuple(others), constant, slack)


class _Span(NamedTuple):
    """The values of a variable; `single` where its loop is no more."""

    low: int
    high: int
    single: bool


_Spans = dict[Variable, _Span]
_Part = tuple[int, int]
"""factor * variable + constant <= 0."""


def implies(one: Condition, other: Condition, spans: Mapping[Variable, _Span]) -> bool:
    """Whether a condition follows from one that has a variable in common with it."""
    first, second = dict(one.terms), dict(other.terms)
    for by in {Fraction(second[var], first[var]) for var in first.keys() & second.keys()}:
        most = other.constant - by * one.constant
        for var in first.keys() | second.keys():
            factor = second.get(var, 0) - by * first.get(var, 0)
            most += factor * (spans[var].high if factor > 0 else spans[var].low)
        if by > 0 and most < 1:
            return True
    return False


class _Cutter:
    """The pass; the values of variables go along, and what is added to those of loops."""

    def __init__(self) -> None:
        self.budget = LoopPartition.max_growth
        self.made = 0
        self.gone: dict[int, tuple[Path, _Around]] = {}
        self.extents: dict[Variable, int] = {}

    def run(
        self,
        nodes: Sequence[_Node],
        env: _Spans,
        added: dict[Place, int],
        path: Path,
        around: _Around,
    ) -> list[Left]:
        found: list[Left] = []
        for node in nodes:
            if isinstance(node, _Known):
                found += self._loop(node, 0, node.loop.extent, env, added, path, around)
            elif isinstance(node, Leaf):
                found += self._store(node, env, added, path, around)
            else:
                body = self.run(node.body, env, added, path, around)
                found += [_guarded(node.guard, body, env)] if body else []
        return found

    def _store(
        self, leaf: Leaf, env: _Spans, added: dict[Place, int], path: Path, around: _Around
    ) -> list[Left]:
        staying: list[Condition] = []
        for condition in leaf.conditions:
            terms, constant = condition
            low = high = constant
            for var, factor in terms:
                span = env[var]
                low += factor * (span.low if factor > 0 else span.high)
                high += factor * (span.high if factor > 0 else span.low)
            if low > 0:
                self.gone[leaf.store] = path, around
                return []
            if high > 0:
                staying.append(condition)
        self.gone.pop(leaf.store, None)
        moved = {place: by for place, by in added.items() if by}
        one = Instance(leaf.store, dict(around), path, moved, bool(leaf.conditions), self.made)
        self.made += 1
        left: Left = one
        for condition in self._left_of(staying, leaf, env) if staying else ():
            asks = frozenset([var for var, _ in condition.terms if not env[var].single])
            left = Out(None, [left], asks)
        return [left]

    def _left_of(self, staying: list[Condition], leaf: Leaf, env: _Spans) -> list[Condition]:
        """Those that are neither implied by others as the loops were, nor as they are."""
        whole = {var: _Span(0, extent - 1, False) for var, extent in self.extents.items()}
        found = [
            own
            for own in staying
            if not any(other != own and implies(other, own, whole) for other in leaf.conditions)
        ]
        if any(a is not b and implies(a, b, env) for a in found for b in found):
            raise UncutError("a condition that stays and follows from another")
        return found

    def _loop(
        self,
        node: _Known,
        by: int,
        end: int,
        env: _Spans,
        added: dict[Place, int],
        path: Path,
        around: _Around,
    ) -> list[Left]:
        """A loop of `end` iterations, `by` added to its variable."""
        loop = node.loop
        self.extents[loop.var] = loop.extent
        last = by + end - 1
        undecided = _undecided(node, by, end, env) if node.conditions else []
        if undecided and self._afford(node.size):
            exact = [(factor, constant) for factor, constant, _, alone in undecided if alone]
            low, high = 0, end
            for part in exact:
                low, high = _interval(part, low, high)
            if loop.kind == Annotation.PARALLEL:
                if low == 0 and 0 < high == end - 1:
                    last -= 1
            elif (low, high) != (0, end) and low < high:
                return self._cut(node, by, [0, low, high, end], env, added, path, around)
            else:
                edges = None
                if loop.kind != Annotation.VECTORIZE:
                    loose = [(f, c - slack) for f, c, slack, alone in undecided if alone]
                    edges = _deciding([*exact, *loose], end)
                if edges is not None:
                    return self._cut(node, by, [0, *edges, end], env, added, path, around)
                if len(exact) < len(undecided):
                    raise UncutError("two versions of a loop")
        here = {**env, loop.var: _Span(by, last, False)}
        own = (*around, (loop.var.place, end))
        body = self.run(node.body, here, added, path, own)
        return [Out(loop.var, body)] if body else []

    def _afford(self, size: int) -> bool:
        if size > self.budget:
            return False
        self.budget -= size
        return True

    def _cut(
        self,
        node: _Known,
        by: int,
        edges: list[int],
        env: _Spans,
        added: dict[Place, int],
        path: Path,
        around: _Around,
    ) -> list[Left]:
        found: list[Left] = []
        var = node.loop.var
        pieces = [(low, high) for low, high in pairwise(edges) if low < high]
        for number, (low, high) in enumerate(pieces):
            first = by + low
            then, own = {**added, var.place: first}, (*path, (var.place, number))
            if high - low == 1:
                here = {**env, var: _Span(first, first, True)}
                found += self.run(node.body, here, then, own, around)
            else:
                found += self._loop(node, first, high - low, env, then, own, around)
        return found


def _guarded(guard: tuple[Variable, ...], body: list[Left], env: _Spans) -> Out:
    """What encloses the body: a condition that variables are 0, if any."""
    if not guard:
        return Out(None, body)
    asks = frozenset([var for var in guard if not env[var].single])
    holds = None if asks else True
    if any(env[var].low > 0 for var in guard):
        holds = False
    return Out(None, body, asks, holds)


def _undecided(node: _Known, by: int, end: int, env: _Spans) -> list[tuple[int, int, int, bool]]:
    """The conditions on a loop that neither hold nor fail throughout: factor, constant, slack, and
    whether nothing else is in them."""
    found = []
    for factor, others, constant, slack in node.conditions:
        constant += factor * by
        alone = True
        low = high = 0
        for var, own in others:
            span = env[var]
            if span.single:
                constant += own * span.low
            else:
                alone = False
                low += own * (span.low if own > 0 else span.high)
                high += own * (span.high if own > 0 else span.low)
        reach = factor * (end - 1)
        least, most = constant + low + min(reach, 0), constant + high + max(reach, 0)
        if least - slack <= 0 < most:
            found.append((factor, constant, slack, alone))
    return found


def _interval(part: _Part, low: int, high: int) -> tuple[int, int]:
    """The part of [low, high) where it holds."""
    factor, constant = part
    if factor > 0:
        return low, min(high, -constant // factor + 1)
    return max(low, -(-constant // -factor)), high


def _deciding(parts: Sequence[_Part], end: int) -> tuple[int, int] | None:
    """`LoopConditions.deciding_interval` of [0, end)."""
    for part in parts:
        low, high = _interval(part, 0, end)
        if (low, high) != (0, end) and low < high:
            return low, high
    return None
