"""StorageFlatten: turn realized multi-dimensional regions into flat allocations.

before:
    def main(A: Buffer((16, 8), float32)):
        attrs(from_legacy_te_schedule=True)
        for i in range(4):
            realize(B[i * 4:i * 4 + 4, 0:8], float32, "", shape=(16, 8))
            for j in range(8):
                B[i * 4 + 1, j] = A[i * 4 + 1, j]
after:
    def main(A: Buffer((16, 8), float32)):
        attrs(from_legacy_te_schedule=True)
        A_1 = view(A, (128,), float32)
        for i in range(4):
            B = allocate((32,), float32, "global")
            for j in range(8):
                B[(i * 4 + 1 - i * 4) * 8 + j] = A_1[(i * 4 + 1) * 8 + j]

Internal buffers shrink to the realized region and get the strides that buffer_dim_align asks for. A
buffer that names no scope gets the scope of the threads around it. Parameters are accessed through
a flat buffer over the same pointer. bool is stored as int8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, IterVar, Range, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, all_, const, eq, floormod, mul, sub
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Prefetch,
    Stmt,
)
from autosched.tir.walk import map_children, map_expr_children
from autosched.transform.expressions.flat_access import flat_load, flat_store, stored_type
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.from_te.flat_prefetch import flat_prefetch
from autosched.transform.from_te.thread_scope_propagate import infer_scope


@dataclass(frozen=True)
class StorageFlatten(FunctionPass):
    """Flatten functions from TE schedules; `cache_line` (bytes) is the step of prefetches.

    Raises ScheduleError if a parameter is realized with another shape than its own.
    """

    cache_line: int = 64
    name: ClassVar[str] = "StorageFlatten"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.attrs.get("from_legacy_te_schedule"):
            return func
        return func.with_body(_Flatten(func, self.cache_line).stmt(func.body))


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Maps an element of a buffer to an offset in `flat`.

    `mins` are the indices of the first realized element, `strides` are in elements, and `start` is
    the offset of the buffer, or None.
    """

    flat: Buffer
    mins: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    start: Expr | None

    def offset(self, indices: tuple[Expr, ...]) -> Expr:
        total = self.start
        for index, low, stride in zip(indices, self.mins, self.strides, strict=True):
            term = mul(sub(index, low), stride)
            total = term if total is None else add(total, term)
        return IntImm(0) if total is None else total


def _aligned_strides(
    shape: tuple[Expr, ...], align: dict[int, tuple[int, int]]
) -> tuple[Expr, ...]:
    """Row-major strides; `align` maps a dimension to (factor, offset) of its stride.

    Such a stride is a multiple of `factor` plus `offset`.
    """
    strides: list[Expr] = []
    stride: Expr = const(1, shape[-1].dtype) if shape else IntImm(1)
    for dim in reversed(range(len(shape))):
        if dim in align:
            factor, offset = align[dim]
            rest = floormod(sub(factor + offset, floormod(stride, factor)), factor)
            stride = add(stride, rest)
        strides.append(stride)
        stride = mul(stride, shape[dim])
    return tuple(reversed(strides))


def _size(shape: tuple[Expr, ...], strides: tuple[Expr, ...]) -> Expr:
    return mul(strides[0], shape[0]) if shape else IntImm(1)


