"""FlattenBuffer: multi-dimensional buffers become flat memory.

before:
    def main(A: Buffer((16, 32), float32), B: Buffer((16, 32), float32)):
        for b in range(4):
            S = allocate((4, 40), float32, "global")
            S_1 = declare(S, (4, 32), float32, strides=(40, 1))
            for i in range(4):
                for j in range(32):
                    S_1[i, j] = A[b * 4 + i, j]
            for i2 in range(4):
                for j2 in range(32):
                    B[b * 4 + i2, j2] = S_1[i2, j2]
after:
    def main(A: Buffer((16, 32), float32), B: Buffer((16, 32), float32)):
        A_1 = view(A, (512,), float32)
        B_1 = view(B, (512,), float32)
        for b in range(4):
            S = allocate((160,), float32, "global")
            S_1 = view(S, (160,), float32)
            for i in range(4):
                for j in range(32):
                    S_1[i * 40 + j] = A_1[b * 128 + i * 32 + j]
            for i2 in range(4):
                for j2 in range(32):
                    B_1[b * 128 + i2 * 32 + j2] = S_1[i2 * 40 + j2]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import ClassVar

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, IntImm, IterVar, Range, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, const, mul, sub
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    Prefetch,
    Stmt,
    nop,
)
from autosched.tir.walk import map_children, map_expr_children, stmts
from autosched.transform.expressions.facts import Facts
from autosched.transform.expressions.flat_access import flat_load, flat_store, stored_type
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_NAME = "FlattenBuffer"


@dataclass(frozen=True)
class FlattenBuffer(FunctionPass):
    """Flatten the indices of each access: one index per group of dimensions.

    Axis separators divide the dimensions into groups; without separators there is one group.
    Allocations become flat, including the padding of strided ones. Parameters keep their shape and
    are accessed through a flat buffer over the same pointer. bool is stored as int8. Prefetches and
    declarations of views are removed. Raises ScheduleError for views of regions (LowerMatchBuffer
    comes first), and for a buffer with axis separators whose allocation has another shape.
    """

    name: ClassVar[str] = "FlattenBuffer"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if func.attrs.get("from_legacy_te_schedule"):
            return func
        return func.with_body(_Flatten(func).stmt(func.body))


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """The flat buffer that replaces a buffer, and how indices map to it.

    `strides` has one stride per dimension of the old buffer. `groups` holds the dimensions
    [first, last) of each index of `flat`. `start` is the element offset of the old buffer, or None.
    """

    flat: Buffer
    strides: tuple[Expr, ...]
    groups: tuple[tuple[int, int], ...]
    start: Expr | None

    def offsets(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The indices into `flat` of an element: one for each group of dimensions."""
        found: list[Expr] = []
        for first, last in self.groups:
            total: Expr = IntImm(0)
            for index, stride in zip(indices[first:last], self.strides[first:last], strict=True):
                total = add(total, mul(index, stride))
            found.append(total)
        if self.start is not None:
            found[0] = add(found[0], self.start)
        return tuple(found)


