"""CompactBufferAllocation: shrink each buffer of a block to the region that is accessed.

before:
    def main(A: Buffer((16, 32), float32), B: Buffer((16, 32), float32)):
        for b in thread_binding(4, thread="blockIdx.x"):
            with block(""):
                reads(A[b * 4:b * 4 + 4, 0:32])
                writes(B[b * 4:b * 4 + 4, 0:32])
                S = alloc((16, 32), float32, scope="shared")
                for i in range(4):
                    for j in range(32):
                        with block("S"):
                            reads(A[b * 4 + i:b * 4 + i + 1, j:j + 1])
                            writes(S[b * 4 + i:b * 4 + i + 1, j:j + 1])
                            annotations({"buffer_dim_align": [[0, 0, 32, 8]]})
                            S[b * 4 + i, j] = A[b * 4 + i, j]
                for i2 in range(4):
                    for j2 in range(32):
                        B[b * 4 + i2, j2] = S[b * 4 + i2, j2] + 1.0
after:
    def main(A: Buffer((16, 32), float32), B: Buffer((16, 32), float32)):
        for b in thread_binding(4, thread="blockIdx.x"):
            with block(""):
                reads(A[b * 4:b * 4 + 4, 0:32])
                writes(B[b * 4:b * 4 + 4, 0:32])
                S = alloc((4, 32), float32, scope="shared", strides=(40, 1))
                for i in range(4):
                    for j in range(32):
                        with block("S"):
                            reads(A[b * 4 + i:b * 4 + i + 1, j:j + 1])
                            writes(S[b * 4 + i - b * 4:b * 4 + i - b * 4 + 1, j:j + 1])
                            annotations({"buffer_dim_align": [[0, 0, 32, 8]]})
                            S[b * 4 + i - b * 4, j] = A[b * 4 + i, j]
                for i2 in range(4):
                    for j2 in range(32):
                        B[b * 4 + i2, j2] = S[b * 4 + i2 - b * 4, j2] + 1.0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from autosched.arith.intset import IntSet
from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_zero
from autosched.tir.expr import Broadcast, BufferLoad, Expr, Ramp, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import const, max_, min_, sub
from autosched.tir.stmt import (
    Allocate,
    Block,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    MatchBufferRegion,
    Stmt,
)
from autosched.tir.substitute_stmt import replace_buffers
from autosched.tir.walk import (
    map_children,
    rewrite_expr,
    stmts,
    unique_exprs,
    uses,
)
from autosched.transform.blocks.regions import AccessWalk, Box, Scope, hull
from autosched.transform.blocks.strides import aligned_strides, allocated_extents
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_NAME = "CompactBufferAllocation"
_ALIGN = "buffer_dim_align"
_EXPLICIT = (("explicit_read_region", "reads", False), ("explicit_write_region", "writes", True))
_RANKS = {"": 0, "global": 0, "shared": 1, "warp": 2}


@dataclass(frozen=True)
class CompactBufferAllocation(FunctionPass):
    """Shrink the buffers that blocks (or Allocates with one view) allocate; parameters stay.

    The region that is kept covers every access in one execution of the statement that allocates
    the buffer, by all threads that share the buffer. With `is_strict` the region is clipped to the
    bounds of the old buffer. A buffer whose pointer is passed to a call keeps its strides, because
    the offsets in the call cannot change. A buffer without accesses stays as it is. Rows are padded
    as the annotation `buffer_dim_align` asks: [index among the block's writes, dimension, factor,
    offset]. Raises ScheduleError for blocks that are not opaque and for a buffer that is allocated
    twice.
    """

    is_strict: bool = True
    name: ClassVar[str] = "CompactBufferAllocation"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if func.attrs.get("from_legacy_te_schedule"):
            return func
        touched = _Touched(func, self.is_strict)
        touched.stmt(func.body)
        changes: dict[Buffer, _Change] = {}
        for buffer, region in touched.regions.items():
            shape = tuple(r.extent for r in region)
            strides = aligned_strides(shape, touched.alignment.get(buffer.data, {}))
            mins = tuple(r.min for r in region)
            if shape != buffer.shape or strides or not all(map(is_zero, mins)):
                new = buffer.with_(shape=shape, strides=strides or buffer.strides)
                changes[buffer] = _Change(new, mins)
        return func.with_body(_Rewrite(changes).function(func.body)) if changes else func


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """The new, smaller buffer, and the indices in the old buffer of its first element."""

    buffer: Buffer
    mins: tuple[Expr, ...]


class _Touched(AccessWalk):
    """Computes the region to keep of each buffer that the function allocates."""

    def __init__(self, func: PrimFunc, is_strict: bool) -> None:
        super().__init__()
        self.is_strict = is_strict
        self.regions: dict[Buffer, Box] = {}
        self.alignment: dict[Var, dict[int, tuple[int, int]]] = {}
        self._depths: dict[Buffer, int] = {}
        self._of_pointer: dict[Var, Buffer] = {}
        self._boxes: dict[Buffer, list[tuple[IntSet, ...]]] = {}
        self._exposed: set[Buffer] = set()
        self._declared: list[dict[Buffer, list[Box]]] = []
        self._explicit: list[tuple[Buffer, bool]] = []
        self._views = _views(func)
        allocated = (s.buffer_var for s in stmts(func.body) if isinstance(s, Allocate))
        self._allocations = Counter(allocated)

    # -- allocations

    def stmt(self, s: Stmt) -> None:
        if not isinstance(s, Allocate):
            super().stmt(s)
            return
        buffer = self._only_view(s)
        if buffer is None:
            super().stmt(s)
            return
        self._made(buffer)
        self._align(buffer.data, s.annotations.get(_ALIGN, ()), None)
        super().stmt(s)
        self._finish(buffer)

    def _only_view(self, s: Allocate) -> Buffer | None:
        """The only buffer over an allocation, if it has its type and extents and is compact.

        None for several buffers, for any other buffer, and for a pointer that is allocated twice.
        """
        views = self._views.get(s.buffer_var, [])
        if len(views) != 1 or self._allocations[s.buffer_var] != 1:
            return None
        (buffer,) = views
        plain = buffer.elem_offset is None and not buffer.strides
        same = buffer.dtype is s.dtype and buffer.shape == s.extents
        return buffer if plain and same else None

    def block(self, block: Block) -> None:
        if block.init is not None or block.iter_vars:
            raise ScheduleError(
                f"{_NAME}: block {block.name_hint!r} has "
                + ("an initialisation" if block.init is not None else "iteration variables")
                + "; run LowerInitBlock and ConvertBlocksToOpaque first"
            )
        for buffer in block.alloc_buffers:
            self._made(buffer)
        self._align(None, block.annotations.get(_ALIGN, ()), block)
        declared: dict[Buffer, list[Box]] = {}
        for r in (*block.reads, *block.writes):
            declared.setdefault(r.buffer, []).append(self.known_box(r.region))
        self._declared.append(declared)
        explicit = len(self._explicit)
        for key, field, is_write in _EXPLICIT:
            for number in block.annotations.get(key, ()):
                r = getattr(block, field)[int(getattr(number, "value", number))]
                self._touch(r.buffer, self.known_box(r.region))
                self._explicit.append((r.buffer, is_write))
        for match in block.match_buffers:
            source = match.source
            self._touch(source.buffer, self.known_box(source.region))
        self.children(block)
        del self._explicit[explicit:]
        self._declared.pop()
        for buffer in block.alloc_buffers:
            self._finish(buffer)

    def _made(self, buffer: Buffer) -> None:
        if buffer.data in self._of_pointer:
            what = "twice" if buffer in self._depths else "over the memory of another buffer"
            raise ScheduleError(
                f"{_NAME}: {buffer.name} is allocated {what}; give each allocation its own buffer"
            )
        self._of_pointer[buffer.data] = buffer
        self._depths[buffer] = len(self.scopes)

    def _align(self, data: Var | None, entries: Sequence[Any], block: Block | None) -> None:
        for entry in entries:
            number, dim, factor, offset = (int(getattr(e, "value", e)) for e in entry)
            pointer = block.writes[number].buffer.data if block is not None else data
            assert pointer is not None
            self.alignment.setdefault(pointer, {})[dim] = (factor, offset)

    # -- accesses

    def access(self, buffer: Buffer, box: Box, is_write: bool) -> None:
        if (buffer, is_write) not in self._explicit:
            self._touch(buffer, box)

    def address(self, load: BufferLoad) -> None:
        self._expose(load.buffer)

    def pointer(self, var: Var) -> None:
        buffer = self._of_pointer.get(var)
        if buffer is not None:
            self._expose(buffer)

    def _expose(self, buffer: Buffer) -> None:
        """Record that the address of `buffer` escapes.

        The regions of the buffer that the innermost enclosing block declares count as used; if no
        block declares any, the whole buffer does.
        """
        if buffer not in self._depths:
            return
        self._exposed.add(buffer)
        declared = next((d[buffer] for d in reversed(self._declared) if buffer in d), None)
        whole = BufferRegion.full(buffer).region
        for box in declared or [whole]:
            self._touch(buffer, box)

    def _touch(self, buffer: Buffer, box: Box) -> None:
        depth = self._depths.get(buffer)
        if depth is None:
            self.pointer(buffer.data)  # another view of memory that may be allocated here
            return
        shared = (s for s in self.scopes[:depth] if _shares(buffer.scope, s))
        moving = [*shared, *self.scopes[depth:]]
        self._boxes.setdefault(buffer, []).append(self.relaxed(box, moving))

    # -- the region to keep

    def _finish(self, buffer: Buffer) -> None:
        """Compute the region of a buffer when the walk leaves the scope of its allocation."""
        whole = BufferRegion.full(buffer).region
        box = hull(self._boxes.pop(buffer, ()), buffer, self)
        if box is None:
            box = whole
        region = tuple(map(self._final, box, buffer.shape))
        if buffer in self._exposed or buffer.strides:
            kept = all(is_zero(r.min) for r in region)
            inner = all(r.extent is e for r, e in zip(region[1:], buffer.shape[1:], strict=True))
            region = region if kept and inner else whole
        self.regions[buffer] = region

    def _final(self, r: Range, extent: Expr) -> Range:
        low, length = r.min, r.extent
        if self.is_strict:
            low = self.analyzer.simplify(max_(const(0, low.dtype), low))
            length = self.analyzer.simplify(min_(extent, length))
        if uses(length, (s.var for s in self.scopes)):
            bound = self.analyzer.const_int_bound(length).max_value
            if bound >= length.dtype.max_value:
                return Range(const(0, extent.dtype), extent)
            length = const(bound, length.dtype)
        return Range(low, length)


def _shares(scope: str, around: Scope) -> bool:
    """Whether all threads of the enclosing launch `around` share one allocation in `scope`."""
    if not around.tag:
        return False
    kind = scope.partition(".")[0]
    if kind == "warp":
        return around.tag == "threadIdx.x"
    return _RANKS.get(kind, 3) <= (0 if around.tag.startswith("blockIdx") else 1)


def _views(func: PrimFunc) -> dict[Var, list[Buffer]]:
    """The buffers over each pointer that are accessed, declared or named in a region of a block."""
    found: dict[Buffer, None] = {}
    for s in stmts(func.body):
        match s:
            case BufferStore(buffer) | DeclBuffer(buffer):
                found.setdefault(buffer)
            case Block():
                for r in (*s.reads, *s.writes, *(m.source for m in s.match_buffers)):
                    found.setdefault(r.buffer)
    for e in unique_exprs(func.body):
        if isinstance(e, BufferLoad):
            found.setdefault(e.buffer)
    views: dict[Var, list[Buffer]] = {}
    for buffer in found:
        views.setdefault(buffer.data, []).append(buffer)
    return views


class _Rewrite:
    def __init__(self, changes: Mapping[Buffer, _Change]) -> None:
        self._changes = changes

    def function(self, body: Stmt) -> Stmt:
        """Rewrite the body for the smaller buffers; indices count from their first elements."""
        table = {old: change.buffer for old, change in self._changes.items()}
        self._extents = {b.data: allocated_extents(b) for b in table.values()}
        return replace_buffers(self._stmt(body), table)

    def _stmt(self, s: Stmt) -> Stmt:
        new = map_children(s, self._stmt, self._expr)
        match new:
            case BufferStore():
                return new.with_(indices=self._shift(new.buffer, new.indices))
            case Allocate() if new.buffer_var in self._extents:
                return new.with_(extents=self._extents[new.buffer_var])
            case Block():
                return self._block(new)
        return new

    def _block(self, block: Block) -> Block:
        matches = []
        for m in block.match_buffers:
            source = self._region(m.source)
            matches.append(m if source is m.source else MatchBufferRegion(m.buffer, source))
        return block.with_(
            reads=tuple(map(self._region, block.reads)),
            writes=tuple(map(self._region, block.writes)),
            match_buffers=tuple(matches),
        )

    def _region(self, r: BufferRegion) -> BufferRegion:
        change = self._changes.get(r.buffer)
        if change is None or all(map(is_zero, change.mins)):
            return r
        ranges = zip(r.region, change.mins, strict=True)
        return BufferRegion(r.buffer, tuple(Range(sub(x.min, low), x.extent) for x, low in ranges))

    def _expr(self, e: Expr) -> Expr:
        return rewrite_expr(e, self._load)

    def _load(self, e: Expr) -> Expr | None:
        if isinstance(e, BufferLoad) and e.buffer in self._changes:
            return BufferLoad(e.buffer, self._shift(e.buffer, e.indices), e.predicate)
        return None

    def _shift(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        change = self._changes.get(buffer)
        if change is None:
            return indices
        return tuple(map(_minus, indices, change.mins))


def _minus(index: Expr, low: Expr) -> Expr:
    """`index - low`; from a vector of indices `low` is subtracted in every lane."""
    match index:
        case _ if is_zero(low):
            return index
        case Ramp(base, stride, lanes):
            return Ramp(sub(base, low), stride, lanes)
        case Broadcast(value, lanes):
            return Broadcast(sub(value, low), lanes)
    return sub(index, low if index.dtype.lanes == 1 else Broadcast(low, index.dtype.lanes))
