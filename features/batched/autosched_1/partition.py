"""LoopPartition on numbers: the pieces that conditions cut a candidate's loops into.

The stages of one candidate become a tree of loops and stores; its loops are cut as the pass cuts
them, which asks of the same conditions in the same way (`loops/loop_interval.py`). Candidates whose
trees come out alike are worked out together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from autosched.features.batched.autosched_1.borders import is_padded
from autosched.features.batched.context import Condition as Around
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.nest import Nest, Population, Stage
from autosched.features.batched.stores import Store, own_indices
from autosched.state.iterator import Annotation
from autosched.tir.expr import Expr, Var
from autosched.tir.stmt import TRUE
from autosched.transform.loops.loop_interval import Condition, LoopConditions, Part
from autosched.transform.loops.loop_partition import LoopPartition

_Span = tuple[int, int]
Place = tuple[int, int]
"""A loop: its stage, and its position there."""
Path = tuple[tuple[Place, int], ...]
"""Of which piece of each loop that is cut."""


@dataclass(eq=False, slots=True)
class _Loop:
    var: Var
    extent: int
    kind: int
    body: list[_Node]
    place: Place


@dataclass(eq=False, slots=True)
class _Alone:
    body: list[_Node]


@dataclass(eq=False, slots=True)
class _Leaf:
    store: int
    conditions: list[Condition]


_LEFT = 32
"""Statements that copies with a border may add."""
_Node = _Loop | _Alone | _Leaf


class UncutError(Exception):
    """The pass does something with this candidate that has no rule here."""


@dataclass(eq=False, slots=True)
class Instance:
    """A copy of a store: the extents of the loops around it, the pieces it is in, and what is
    added to the variables of loops. A loop that a piece has no more has no extent. `asked`: it was
    in conditions; `dead`: it is in one that never holds, which stays unless something simplifies
    the program."""

    store: int
    extents: dict[Place, int]
    path: Path
    added: dict[Place, int]
    asked: bool = False
    dead: bool = False
    floor: int = 0
    level: int = 0
    outer: int = 0
    count: int = 1
    beside: int = -1
    at: int = 0
    number: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class _Axis:
    """The conditions on one axis of a stage, and what its region is."""

    of_data: bool
    splits: list[Around]
    region: list[Around]
    extent: Ints | None
    inside: Flags | None

    def implied(self, own: Sequence[Around], n: int) -> bool:
        """Whether those of splits keep the axis inside the tensor."""
        if self.inside is None or self.extent is None or not self.inside[n]:
            return False
        return any(c.limit is not None and c.limit[n] == self.extent[n] for c in own)


def _conditions_of(stage: Stage) -> list[_Axis]:
    context = stage.context
    found = []
    for k in range(len(context.variables)):
        extent, inside = None, None
        if k < len(context.data):
            low, extent, shape = context.data[k]
            inside = context.forms.ends(low)[1] + extent <= shape
        of_data = k < stage.ops.data
        found.append(_Axis(of_data, context.of_splits(k), context.of_region(k), extent, inside))
    return [axis for axis in found if axis.splits or axis.region]


class Trees:
    """Makes the trees of the candidates of a nest."""

    def __init__(self, nest: Nest, population: Population, stores: list[Store]) -> None:
        self._nest, self._population, self._stores = nest, population, stores
        self._index = {id(stage): s for s, stage in nest.stages.items()}
        self._places = {
            slot: (s, k)
            for s, stage in nest.stages.items()
            for k, slot in enumerate(stage.loops.slots)
        }
        self._vars = {place: Var("i") for place in self._places.values()}
        self._start_vars = {place: Var("i") for place in self._places.values()}
        self._of_stage: dict[int, list[int]] = {s: [] for s in nest.stages}
        for k, store in enumerate(stores):
            self._of_stage[self._index[id(store.stage)]].append(k)
        self._guarding: set[Place] = set()
        self._conditions = {s: _conditions_of(stage) for s, stage in nest.stages.items()}

    def instances(self, n: int) -> list[Instance]:
        """The copies of stores of candidate n, in program order. Raises UncutError."""
        roots: list[_Node] = []
        self._guarding.clear()
        for s in sorted(self._nest.stages):
            if self._population.target[s][n] < 0:
                roots += self._stage(s, n)
        variables = (self._vars, self._start_vars)
        places = {var: place for own in variables for place, var in own.items()}
        cutter = _Cutter(places)
        found = cutter.run(roots, {}, {}, ())
        note_surroundings(found, 0, 0, None, [])
        if any(map(is_padded, self._stores)) and cutter.budget < _LEFT:
            raise UncutError("little is left of what a program may grow")
        last = {item.store: item.path for item in cutter.instances}
        for store, path in cutter.gone.items():
            stage = self._stores[store].stage
            s = self._index[id(stage)]
            if not stage.ops.is_output and _outer(path, s) != _outer(last.get(store, ()), s):
                raise UncutError("storage that nothing is stored to")
        for number, item in enumerate(cutter.instances):
            item.number, item.at = number, self._constant(item, n)
            start = self._stores[item.store].ops.is_init
            item.dead = start and any(item.added.get(place) for place in self._guarding)
        return cutter.instances

    def _constant(self, item: Instance, n: int) -> int:
        """The part of the stored place that no variable changes."""
        store = self._stores[item.store]
        total, scale = 0, 1
        extents = store.stage.extents
        indices = own_indices(self._nest.forms, store)
        for index, extent in zip(reversed(indices), reversed(extents), strict=True):
            constant = int(index.base[n])
            for slot, term in index.every():
                added = item.added.get(self._places[slot], 0)
                constant += added * int(term.scale[n])
            total += constant * scale
            scale *= int(extent[n])
        return total

    def _stage(self, s: int, n: int) -> list[_Node]:
        stage, population = self._nest.stages[s], self._population
        loops, extents = stage.loops, self._nest.forms.extents
        attached: dict[int, list[_Node]] = {}
        for u in range(s):
            if population.target[u][n] == s:
                attached.setdefault(int(population.at[u][n]), []).extend(self._stage(u, n))
        own = self._of_stage[s]
        reducing = [bool(flags[n]) for flags in loops.reducing]
        common = int(stage.start[n]) if len(own) > 1 else -1
        guarded = bool(stage.guarded[n])
        if guarded:
            self._guarding |= {(s, k) for k in range(common) if reducing[k]}
        pragma = int(loops.unroll[n]) if self._nest.own_step[s][n] >= 0 else -1

        def wrapped(k: int, var: Var, body: list[_Node]) -> list[_Node]:
            slot = loops.slots[k]
            extent = int(extents[slot][n])
            if extent > 1:
                body = [_Loop(var, extent, int(loops.kinds[k][n]), body, (s, k))]
            return [_Alone(body)] if pragma == k else body

        def start(k: int) -> list[_Node]:
            if k == len(loops.slots):
                return [self._leaf(own[0], s, n, common)]
            inner = start(k + 1)
            return inner if reducing[k] else wrapped(k, self._start_vars[s, k], inner)

        def steps(k: int) -> list[_Node]:
            if k == len(loops.slots):
                inner: list[_Node] = [self._leaf(own[-1], s, n, len(loops.slots))]
            else:
                var = self._vars[s, k]
                inner = wrapped(k, var, [*attached.get(k, ()), *steps(k + 1)])
            if k != common:
                return inner
            return [_Alone(start(k)), *inner] if guarded else [*start(k), *inner]

        return steps(0)

    def _leaf(self, k: int, s: int, n: int, common: int) -> _Leaf:
        """The store; loops of its stage from position `common` on are those of the start."""
        store = self._stores[k]
        found = []
        for axis in self._conditions[s]:
            if store.ops.is_init and not axis.of_data:
                continue
            own = [c for c in axis.splits if c.where[n]]
            region = [] if store.ops.is_init else [c for c in axis.region if c.where[n]]
            if own and region:
                if any(c.limit is None for c in region) or not axis.implied(own, n):
                    raise UncutError("several conditions on an axis")
                region = []
            found += [self._condition(c, s, n, common) for c in (*own, *region)]
        return _Leaf(k, found)

    def _condition(self, around: Around, s: int, n: int, common: int) -> Condition:
        sign, constant = (1, 0) if around.limit is not None else (-1, 0)
        constant = sign * int(around.value.base[n])
        if around.limit is not None:
            constant += 1 - int(around.limit[n])
        terms: dict[Expr, int] = {}
        for slot, term in around.value.every():
            scale, extent = int(term.scale[n]), int(self._nest.forms.extents[slot][n])
            if scale == 0 or extent == 1:
                continue
            if term.lower[n] > 1 or term.upper[n] < extent:
                raise UncutError("a condition on part of a loop")
            place = self._places[slot]
            starts = place[0] == s and place[1] >= common
            var = (self._start_vars if starts else self._vars)[place]
            terms[var] = terms.get(var, 0) + sign * scale
        return Condition(TRUE, (Part(TRUE, terms, constant),))


def _outer(path: Path, s: int) -> Path:
    """The pieces of the loops of other stages."""
    return tuple([step for step in path if step[0][0] != s])


def _leaves(nodes: Sequence[_Node]) -> Iterator[_Leaf]:
    for node in nodes:
        if isinstance(node, _Leaf):
            yield node
        else:
            yield from _leaves(node.body)


def _spans(nodes: Sequence[_Node]) -> Iterator[tuple[Var, _Span]]:
    for node in nodes:
        if isinstance(node, _Loop):
            yield node.var, (0, node.extent - 1)
        if not isinstance(node, _Leaf):
            yield from _spans(node.body)


@dataclass(eq=False)
class _Out:
    """A loop, or something else that encloses, in the tree after cutting."""

    loop: bool
    body: list[_Out | Instance]


class _Cutter:
    """The pass; what is added to variables, or stands for them, goes along. `gone` has the path of
    a copy that is left out, of stores with none after it."""

    def __init__(self, places: dict[Var, Place]) -> None:
        self._places = places
        self.budget = LoopPartition.max_growth
        self.instances: list[Instance] = []
        self.gone: dict[int, Path] = {}

    def run(
        self,
        nodes: Sequence[_Node],
        env: dict[Var, _Span],
        moved: dict[Var, tuple[int, bool]],
        path: Path,
        around: tuple[_Loop, ...] = (),
    ) -> list[_Out | Instance]:
        found: list[_Out | Instance] = []
        for node in nodes:
            if isinstance(node, _Loop):
                found += self._loop(node, env, moved, path, around)
            elif isinstance(node, _Alone):
                body = self.run(node.body, env, moved, path, around)
                found += [_Out(False, body)] if body else []
            else:
                found += self._store(node, env, moved, path, around)
        return found

    def _store(
        self,
        leaf: _Leaf,
        env: dict[Var, _Span],
        moved: dict[Var, tuple[int, bool]],
        path: Path,
        around: tuple[_Loop, ...],
    ) -> list[_Out | Instance]:
        for condition in leaf.conditions:
            truth = _moved(condition, moved).truth(env)
            if truth is False:
                self.gone[leaf.store] = path
                return []
            if truth is None:
                raise UncutError("a condition that stays")
        extents = {loop.place: loop.extent for loop in around}
        added = {self._places[var]: by for var, (by, _) in moved.items() if by}
        self.gone.pop(leaf.store, None)
        one = Instance(leaf.store, extents, path, added, bool(leaf.conditions))
        self.instances.append(one)
        return [one]

    def _loop(
        self,
        loop: _Loop,
        env: dict[Var, _Span],
        moved: dict[Var, tuple[int, bool]],
        path: Path,
        around: tuple[_Loop, ...],
    ) -> list[_Out | Instance]:
        var, end = loop.var, loop.extent
        span = (0, end - 1)
        inner = dict(_spans(loop.body))
        here = {**env, var: span}
        conditions = []
        for leaf in _leaves(loop.body):
            for condition in leaf.conditions:
                own = _moved(condition, moved)
                if var in own.parts[0].terms:
                    relaxed = Condition(own.source, (own.parts[0].relaxed(inner),))
                    if relaxed.truth(here) is None:
                        conditions.append(relaxed)
        if conditions and self._afford(loop):
            found = LoopConditions(var, conditions)
            low, high = found.constant_interval(0, end)
            if loop.kind == Annotation.PARALLEL:
                if low == 0 and 0 < high == end - 1:
                    here[var] = (0, end - 2)
            elif (low, high) != (0, end) and low < high:
                return self._cut(loop, [0, low, high, end], env, moved, path, around)
            else:
                edges = None
                if loop.kind != Annotation.VECTORIZE:
                    edges = found.deciding_interval(0, end)
                if edges is not None:
                    return self._cut(loop, [0, *edges, end], env, moved, path, around)
                if found.symbolic():
                    raise UncutError("two versions of a loop")
        body = self.run(loop.body, here, moved, path, (*around, loop))
        return [_Out(True, body)] if body else []

    def _afford(self, loop: _Loop) -> bool:
        size = sum(1 for _ in _leaves(loop.body))
        if size > self.budget:
            return False
        self.budget -= size
        return True

    def _cut(
        self,
        loop: _Loop,
        edges: list[int],
        env: dict[Var, _Span],
        moved: dict[Var, tuple[int, bool]],
        path: Path,
        around: tuple[_Loop, ...],
    ) -> list[_Out | Instance]:
        found: list[_Out | Instance] = []
        before = moved.get(loop.var, (0, False))[0]
        for number, (low, high) in enumerate((a, b) for a, b in pairwise(edges) if a < b):
            single = high - low == 1
            then = {**moved, loop.var: (before + low, single)}
            own = (*path, (loop.place, number))
            if single:
                found += self.run(loop.body, env, then, own, around)
            else:
                piece = replace(loop, extent=high - low)
                found += self._loop(piece, env, then, own, around)
        return found


def _moved(condition: Condition, moved: dict[Var, tuple[int, bool]]) -> Condition:
    part = condition.parts[0]
    if part.terms.keys().isdisjoint(moved):
        return condition
    constant, terms = part.constant, dict(part.terms)
    for var, (by, single) in moved.items():
        if var in terms:
            constant += terms[var] * by
            if single:
                del terms[var]
    return Condition(condition.source, (Part(part.source, terms, constant),))


def note_surroundings(
    nodes: list[_Out | Instance],
    depth: int,
    floor: int,
    beside: tuple[int, int, int, int] | None,
    made: list[None],
) -> None:
    """Note what stands beside each store (`walk/visitor.py`): level, outer, count, and which."""
    if len(nodes) > 1:
        made.append(None)
        beside, floor = (depth, floor, len(nodes), len(made)), depth
    for node in nodes:
        if isinstance(node, Instance):
            node.floor = floor
            if beside is not None:
                node.level, node.outer, node.count, node.beside = beside
        elif node.loop:
            note_surroundings(node.body, depth + 1, floor, beside, made)
        else:
            note_surroundings(node.body, depth, depth, None, made)
