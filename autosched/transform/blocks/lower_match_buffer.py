"""LowerMatchBuffer: accesses of a view become accesses of the buffer that the view matches.

before:
    def main(A: Buffer((16, 16), float32), B: Buffer((4, 16), float32)):
        for i in range(4):
            for j in range(4):
                with block("copy"):
                    reads(A[i * 4:i * 4 + 4, j * 4:j * 4 + 4])
                    writes(B[i:i + 1, j * 4:j * 4 + 4])
                    M = match[at: int32, s0: int32](A[i * 4:i * 4 + 4, j * 4:j * 4 + 4], (4, 4),
                        float32, strides=(s0, 1), elem_offset=at)
                    for k in range(4):
                        B[i, j * 4 + k] = M[1, k] + float32(at + s0)
after:
    def main(A: Buffer((16, 16), float32), B: Buffer((4, 16), float32)):
        for i in range(4):
            for j in range(4):
                with block("copy"):
                    reads(A[i * 4:i * 4 + 4, j * 4:j * 4 + 4])
                    writes(B[i:i + 1, j * 4:j * 4 + 4])
                    for k in range(4):
                        B[i, j * 4 + k] = A[i * 4 + 1, j * 4 + k] + float32(i * 64 + j * 4 + 16)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from autosched.arith import Analyzer
from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, IntImm, IterVar, Ramp, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import stored_in
from autosched.tir.op import add, const, eq, floormod, mul
from autosched.tir.stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    MatchBufferRegion,
    Stmt,
)
from autosched.tir.substitute_stmt import map_buffer
from autosched.tir.walk import (
    free_vars,
    loads,
    map_children,
    map_ranges,
    rewrite_expr,
    stmts,
    substitute,
    unique_exprs,
)
from autosched.transform.blocks.strides import strides_of
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.user_warning import warn

_NAME = "LowerMatchBuffer"
_T = TypeVar("_T")


@dataclass(frozen=True)
class LowerMatchBuffer(FunctionPass):
    """Bind the free fields of each view (pointer, offset, strides, extents) and remove the view.

    Variables that a view binds are replaced in the whole block, also in calls and in views of
    views. Raises ScheduleError for a view of another type or scope than its source; for an extent,
    stride or offset that is not provably equal to that of the view; for an omitted dimension with
    more than one element; and for an access with a predicate. Warns if a view claims a larger
    alignment than its source has.
    """

    name: ClassVar[str] = "LowerMatchBuffer"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not any(isinstance(s, Block) and s.match_buffers for s in stmts(func.body)):
            return func
        return func.with_body(_Lower(func).stmt(func.body))


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """A view: the elements of `source` from the start of `region` on; `source` is not a view.

    `region` has one range per dimension of `source`; `name` is the name of the view.
    """

    source: Buffer
    region: tuple[Range, ...]
    name: str

    def indices(self, own: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The indices in the source of the element of the view at indices `own`."""
        dropped = len(self.region) - len(own)
        kept = zip(self.region[dropped:], own, strict=True)
        return (*(r.min for r in self.region[:dropped]), *(_plus(r.min, e) for r, e in kept))

    def part(self, own: tuple[Range, ...]) -> BufferRegion:
        """The region of the source that corresponds to the region `own` of the view."""
        mins = self.indices(tuple(r.min for r in own))
        dropped = len(mins) - len(own)
        extents = (*(r.extent for r in self.region[:dropped]), *(r.extent for r in own))
        return BufferRegion(self.source, tuple(map(Range, mins, extents)))


def _plus(low: Expr, index: Expr) -> Expr:
    if isinstance(index, Ramp):
        return Ramp(add(low, index.base), index.stride, index.lanes)
    return add(low, index)