class _Flatten:
    def __init__(self, func: PrimFunc) -> None:
        self.facts = Facts(func)
        self.layouts: dict[Buffer, _Layout] = {}
        self.pointers: dict[Var, Var] = {}
        self.memo: dict[Expr, Expr] = {}

    # -- the walk

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case For():
                low, extent = self.expr(s.min), self.expr(s.extent)
                self.facts.bind(s.loop_var, low, extent)
            case AttrStmt(IterVar() as iv, "thread_extent" | "virtual_thread", extent):
                self.facts.bind(iv.var, const(0, iv.var.dtype), self.expr(extent))
            case AttrStmt(node=Buffer() as buffer):
                data = self._layout(buffer).flat.data
                return AttrStmt(data, s.key, self.expr(s.value), self.stmt(s.body))
            case AttrStmt(node=Var() as var) if var in self.pointers:
                node = self.pointers[var]
                return AttrStmt(node, s.key, self.expr(s.value), self.stmt(s.body))
            case Allocate():
                return self._allocate(s)
            case DeclBuffer():
                return self.stmt(s.body)
            case BufferStore():
                return self._store(s)
            case Block():
                return self._block(s)
            case Prefetch():
                return nop()
        return map_children(s, self.stmt, self.expr)

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return self.pointers.get(e, e)
        if isinstance(e, IntImm):
            return e
        done = map_expr_children(e, self.expr)
        return self._load(done) if isinstance(done, BufferLoad) else done

    def _load(self, load: BufferLoad) -> Expr:
        layout = self._layout(load.buffer)
        if layout.flat is load.buffer:
            return load
        return flat_load(load, layout.flat, self._indices(layout, load.indices))

    def _store(self, s: BufferStore) -> Stmt:
        new = map_children(s, self.stmt, self.expr)
        assert isinstance(new, BufferStore)
        layout = self._layout(s.buffer)
        if layout.flat is s.buffer:
            return new
        return flat_store(new, layout.flat, self._indices(layout, new.indices))

    def _indices(self, layout: _Layout, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(map(self._simple, layout.offsets(indices)))

    def _simple(self, e: Expr) -> Expr:
        memo = self.facts.memo(e)
        if e not in memo:
            memo[e] = self.facts.analyzer.simplify(e)
        return memo[e]

    # -- allocations and flat buffers

    def _allocate(self, s: Allocate) -> Stmt:
        declared = _declaration(s)
        if declared is not None:
            shape, strides, groups = _layout_of(declared)
            extents = tuple(self._simple(self.expr(e)) for e in _extents(shape, strides, groups))
        else:
            self._check_separators(s)
            extents = s.extents
            if len(extents) != 1:
                extents = (self._simple(reduce(mul, extents, const(1))),)
        extents = tuple(map(self.expr, extents))
        dtype = stored_type(s.dtype)
        var = s.buffer_var
        if dtype is not s.dtype:
            var = self.pointers.setdefault(var, pointer(var.name, dtype, var.scope))
        condition, body = self.expr(s.condition), self.stmt(s.body)
        same = len(extents) == len(s.extents) and all(
            a is b for a, b in zip(extents, s.extents, strict=True)
        )
        kept = s.extents if same else extents
        return s.with_(buffer_var=var, dtype=dtype, extents=kept, condition=condition, body=body)

    def _check_separators(self, s: Allocate) -> None:
        for inner in stmts(s.body):
            if isinstance(inner, DeclBuffer) and inner.buffer.data is s.buffer_var:
                if inner.buffer.axis_separators:
                    raise ScheduleError(
                        f"{_NAME}: {inner.buffer.name} has axis separators and another shape than "
                        "its allocation; allocate the shape of the buffer"
                    )

    def _layout(self, buffer: Buffer) -> _Layout:
        found = self.layouts.get(buffer)
        if found is None:
            found = self.layouts[buffer] = self._made_flat(buffer)
        return found

    def _made_flat(self, buffer: Buffer) -> _Layout:
        data = self.pointers.get(buffer.data, buffer.data)
        plain = not buffer.strides and buffer.elem_offset is None and not buffer.dtype.is_bool
        if len(buffer.shape) == 1 and plain and data is buffer.data:
            return _Layout(buffer, (IntImm(1),), ((0, 1),), None)
        shape, strides, groups = _layout_of(buffer)
        strides = tuple(map(self.expr, strides))
        flat = buffer.with_(
            data=data,
            dtype=stored_type(buffer.dtype),
            shape=tuple(self._simple(self.expr(e)) for e in _extents(shape, strides, groups)),
            strides=(),
            elem_offset=None,
            offset_factor=1,
            axis_separators=tuple(range(1, len(groups))),
        )
        start = None if buffer.elem_offset is None else self.expr(buffer.elem_offset)
        return _Layout(flat, strides, groups, start)

    # -- blocks that are not lowered yet

    def _block(self, block: Block) -> Stmt:
        if block.match_buffers:
            raise ScheduleError(
                f"{_NAME}: block {block.name_hint!r} has views of regions; run LowerMatchBuffer "
                "first"
            )
        new = map_children(block, self.stmt, self.expr)
        assert isinstance(new, Block)
        regions = (tuple(map(self._region, part)) for part in (new.reads, new.writes))
        buffers = tuple(self._layout(b).flat for b in block.alloc_buffers)
        reads, writes = regions
        same = (*reads, *writes, *buffers) == (*new.reads, *new.writes, *block.alloc_buffers)
        return new if same else new.with_(reads=reads, writes=writes, alloc_buffers=buffers)

    def _region(self, r: BufferRegion) -> BufferRegion:
        """The region of the flat buffer from the first corner of `r` to its last one."""
        layout = self._layout(r.buffer)
        if layout.flat is r.buffer:
            return r
        first = layout.offsets([x.min for x in r.region])
        last = layout.offsets([sub(add(x.min, x.extent), 1) for x in r.region])
        ranges = zip(first, last, strict=True)
        spans = (Range(self._simple(a), self._simple(sub(add(b, 1), a))) for a, b in ranges)
        return BufferRegion(layout.flat, tuple(spans))


def _declaration(s: Allocate) -> Buffer | None:
    """The first buffer declared over `s` with the same type and extents; None without one."""
    for inner in stmts(s.body):
        if isinstance(inner, DeclBuffer) and inner.buffer.data is s.buffer_var:
            buffer = inner.buffer
            if buffer.dtype is s.dtype and buffer.shape == s.extents:
                return buffer
    return None


def _layout_of(
    buffer: Buffer,
) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[tuple[int, int], ...]]:
    """The shape, strides and groups of dimensions of a buffer; a scalar buffer has one element."""
    if not buffer.shape:
        return (IntImm(1),), (), ((0, 0),)
    ends = (0, *buffer.axis_separators, len(buffer.shape))
    groups = tuple(pairwise(ends))
    if buffer.strides:
        return buffer.shape, buffer.strides, groups
    strides: list[Expr] = []
    for first, last in groups:
        inner: list[Expr] = [IntImm(1)]
        for extent in reversed(buffer.shape[first + 1 : last]):
            inner.append(mul(inner[-1], extent))
        strides += reversed(inner)
    return buffer.shape, tuple(strides), groups


def _extents(
    shape: tuple[Expr, ...], strides: tuple[Expr, ...], groups: tuple[tuple[int, int], ...]
) -> list[Expr]:
    """The number of elements that each group of dimensions takes, including padding."""
    return [mul(strides[first], shape[first]) if strides else shape[0] for first, _ in groups]
