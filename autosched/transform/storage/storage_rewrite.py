"""StorageRewrite: move allocations to the start of their thread's code and share memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.buffer import Buffer
from autosched.tir.copy_stmt import distinct_memory
from autosched.tir.expr import BufferLoad, Expr, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import TRUE, Allocate, AttrStmt, BufferStore, DeclBuffer, For, Stmt
from autosched.tir.walk import map_children, map_expr_children, map_exprs, stmts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.storage.liveness import linear_access
from autosched.transform.storage.pointer_vectors import vectorise_pointers
from autosched.transform.storage.storage_plan import Block, plan_storage


@dataclass(frozen=True)
class StorageRewrite(FunctionPass):
    """Share memory between allocations that are not live at the same time.

    before:
        def main(A: Buffer((64,), float32), D: Buffer((64,), float32)):
            B = allocate((64,), float32, "global")
            C = allocate((64,), float32, "global")
            for i in range(64):
                B[i] = A[i] + 1.0
            for i in range(64):
                C[i] = B[i] * 2.0
            for i in range(64):
                D[i] = C[63 - i]
    after:
        def main(A: Buffer((64,), float32), D: Buffer((64,), float32)):
            B = allocate((64,), float32, "global")
            C = view(B, (64,), float32)
            for i in range(64):
                B[i] = A[i] + 1.0
            for i in range(64):
                C[i] = B[i] * 2.0
            for i in range(64):
                D[i] = C[63 - i]

    Allocations move to the start of the outermost thread attribute or parallel loop around them,
    else of the function. Unused allocations are removed. Allocations whose size depends on a
    variable also move, and share with others of the same size. They stay where they are if the
    variable is bound on the way there, or if they are behind a condition. Allocations of different
    types share memory, aligned for the widest type, in shared memory and, on a CPU, if the arrays
    are too large for registers; but not if a pointer is passed on.

    before:
        def main(A: Buffer((64,), float32), B: Buffer((64,), float32), n: int32):
            P = allocate((n * 4,), int8, "global")
            for i in range(n * 4):
                P[i] = int8(i % 5)
            for i in range(n):
                B[i] = A[i] + float32(P[i * 4])
            Q = allocate((n,), float32, "global")
            for i in range(n):
                Q[i] = B[n - 1 - i]
            for i in range(n):
                B[i] = Q[i] * 2.0
    after:
        def main(A: Buffer((64,), float32), B: Buffer((64,), float32), n: int32):
            P = allocate((n,), float32, "global", element=int8)
            P = view(P, (n * 4,), int8)
            Q = view(P, (n,), float32)
            for i in range(n * 4):
                P[i] = int8(i % 5)
            for i in range(n):
                B[i] = A[i] + float32(P[i * 4])
            for i in range(n):
                Q[i] = B[n - 1 - i]
            for i in range(n):
                B[i] = Q[i] * 2.0

    With `reuse` off nothing is shared; with `tir.disable_storage_rewrite` the pass does nothing.
    With `pointer_vectors`, an allocation accessed only in aligned vectors of one width becomes an
    array of such vectors.
    """

    name: ClassVar[str] = "StorageRewrite"
    reuse: bool = True
    pointer_vectors: bool = False

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        body = func.body
        if ctx.setting("tir.disable_storage_rewrite"):
            return func
        if not any(isinstance(s, Allocate) for s in stmts(body)):
            return func
        body = distinct_memory(body)
        access = linear_access(body)
        blocks = plan_storage(access, reuse=self.reuse)
        if not _in_place_already(body, blocks, len(access.allocations)):
            body = _Rewriter(access.allocations, blocks).function(body)
        if self.pointer_vectors:
            body = vectorise_pointers(body)
        return func.with_body(body)


def _in_place_already(body: Stmt, blocks: list[Block], allocations: int) -> bool:
    """True if the function already has the planned blocks."""
    if len(blocks) != allocations:
        return False
    for attach, planned in _by_attachment(blocks).items():
        inside: Stmt | None = body if attach is None else getattr(attach, "body", None)
        for block in planned:
            if not (isinstance(inside, Allocate) and inside.buffer_var is block.pointer):
                return False
            inside = inside.body
    return True


def _by_attachment(blocks: list[Block]) -> dict[Stmt | None, list[Block]]:
    attached: dict[Stmt | None, list[Block]] = {}
    for block in blocks:
        attached.setdefault(block.attach, []).append(block)
    return attached


class _Rewriter:
    def __init__(self, allocations: Mapping[Var, Allocate], blocks: list[Block]) -> None:
        self._moved = allocations
        self._attached = _by_attachment(blocks)
        self._pointers: dict[Var, Var] = {}
        for block in blocks:
            for alloc in block.allocations[1:]:
                self._pointers[alloc.buffer_var] = block.pointer
        # Nothing accesses these, so their declarations and attributes are removed with them.
        self._removed = allocations.keys() - {a.buffer_var for b in blocks for a in b.allocations}
        self._buffers: dict[Buffer, Buffer] = {}
        self._memo: dict[Expr, Expr] = {}

    def function(self, body: Stmt) -> Stmt:
        return self._allocate(None, self.stmt(body))

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case Allocate() if s.buffer_var in self._moved:
                return self.stmt(s.body)
            case For() | AttrStmt() if s in self._attached:
                new = self._mapped(s)
                body = self._allocate(s, new.body)
                return new.with_(body=body)
            case BufferStore():
                buffer = self._buffer(s.buffer)
                value, indices = self.expr(s.value), map_exprs(s.indices, self.expr)
                predicate = None if s.predicate is None else self.expr(s.predicate)
                if (
                    buffer is s.buffer
                    and value is s.value
                    and indices is s.indices
                    and predicate is s.predicate
                ):
                    return s
                return BufferStore(buffer, value, indices, predicate)
            case DeclBuffer() if s.buffer.data in self._removed:
                return self.stmt(s.body)
            case DeclBuffer():
                buffer, body = self._buffer(s.buffer), self.stmt(s.body)
                if buffer is s.buffer and body is s.body:
                    return s
                return DeclBuffer(buffer, body)
            case AttrStmt():
                node = s.node.data if isinstance(s.node, Buffer) else s.node
                return self.stmt(s.body) if node in self._removed else self._mapped(s)
        return map_children(s, self.stmt, self.expr)

    def _mapped(self, s: For | AttrStmt) -> For | AttrStmt:
        new = map_children(s, self.stmt, self.expr)
        assert isinstance(new, For | AttrStmt)
        if isinstance(new, AttrStmt):
            node = new.node
            if isinstance(node, Buffer):
                node = self._buffer(node)
            elif isinstance(node, Var):
                node = self._pointers.get(node, node)
            return new.with_(node=node)
        return new

    def _allocate(self, attach: Stmt | None, body: Stmt) -> Stmt:
        for block in reversed(self._attached.get(attach, ())):
            first = block.allocations[0]
            body = Allocate(first.buffer_var, block.dtype, block.extents(), TRUE, body)
        return body

    def expr(self, e: Expr) -> Expr:
        if not self._pointers:
            return e
        done = self._memo.get(e)
        if done is None:
            done = self._memo[e] = self._rewritten(e)
        return done

    def _rewritten(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return self._pointers.get(e, e)
        if isinstance(e, BufferLoad):
            indices = map_exprs(e.indices, self.expr)
            predicate = None if e.predicate is None else self.expr(e.predicate)
            return BufferLoad(self._buffer(e.buffer), indices, predicate)
        return map_expr_children(e, self.expr)

    def _buffer(self, buffer: Buffer) -> Buffer:
        data = self._pointers.get(buffer.data)
        if data is None:
            return buffer
        new = self._buffers.get(buffer)
        if new is None:
            new = self._buffers[buffer] = buffer.with_(data=data)
        return new
