"""What a copy with a border becomes: HintBorders, LoopPartition and HoistIfThenElse on it alone.

    for i in range(4):                            for i in range(4):
        P[h * 4 + i] = if_then_else(      ->          if 1 <= h and h <= 12: ...

The copy's own loops hold nothing but its store, and no other statement has such conditions, so that
the passes do to this small function what they do to the whole one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import repeat

from autosched.features.autosched_1.branches import share_of_branches
from autosched.features.batched.autosched_1.border_trees import MOST_GROWN
from autosched.features.batched.autosched_1.branch_places import Place, place_of
from autosched.features.walk.count import count_ops
from autosched.features.walk.scope import BufferInfo, Loop
from autosched.features.walk.visitor import Nest
from autosched.state.iterator import Annotation
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import BufferLoad, Call, Expr, FloatImm, IntImm, ProducerLoad, Var
from autosched.tir.function import PrimFunc
from autosched.tir.linear import linear
from autosched.tir.stmt import BufferStore, For, ForKind, Stmt, seq
from autosched.tir.walk import free_vars, pre_order
from autosched.transform.loops.hoist_if_then_else import HoistIfThenElse
from autosched.transform.loops.loop_partition import LoopPartition
from autosched.transform.vector.conditions import guarded_parts
from autosched.transform.vector.hint_borders import HintBorders
from autosched.transform.vector.instructions import step_weight

PASSES = (
    HintBorders(windows=False, remainders=False),
    LoopPartition(True, all_alike=True),
    HoistIfThenElse(),
)
_KINDS = {
    Annotation.NONE: ForKind.SERIAL,
    Annotation.UNROLL: ForKind.UNROLLED,
    Annotation.VECTORIZE: ForKind.VECTORIZED,
    Annotation.PARALLEL: ForKind.PARALLEL,
}


@dataclass(frozen=True, slots=True)
class OwnLoop:
    """A loop of the copy, `kind` as an `Annotation`."""

    var: Var
    extent: int
    kind: int


@dataclass(frozen=True, slots=True)
class Copied:
    """A store of the result. `loads`: it is no constant; `guarded`: a condition chooses its value.

    By loop of the copy, `extents` (0: the loop is not there), `nodes`, which are the same number
    for the same loop, and `asked`, whether a condition asks for it. `floor` and `guards` are those
    of the walk, counted from the first of the copy's loops; `counts` and `weight` are the
    operations and instructions of the value. `same`: what loops move in its indices is as before;
    branches know more of loops around the copy. `hoisted`: a condition left a loop, so that the
    whole program is simplified. `share` of the iterations is in its branches. `stored` and `loaded`
    are the places that it stores to and loads from, where they were asked for; `slots` has a number
    for each of their variables. `grown`: as many statements are counted against what a program may
    grow.
    """

    loads: bool
    guarded: bool
    extents: tuple[int, ...]
    nodes: tuple[int, ...]
    asked: tuple[bool, ...]
    floor: int
    guards: tuple[int, ...]
    counts: tuple[int, ...]
    weight: float
    same: bool
    hoisted: bool
    share: float
    stored: Place = ()
    loaded: Place = ()
    slots: Mapping[str, int] = field(default_factory=dict)
    grown: int = MOST_GROWN


def copies_of(
    value: Expr,
    own: Sequence[OwnLoop],
    outer: Sequence[tuple[Var, int]],
    place: Sequence[Expr] | None = None,
) -> list[Copied]:
    """The stores of a copy of `value`, whose variables are those of its loops and of loops around
    them with these extents, in program order.

    It stores to `place`, and what becomes of its indices is noted; without it, to the indices that
    it loads from.
    """
    loads = [e for e in pre_order(value) if isinstance(e, ProducerLoad)]
    indices = loads[0].indices if loads else ()
    indices = indices if place is None else tuple(place)
    target = decl_buffer([1] * len(indices), name="copy")
    zero = IntImm(0)
    body: Stmt = BufferStore(target, _with_buffers(value, {}), indices)
    for loop in reversed(own):
        body = For(loop.var, zero, IntImm(loop.extent), _KINDS[Annotation(loop.kind)], body)
    beside = decl_buffer((1,), name="beside")
    body = seq(body, BufferStore(beside, FloatImm(0.0), (zero,)))
    for var, extent in outer:
        body = For(var, zero, IntImm(extent), ForKind.SERIAL, body)
    cut = reduce(lambda f, p: p(f), PASSES[:-1], PrimFunc((), body, {}))
    func = PASSES[-1](cut)
    names = [loop.var.name for loop in own]
    terms = [_terms(index) for index in indices]
    found = _Found(target, names, len(outer), terms, func is not cut, place is not None)
    Nest(func, found)
    return found.stores


def _terms(index: Expr) -> dict[str, int]:
    """The coefficients of an index by the text of what they belong to."""
    return {str(term): by for term, by in linear(index)[1].items()}


def _with_buffers(e: Expr, buffers: dict[object, Buffer]) -> Expr:
    """The value with loads of buffers in place of those of tensors."""
    if isinstance(e, ProducerLoad):
        buffer = buffers.get(e.producer)
        if buffer is None:
            shape = [1] * len(e.indices)
            buffer = buffers[e.producer] = decl_buffer(shape, e.dtype, e.producer.name)
        return BufferLoad(buffer, e.indices)
    children = e.children()
    return e.with_children(tuple([_with_buffers(c, buffers) for c in children])) if children else e


@dataclass(eq=False)
class _Found:
    """Notes the stores of the walk."""

    target: Buffer
    names: list[str]
    outside: int
    terms: list[dict[str, int]]
    hoisted: bool
    placed: bool
    stores: list[Copied] = field(default_factory=list)
    _nodes: list[Loop] = field(default_factory=list)

    def store(self, stmt: BufferStore, nest: Nest) -> None:
        if stmt.buffer is not self.target:
            return
        count = len(self.names)
        extents, nodes, asked = [0] * count, [0] * count, [False] * count
        guarded = [part for part in guarded_parts(stmt.value) if isinstance(part, Call)]
        for loop in nest.loops[self.outside :]:
            k = self.names.index(loop.var.name)
            extents[k], nodes[k] = loop.extent, self._number(loop)
            asked[k] = any(loop.var in free_vars(part.args[0]) for part in guarded)
        loads = [e for e in pre_order(stmt.value) if isinstance(e, BufferLoad)]
        if self.placed:
            stored, loaded = place_of(stmt.indices), place_of(loads[0].indices if loads else ())
            same = stored is not None and loaded is not None
        else:
            stored = loaded = ()
            same = all(map(self._same, stmt.indices, self.terms, repeat(extents)))
        one = Copied(
            bool(loads),
            bool(guarded),
            tuple(extents),
            tuple(nodes),
            tuple(asked),
            max(0, nest.floor - self.outside),
            tuple([max(0, depth - self.outside) for depth in nest.guards]),
            tuple(count_ops(stmt.value)),
            step_weight(stmt.value),
            same,
            self.hoisted,
            share_of_branches(nest),
            stored or (),
            loaded or (),
        )
        self.stores.append(one)

    def _same(self, index: Expr, before: dict[str, int], extents: list[int]) -> bool:
        gone = {name for name, extent in zip(self.names, extents, strict=True) if not extent}
        return _terms(index) == {name: by for name, by in before.items() if name not in gone}

    def _number(self, loop: Loop) -> int:
        for k, known in enumerate(self._nodes):
            if known is loop:
                return k
        self._nodes.append(loop)
        return len(self._nodes) - 1

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        """Nothing is allocated."""
