"""PlanAndUpdateBufferAllocationLocation: move the allocations of blocks close to their uses.

before:
    def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
        with block("root"):
            reads()
            writes()
            S = alloc((16,), float32, scope="shared")
            for b in thread_binding(4, thread="blockIdx.x"):
                for i in range(4):
                    with block("S"):
                        v = axis.data_par(0:16, b * 4 + i)
                        reads(A[v:v + 1])
                        writes(S[v:v + 1])
                        S[v] = A[v]
                for j in range(4):
                    with block("B"):
                        v2 = axis.data_par(0:16, b * 4 + j)
                        reads(S[v2:v2 + 1])
                        writes(B[v2:v2 + 1])
                        B[v2] = S[v2] + 1.0
after:
    def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
        with block("root"):
            reads()
            writes()
            for b in thread_binding(4, thread="blockIdx.x"):
                with block(""):
                    reads(A[b * 4:b * 4 + 4])
                    writes(B[b * 4:b * 4 + 4])
                    S = alloc((16,), float32, scope="shared")
                    for i in range(4):
                        with block("S"):
                            v = axis.data_par(0:16, b * 4 + i)
                            reads(A[v:v + 1])
                            writes(S[v:v + 1])
                            S[v] = A[v]
                    for j in range(4):
                        with block("B"):
                            v2 = axis.data_par(0:16, b * 4 + j)
                            reads(S[v2:v2 + 1])
                            writes(B[v2:v2 + 1])
                            B[v2] = S[v2] + 1.0
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, IterKind, IterVar, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    For,
    Stmt,
)
from autosched.tir.walk import child_stmts, direct_exprs, distinct, free_vars, map_children, uses
from autosched.transform.blocks.regions import block_regions
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_NAME = "PlanAndUpdateBufferAllocationLocation"


@dataclass(frozen=True)
class PlanAndUpdateBufferAllocationLocation(FunctionPass):
    """Allocate each buffer in the lowest loop or block around all its uses.

    In a loop this makes a new block without variables around the loop's body. Three rules keep a
    buffer further out. A buffer that an ordered or opaque variable of a block indexes stays outside
    of that variable's loops, because one iteration may leave values for the next. A buffer that a
    block with a reduction variable writes stays outside of the reduction loops. Global memory stays
    outside of the loops over blockIdx. Regions of buffers now allocated inside a block leave its
    declaration. Raises ScheduleError for a block with an initialisation, for a realized region, and
    for a match of a buffer that is neither allocated nor a parameter.
    """

    name: ClassVar[str] = "PlanAndUpdateBufferAllocationLocation"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if func.attrs.get("from_legacy_te_schedule"):
            return func
        found = _Uses(func)
        found.stmt(func.body, found.top)
        if not found.owners:
            return func
        return func.with_body(_Move(found.places()).function(func.body))


@dataclass(frozen=True, slots=True, eq=False)
class _Spot:
    """A place for allocations: the function, a loop or a block.

    `number` is its index in program order, `around` the enclosing spot (None for the function), and
    `depth` the nesting level.
    """

    number: int
    around: _Spot | None = None
    depth: int = 0


def _common(a: _Spot, b: _Spot) -> _Spot:
    """The lowest common ancestor of two spots."""
    while a is not b:
        lower = a if a.depth >= b.depth else b
        assert lower.around is not None
        a, b = (lower.around, b) if lower is a else (a, lower.around)
    return a


class _Uses:
    """Finds for each buffer of a block the lowest spot around all its uses."""

    def __init__(self, func: PrimFunc) -> None:
        self.top = _Spot(0)
        self.owners: dict[Var, tuple[Buffer, _Spot]] = {}
        self._count = 0
        self._lowest: dict[Var, _Spot] = {}
        self._loops: dict[Var, _Spot] = {}
        self._launches: list[_Spot] = []
        self._made = {b.data for b in func.buffer_map.values()} | set(func.params)

    def places(self) -> dict[int, list[Buffer]]:
        """The buffers to allocate at each spot, by its number, in their old order."""
        found: dict[int, list[Buffer]] = {}
        for data, (buffer, owner) in self.owners.items():
            spot = self._lowest.get(data, owner)
            if buffer.scope.partition(".")[0] in ("", "global"):
                for launch in self._launches:
                    spot = _common(spot, launch)
            found.setdefault(spot.number, []).append(buffer)
        return found

    def stmt(self, s: Stmt, spot: _Spot) -> None:
        """Record the uses in `s`, which stands directly below `spot`."""
        match s:
            case For():
                self._exprs((s.min, s.extent), spot)
                if s.thread_binding is not None:
                    self._launch(s.thread_binding.thread_tag, spot)
                inner = self._loops[s.loop_var] = self._below(spot)
                self.stmt(s.body, inner)
            case AttrStmt(IterVar() as iv, "thread_extent"):
                self._launch(iv.thread_tag, spot)
                self._children(s, spot)
            case BlockRealize():
                self._exprs((*s.iter_values, s.predicate), spot)
                self._carried(s)
                self._block(s.block, spot)
            case Block():
                self._block(s, spot)
            case BufferRealize():
                raise ScheduleError(
                    f"{_NAME}: a region of {s.buffer.name} is realized among blocks; allocate "
                    "it in a block"
                )
            case BufferStore():
                self._use(s.buffer.data, spot)
                self._children(s, spot)
            case Allocate(var) | AllocateConst(var):
                self._made.add(var)
                self._children(s, spot)
            case _:
                self._children(s, spot)

    def _children(self, s: Stmt, spot: _Spot) -> None:
        self._exprs(direct_exprs(s), spot)
        for child in child_stmts(s):
            self.stmt(child, spot)

    def _exprs(self, exprs: Iterable[Expr], spot: _Spot) -> None:
        for e in exprs:
            for node in distinct(e):
                if isinstance(node, BufferLoad):
                    self._use(node.buffer.data, spot)
                elif isinstance(node, Var):
                    self._use(node, spot)

    def _use(self, data: Var, spot: _Spot) -> None:
        if data in self.owners:
            known = self._lowest.get(data)
            self._lowest[data] = spot if known is None else _common(known, spot)

    def _below(self, spot: _Spot) -> _Spot:
        self._count += 1
        return _Spot(self._count, spot, spot.depth + 1)

    def _launch(self, tag: str, spot: _Spot) -> None:
        if tag.startswith("blockIdx"):
            self._launches.append(spot)

    def _block(self, block: Block, spot: _Spot) -> None:
        if block.init is not None:
            raise ScheduleError(
                f"{_NAME}: block {block.name_hint!r} has an initialisation; run LowerInitBlock "
                "first"
            )
        inner = self._below(spot)
        for buffer in block.alloc_buffers:
            self.owners[buffer.data] = (buffer, inner)
            self._made.add(buffer.data)
        for match in block.match_buffers:
            source = match.source.buffer
            if source.data not in self._made:
                raise ScheduleError(
                    f"{_NAME}: {match.buffer.name} matches a part of {source.name}, which nothing "
                    "makes; allocate it in a block around, or make it a parameter"
                )
            self._made.add(match.buffer.data)
            self._use(source.data, inner)
        self.stmt(block.body, inner)

    def _carried(self, s: BlockRealize) -> None:
        """Count buffers that carry values between iterations as used outside of the loops."""
        block = s.block
        sources = tuple(m.source for m in block.match_buffers)
        for iv, value in zip(block.iter_vars, s.iter_values, strict=True):
            loops = [self._loops[v] for v in free_vars(value) if v in self._loops]
            if iv.kind == IterKind.DATA_PAR or not loops:
                continue
            outermost = min(loops, key=lambda loop: loop.depth)
            assert outermost.around is not None
            for r in (
                block.writes
                if iv.kind == IterKind.REDUCE
                else (
                    *block.reads,
                    *block.writes,
                    *sources,
                )
            ):
                if iv.kind == IterKind.REDUCE or _mentions(r, iv.var):
                    self._use(r.buffer.data, outermost.around)


def _mentions(region: BufferRegion, var: Var) -> bool:
    return any(uses(e, (var,)) for r in region.region for e in (r.min, r.extent))


class _Move:
    """Allocates buffers at their spots; numbers spots as `_Uses` does."""

    def __init__(self, places: dict[int, list[Buffer]]) -> None:
        self._places = places
        self._count = 0
        self._made: list[Var] = []

    def function(self, body: Stmt) -> Stmt:
        """Rewrite the body of a function."""
        return self._wrapped(self.stmt(body), 0)

    def stmt(self, s: Stmt) -> Stmt:
        """Rewrite `s` with allocations moved to their spots."""
        if isinstance(s, For):
            number = self._next()
            return s.with_(body=self._wrapped(self.stmt(s.body), number))
        if isinstance(s, Block):
            return self._block(s)
        return map_children(s, self.stmt)

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _wrapped(self, body: Stmt, number: int) -> Stmt:
        """Wrap `body` in a block that allocates the buffers of spot `number`, if there are any."""
        buffers = tuple(self._places.get(number, ()))
        if not buffers:
            return body
        made = {b.data for b in buffers}
        self._made += made
        reads, writes = block_regions(body)
        block = Block((), _outside(reads, made), _outside(writes, made), "", body)
        return BlockRealize((), TRUE, block.with_(alloc_buffers=buffers))

    def _block(self, s: Block) -> Block:
        number, before = self._next(), len(self._made)
        body = self.stmt(s.body)
        buffers = tuple(self._places.get(number, ()))
        self._made += [b.data for b in buffers]
        inside = set(self._made[before:])
        return s.with_(
            body=body,
            reads=_outside(s.reads, inside),
            writes=_outside(s.writes, inside),
            alloc_buffers=s.alloc_buffers if buffers == s.alloc_buffers else buffers,
        )


def _outside(regions: tuple[BufferRegion, ...], made: set[Var]) -> tuple[BufferRegion, ...]:
    """The regions of buffers that are not in `made`."""
    left = tuple(r for r in regions if r.buffer.data not in made)
    return regions if len(left) == len(regions) else left
