"""Storage inside a function: the stack, the runtime's workspace, constants.

Allocations of constant size live for the whole function: small ones on the stack, where SROA turns
them into registers when all their addresses are constant, large ones in one workspace allocation
made in the prologue. An allocation whose size is only known at run time is made where it stands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosched.codegen.llvm_builder import FunctionBuilder, StmtFn
from autosched.codegen.llvm_types import memory_type
from autosched.errors import CompileError
from autosched.tir.dtype import int64
from autosched.tir.expr import Expr, IntImm
from autosched.tir.op import cast, const
from autosched.tir.stmt import Allocate, AllocateConst, For, ForKind, Stmt
from autosched.tir.walk import child_stmts

STACK_BYTES = 64 * 1024
"""Allocations of one function up to this total are on the stack (threads have at least 2 MiB)."""

ALLOC, FREE = "autosched_workspace_alloc", "autosched_workspace_free"
OUT_OF_MEMORY = -1


def constant_bytes(stmt: Allocate) -> int | None:
    """The size of an allocation, or None when it is not constant."""
    if not all(isinstance(e, IntImm) for e in stmt.extents):
        return None
    return math.prod(e.value for e in stmt.extents if isinstance(e, IntImm)) * (
        stmt.dtype.bytes * stmt.dtype.lanes
    )


def prologue(b: FunctionBuilder, body: Stmt) -> None:
    """Allocates what `body` needs of constant size, outside of its parallel loops."""
    used = 0
    for stmt in _allocations(body, b.inside_parallel):
        size = constant_bytes(stmt)
        if size is None:
            continue
        if used + size <= STACK_BYTES:
            used += size
            kind = memory_type(stmt.dtype.element)
            count = max(1, size // stmt.dtype.bytes)
            name = b.fresh("stack")
            b.allocas.append(f"  {name} = alloca [{count} x {kind}], align 64")
        else:
            name = _workspace(b, str(size))[0]
        b.pointers[stmt.buffer_var] = name


def _allocations(stmt: Stmt, inside_parallel: bool) -> Iterator[Allocate]:
    if isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL and not inside_parallel:
        return
    if isinstance(stmt, Allocate):
        yield stmt
    for child in child_stmts(stmt):
        yield from _allocations(child, inside_parallel)


def _workspace(b: FunctionBuilder, size: str) -> tuple[str, str]:
    """Allocates `size` bytes (i64) or leaves the function; returns the pointer and its slot.

    The slot holds the pointer while it must be freed at the function's exit.
    """
    slot = b.fresh("slot")
    b.allocas.append(f"  {slot} = alloca ptr")
    b.allocas.append(f"  store ptr null, ptr {slot}")
    b.slots.append(slot)
    b.module.declare(ALLOC, "noalias ptr @(i64)")
    b.module.declare(FREE, "void @(ptr)")
    pointer = b.emit(f"call noalias align 64 ptr @{ALLOC}(i64 {size})")
    b.line(f"store ptr {pointer}, ptr {slot}")
    missing = b.emit(f"icmp eq ptr {pointer}, null")
    failed, passed = b.new_block("failed"), b.new_block("allocated")
    b.branch(f"br i1 {missing}, label %{failed.label}, label %{passed.label}")
    failed.lines.append(f"  store i32 {OUT_OF_MEMORY}, ptr %status")
    failed.terminator = "br label %exit"
    b.resume(passed)
    return pointer, slot


def allocate(b: FunctionBuilder, stmt: Allocate, statement: StmtFn) -> None:
    """The body of an allocation, and the allocation itself when its size is not constant."""
    if isinstance(stmt.condition, IntImm) and not stmt.condition.value:
        raise CompileError(f"the allocation of {stmt.buffer_var.name} is never made")
    if stmt.buffer_var in b.pointers:
        statement(b, stmt.body)
        return
    elements: Expr = const(1, int64)
    for extent in stmt.extents:
        elements = elements * cast(int64, extent)
    size = b.value(elements * (stmt.dtype.bytes * stmt.dtype.lanes))
    b.at = b.inner
    pointer, slot = _workspace(b, size)
    b.bind(stmt.buffer_var, pointer)
    statement(b, stmt.body)
    b.at = b.inner
    b.line(f"call void @{FREE}(ptr {pointer})")
    b.line(f"store ptr null, ptr {slot}")


def epilogue(b: FunctionBuilder) -> list[str]:
    """The lines of the exit block that free what is still allocated."""
    lines = []
    for slot in b.slots:
        pointer = b.fresh("left")
        lines.append(f"  {pointer} = load ptr, ptr {slot}")
        lines.append(f"  call void @{FREE}(ptr {pointer})")
    return lines


def allocate_const(b: FunctionBuilder, stmt: AllocateConst) -> None:
    """A constant array in read-only memory."""
    data = stmt.data.astype(stmt.dtype.element.numpy, copy=False).tobytes()
    name = f"@const.{len(b.module.globals)}"
    text = "".join(f"\\{byte:02X}" for byte in data)
    b.module.globals.append(f'{name} = private constant [{len(data)} x i8] c"{text}", align 64')
    b.pointers[stmt.buffer_var] = name
