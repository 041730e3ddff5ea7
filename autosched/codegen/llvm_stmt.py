"""Statements as LLVM basic blocks."""

from __future__ import annotations

from collections.abc import Callable

from autosched.codegen import llvm_call, llvm_memory, llvm_parallel, llvm_scope
from autosched.codegen.flat_access import only_index
from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_control import conditional, serial_loop
from autosched.codegen.llvm_storage import allocate, allocate_const
from autosched.codegen.llvm_types import llvm_type
from autosched.errors import CompileError
from autosched.tir.expr import Call, IntImm
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
    While,
)


def statement(b: FunctionBuilder, stmt: Stmt) -> None:
    """Writes `stmt` at the end of the innermost region.

    Raises CompileError for statements that lowering should have removed.
    """
    handler = _HANDLERS.get(type(stmt))
    if handler is None:
        raise CompileError(
            f"{type(stmt).__name__} reached code generation: run the lowering passes first"
        )
    b.at = b.inner
    handler(b, stmt)
    b.at = b.inner


def _seq(b: FunctionBuilder, stmt: SeqStmt) -> None:
    for part in stmt.stmts:
        statement(b, part)


def _attr(b: FunctionBuilder, stmt: AttrStmt) -> None:
    if stmt.key in ("thread_extent", "virtual_thread"):
        raise CompileError(f"the thread axis {stmt.node!r} cannot be compiled for the CPU")
    if stmt.key == "compute_scope":
        llvm_scope.compute_scope(b, stmt, statement)
        return
    statement(b, stmt.body)


def _body(b: FunctionBuilder, stmt: DeclBuffer) -> None:
    statement(b, stmt.body)


def _let(b: FunctionBuilder, stmt: LetStmt) -> None:
    register = b.bound_value(stmt.var, stmt.value)
    b.bind(stmt.var, register)
    if stmt.var.dtype.is_handle:
        b.values[stmt.var] = register
    statement(b, stmt.body)


def _evaluate(b: FunctionBuilder, stmt: Evaluate) -> None:
    value = stmt.value
    if isinstance(value, Call) and value.op == "call_extern" and value.dtype.is_handle:
        llvm_call.extern(b, value, "void")  # called for its effect: it may have no result
    elif not isinstance(value, IntImm):
        b.value(value)


def _store(b: FunctionBuilder, stmt: BufferStore) -> None:
    index = only_index(stmt.buffer, stmt.indices)
    stored, dtype = b.stored_value(stmt), stmt.value.dtype
    lanes = index.dtype.lanes * stmt.buffer.dtype.lanes
    if dtype.lanes == 1 and lanes > 1:
        stored = llvm_memory.spread(b, stored, llvm_type(dtype), lanes)
        dtype = dtype.with_lanes(lanes)
    if stmt.predicate is not None and index.dtype.lanes == 1:
        conditional(
            b, stmt.predicate, lambda: llvm_memory.store(b, stmt.buffer, index, stored, dtype, None)
        )
        return
    mask = llvm_memory.mask_of(b, stmt.predicate, index.dtype.lanes)
    llvm_memory.store(b, stmt.buffer, index, stored, dtype, mask)


# -- control flow -------------------------------------------------------------------------------


def _if(b: FunctionBuilder, stmt: IfThenElse) -> None:
    if stmt.condition.dtype.lanes > 1:
        raise CompileError(f"a vector condition in an if statement: {stmt.condition!r}")
    else_case = stmt.else_case
    conditional(
        b,
        stmt.condition,
        lambda: statement(b, stmt.then_case),
        None if else_case is None else lambda: statement(b, else_case),
    )


def _assert(b: FunctionBuilder, stmt: AssertStmt) -> None:
    b.module.messages.append(stmt.message)
    code = len(b.module.messages)
    test = b.value(stmt.condition)
    failed, passed = b.new_block("failed"), b.new_block("passed")
    b.branch(f"br i1 {test}, label %{passed.label}, label %{failed.label}")
    failed.lines.append(f"  store i32 {code}, ptr %status")
    failed.terminator = "br label %exit"
    b.resume(passed)
    statement(b, stmt.body)


def _while(b: FunctionBuilder, stmt: While) -> None:
    head = b.new_block("while")
    b.branch(f"br label %{head.label}")
    b.enter(head)
    test = b.value(stmt.condition)
    body = b.new_block("body")
    b.branch("")
    test_block = b.inner.block
    b.resume(body)
    statement(b, stmt.body)
    b.leave(f"br label %{head.label}")
    done = b.new_block("done")
    test_block.terminator = f"br i1 {test}, label %{body.label}, label %{done.label}"
    b.resume(done)


def _loop(b: FunctionBuilder, stmt: For) -> None:
    match stmt.kind:
        case ForKind.PARALLEL if not b.inside_parallel:
            llvm_parallel.parallel_loop(b, stmt, statement)
        case ForKind.THREAD_BINDING:
            raise CompileError(
                f"the loop {stmt.loop_var.name} is bound to a thread: not for the CPU"
            )
        case _:
            serial_loop(b, stmt, statement)


def _prefetch(b: FunctionBuilder, stmt: Prefetch) -> None:
    # Only a hint, which is left out if lowering has left its bounds multi-dimensional.
    if len(stmt.bounds) == 1:
        pointer = llvm_memory.address(b, stmt.buffer, stmt.bounds[0].min)
        b.module.declare("llvm.prefetch.p0", "void @(ptr, i32, i32, i32)")
        b.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")


def _allocate(b: FunctionBuilder, stmt: Allocate) -> None:
    allocate(b, stmt, statement)


def _allocate_const(b: FunctionBuilder, stmt: AllocateConst) -> None:
    allocate_const(b, stmt)
    statement(b, stmt.body)


_HANDLERS: dict[type[Stmt], Callable[..., None]] = {
    SeqStmt: _seq,
    AttrStmt: _attr,
    DeclBuffer: _body,
    LetStmt: _let,
    Evaluate: _evaluate,
    BufferStore: _store,
    IfThenElse: _if,
    AssertStmt: _assert,
    While: _while,
    For: _loop,
    Prefetch: _prefetch,
    Allocate: _allocate,
    AllocateConst: _allocate_const,
}