class _Flatten:
    def __init__(self, func: PrimFunc, cache_line: int) -> None:
        self.external = set(func.buffer_map.values())
        self.cache_line = cache_line
        self.layouts: dict[Buffer, _Layout] = {}
        self.pointers: dict[Var, Var] = {}
        self.threads: list[IterVar] = []
        self.align: dict[Buffer, dict[int, tuple[int, int]]] = {}
        self.memo: dict[Expr, Expr] = {}

    def stmt(self, s: Stmt) -> Stmt:
        rule = self.rules.get(type(s))
        return map_children(s, self.stmt, self.expr) if rule is None else rule(self, s)

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return self.pointers.get(e, e)
        if isinstance(e, IntImm):
            return e
        done = self.memo.get(e)
        if done is None:
            done = map_expr_children(e, self.expr)
            if isinstance(done, BufferLoad):
                done = self._load(done)
            self.memo[e] = done
        return done

    def _load(self, load: BufferLoad) -> Expr:
        layout = self._layout(load.buffer)
        if layout.flat is load.buffer:
            return load
        return flat_load(load, layout.flat, (layout.offset(load.indices),))

    def _layout(self, buffer: Buffer) -> _Layout:
        found = self.layouts.get(buffer)
        if found is None:
            found = self.layouts[buffer] = self._view(buffer)
        return found

    def _view(self, buffer: Buffer) -> _Layout:
        """The layout of existing storage: a parameter, an Allocate, a view."""
        data = self.pointers.get(buffer.data, buffer.data)
        is_flat = len(buffer.shape) == 1 and not buffer.strides and buffer.elem_offset is None
        if is_flat and data is buffer.data and not buffer.dtype.is_bool:
            return _Layout(buffer, (IntImm(0),), (IntImm(1),), None)
        strides = tuple(map(self.expr, buffer.strides or _aligned_strides(buffer.shape, {})))
        start = None if buffer.elem_offset is None else self.expr(buffer.elem_offset)
        flat = Buffer(
            data,
            stored_type(buffer.dtype),
            (_size(buffer.shape, strides),),
            name=buffer.name,
            data_alignment=buffer.data_alignment,
        )
        mins = tuple(const(0, extent.dtype) for extent in buffer.shape)
        return _Layout(flat, mins, strides, start)

    def _store(self, s: Stmt) -> Stmt:
        assert isinstance(s, BufferStore)
        new = map_children(s, self.stmt, self.expr)
        assert isinstance(new, BufferStore)
        layout = self._layout(s.buffer)
        if layout.flat is s.buffer:
            return new
        return flat_store(new, layout.flat, (layout.offset(new.indices),))

    def _attr(self, s: Stmt) -> Stmt:
        assert isinstance(s, AttrStmt)
        if s.key == "thread_extent":
            self.threads.append(s.node)
            try:
                return map_children(s, self.stmt, self.expr)
            finally:
                self.threads.pop()
        if s.key == "buffer_dim_align":
            assert isinstance(s.value, Call)
            dim, factor, offset = (int(a.value) for a in s.value.args if isinstance(a, IntImm))
            self.align.setdefault(s.node, {})[dim] = (factor, offset)
            return self.stmt(s.body)
        if isinstance(s.node, Buffer):
            data = self._layout(s.node).flat.data
            return AttrStmt(data, s.key, self.expr(s.value), self.stmt(s.body))
        if isinstance(s.node, Var) and s.node in self.pointers:
            node = self.pointers[s.node]
            return AttrStmt(node, s.key, self.expr(s.value), self.stmt(s.body))
        return map_children(s, self.stmt, self.expr)

    def _realize(self, s: Stmt) -> Stmt:
        assert isinstance(s, BufferRealize)
        buffer = s.buffer
        if buffer in self.external:
            return self._check_external(s)
        if buffer in self.layouts:
            self.memo.clear()  # realized again with other offsets
        mins = tuple(self.expr(r.min) for r in s.bounds)
        shape = tuple(self.expr(r.extent) for r in s.bounds)
        strides = _aligned_strides(shape, self.align.pop(buffer, {}))
        scope = infer_scope(buffer.scope, self.threads)
        dtype = stored_type(buffer.dtype)
        data = buffer.data
        if scope != data.scope or data.element is not dtype:
            data = self.pointers[buffer.data] = pointer(data.name, dtype, scope)
        size = _size(shape, strides)
        flat = Buffer(data, dtype, (size,), name=buffer.name, data_alignment=buffer.data_alignment)
        self.layouts[buffer] = _Layout(flat, mins, strides, None)
        body = self.stmt(s.body)
        return Allocate(data, dtype, (size,), self.expr(s.condition), body)

    def _check_external(self, s: BufferRealize) -> Stmt:
        """Check that a parameter, which already has storage, is realized as a whole."""
        body = self.stmt(s.body)
        conditions: list[Expr] = []
        for extent, bound in zip(s.buffer.shape, s.bounds, strict=True):
            conditions.append(eq(self.expr(bound.min), const(0, bound.min.dtype)))
            if bound.extent is not extent:
                conditions.append(eq(self.expr(bound.extent), extent))
        condition = all_(*conditions)
        if condition is TRUE:
            return body
        if isinstance(condition, IntImm):
            region = ", ".join(repr(r) for r in s.bounds)
            raise ScheduleError(
                f"StorageFlatten: parameter {s.buffer.name} of shape {s.buffer.shape} is realized "
                f"as {region}; a parameter must be computed whole"
            )
        return AssertStmt(condition, f"{s.buffer.name} must be realized with its own shape", body)

    def _decl(self, s: Stmt) -> Stmt:
        assert isinstance(s, DeclBuffer)
        flat = self._layout(s.buffer).flat
        body = self.stmt(s.body)
        return s if flat is s.buffer and body is s.body else DeclBuffer(flat, body)

    def _prefetch(self, s: Stmt) -> Stmt:
        assert isinstance(s, Prefetch)
        bounds = tuple(Range(self.expr(r.min), self.expr(r.extent)) for r in s.bounds)
        layout = self._layout(s.buffer)
        return flat_prefetch(layout.flat, layout.offset, bounds, self.cache_line)

    rules: ClassVar[dict[type[Stmt], Callable[[_Flatten, Stmt], Stmt]]] = {
        AttrStmt: _attr,
        BufferRealize: _realize,
        BufferStore: _store,
        DeclBuffer: _decl,
        Prefetch: _prefetch,
    }