class _Lower:
    def __init__(self, func: PrimFunc) -> None:
        self.analyzer = Analyzer()
        self.values: dict[Var, Expr] = {}
        self.views: dict[Buffer, _View] = {}
        self.buffers: dict[Buffer, Buffer] = {}
        self.known: set[Var] = {p for p in func.params if not p.dtype.is_handle}
        for buffer in func.buffers:
            for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                self.known |= free_vars(e) if e is not None else frozenset()
            for extent in buffer.shape:
                for var in free_vars(extent):
                    self.analyzer.mark_non_negative(var)

    # -- the walk

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case For():
                self._loop(s.loop_var, Range(self.expr(s.min), self.expr(s.extent)))
            case AttrStmt(IterVar() as iv, "thread_extent" | "virtual_thread", extent):
                self._loop(iv.var, Range(const(0, iv.var.dtype), self.expr(extent)))
            case LetStmt(var):
                self.known.add(var)
            case BlockRealize():
                self.known.update(iv.var for iv in s.block.iter_vars)
            case Block():
                return self._block(s)
            case DeclBuffer():
                self._declare(s.buffer)
        new = map_children(s, self.stmt, self.expr)
        match new:
            case BufferStore() if new.buffer in self.views:
                self._refuse_predicate(new.predicate, new.buffer)
                view = self.views[new.buffer]
                return BufferStore(view.source, new.value, view.indices(new.indices))
            case BufferStore() | DeclBuffer():
                return new.with_(buffer=self.buffers.get(new.buffer, new.buffer))
            case AttrStmt(node=Buffer() as buffer):
                found = self.views.get(buffer)
                node = self.buffers.get(buffer, buffer) if found is None else found.source
                return new.with_(node=node)
            case AttrStmt(node=Var() as var):
                return new.with_(node=self.values.get(var, var))
        return new

    def _loop(self, var: Var, domain: Range) -> None:
        self.known.add(var)
        self.analyzer.bind(var, domain, override=True)

    def _declare(self, buffer: Buffer) -> None:
        """Replace a buffer whose fields mention variables that a view has bound."""
        new = map_buffer(buffer, self.expr)
        data = self.values.get(buffer.data, buffer.data)
        if new is not buffer or data is not buffer.data:
            self.buffers[buffer] = new.with_(data=data)

    def expr(self, e: Expr) -> Expr:
        """`e` with accesses of views replaced by accesses of their sources."""
        return rewrite_expr(substitute(e, self.values), self._load)

    def _load(self, e: Expr) -> Expr | None:
        if not isinstance(e, BufferLoad):
            return None
        view = self.views.get(e.buffer)
        if view is not None:
            self._refuse_predicate(e.predicate, e.buffer)
            return BufferLoad(view.source, view.indices(e.indices))
        new = self.buffers.get(e.buffer)
        return None if new is None else BufferLoad(new, e.indices, e.predicate)

    def _refuse_predicate(self, predicate: Expr | None, buffer: Buffer) -> None:
        if predicate is not None:
            raise ScheduleError(
                f"{_NAME}: {buffer.name}, a view of a region, is accessed with a predicate; put "
                "the access into an `if`"
            )

    def _region(self, r: BufferRegion) -> BufferRegion:
        ranges = map_ranges(r.region, self.expr)
        view = self.views.get(r.buffer)
        if view is not None:
            return view.part(ranges)
        buffer = self.buffers.get(r.buffer, r.buffer)
        same = buffer is r.buffer and ranges is r.region
        return r if same else BufferRegion(buffer, ranges)

    def _block(self, block: Block) -> Block:
        outer = dict(self.values)
        for buffer in block.alloc_buffers:
            self._declare(buffer)
        reads, writes = (
            tuple(map(self._region, block.reads)),
            tuple(map(self._region, block.writes)),
        )
        pointers = {e for e in unique_exprs(block.body) if isinstance(e, Var)}
        stored = stored_in(block.body)
        for match in block.match_buffers:
            self._refuse_changing(match, stored)
            self._match(match, match.buffer.data in pointers)
        new = map_children(block.with_(reads=(), writes=(), match_buffers=()), self.stmt, self.expr)
        assert isinstance(new, Block)
        self.values = outer
        return new.with_(
            reads=_same(block.reads, reads),
            writes=_same(block.writes, writes),
            match_buffers=(),
            alloc_buffers=_same(
                block.alloc_buffers, tuple(self.buffers.get(b, b) for b in block.alloc_buffers)
            ),
        )

    # -- binding

    def _match(self, match: MatchBufferRegion, has_pointer: bool) -> None:
        view, part = match.buffer, self._region(match.source)
        source, region = part.buffer, part.region
        self._check(view, source)
        dropped = len(region) - len(view.shape)
        if dropped < 0:
            raise ScheduleError(
                f"{_NAME}: {view.name} has {len(view.shape)} dimensions, but the region of "
                f"{source.name} that it matches has {len(region)}"
            )
        for dim, r in enumerate(region[:dropped]):
            if not self.analyzer.can_prove_equal(r.extent, const(1, r.extent.dtype)):
                raise ScheduleError(
                    f"{_NAME}: {view.name} leaves out dimension {dim} of {source.name}, of which "
                    f"it matches {r.extent!r} elements; only a dimension of 1 may be left out"
                )
        self.values[view.data] = source.data
        self._bind_offset(view, source, region, has_pointer)
        for dim in reversed(range(len(view.strides))):
            stride = strides_of(source)[dropped + dim]
            self._bind(view.strides[dim], stride, f"{view.name}.strides_{dim}")
        for dim, extent in enumerate(view.shape):
            self._bind(extent, region[dropped + dim].extent, f"{view.name}.shape_{dim}")
        self.views[view] = _View(source, region, view.name)

    def _refuse_changing(self, match: MatchBufferRegion, stored: set[Var]) -> None:
        for e in (e for r in match.source.region for e in (r.min, r.extent)):
            for load in loads(e):
                if isinstance(load, BufferLoad) and load.buffer.data in stored:
                    raise ScheduleError(
                        f"{_NAME}: the region of {match.buffer.name} depends on "
                        f"{load.buffer.name}, which the block writes; read {load!r} into a "
                        "variable in front of the block"
                    )

    def _check(self, view: Buffer, source: Buffer) -> None:
        for what, own, other in (
            ("type", view.dtype, source.dtype),
            ("storage scope", view.scope or "global", source.scope or "global"),
        ):
            if own != other:
                raise ScheduleError(
                    f"{_NAME}: {view.name} has the {what} {own}, but {source.name}, a part of "
                    f"which it matches, has {other}"
                )
        if source.data_alignment % view.data_alignment:
            warn(
                f"{_NAME}: {view.name} is aligned to {view.data_alignment} bytes, but "
                f"{source.name}, a part of which it matches, to {source.data_alignment}"
            )

    def _bind_offset(
        self, view: Buffer, source: Buffer, region: tuple[Range, ...], has_pointer: bool
    ) -> None:
        wanted = view.elem_offset
        if wanted is None:
            if not has_pointer:  # nothing uses the start of the view
                return
            wanted = IntImm(0)
        start: Expr = const(0, wanted.dtype)
        if not source.axis_separators:
            for r, stride in zip(region, strides_of(source), strict=True):
                start = add(start, mul(r.min, stride))
            if source.elem_offset is not None:
                start = add(source.elem_offset, start)
            start = self.analyzer.simplify(start)
            factor = const(view.offset_factor, start.dtype)
            if not self.analyzer.can_prove(eq(floormod(start, factor), 0)):
                raise ScheduleError(
                    f"{_NAME}: {view.name} must begin at a multiple of {view.offset_factor} "
                    f"elements (its offset_factor), but in {source.name} it begins at {start!r}"
                )
        self._bind(wanted, start, f"{view.name}.elem_offset")

    def _bind(self, wanted: Expr, value: Expr, name: str) -> None:
        """Bind a field of a view to its value, or check that it equals the value.

        `wanted` is bound if it is a variable without a value. Raises ScheduleError if the types of
        `wanted` and `value` differ, and for any other `wanted` that is not provably equal to it.
        """
        if wanted.dtype is not value.dtype:
            raise ScheduleError(
                f"{_NAME}: {name} is {wanted.dtype}, but its value is {value.dtype}"
            )
        if isinstance(wanted, Var) and wanted not in self.values and wanted not in self.known:
            self.values[wanted] = value
            return
        said = self.expr(wanted)
        if not self.analyzer.can_prove_equal(said, value):
            raise ScheduleError(
                f"{_NAME}: buffer match constraint for {name} unmet: expected {value!r}, "
                f"found {said!r}"
            )


def _same(old: tuple[_T, ...], new: tuple[_T, ...]) -> tuple[_T, ...]:
    """`old` itself if `new` holds the same objects, else `new`."""
    return old if all(a is b for a, b in zip(old, new, strict=True)) else new
