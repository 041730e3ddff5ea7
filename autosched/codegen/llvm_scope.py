"""A compute scope: the body of a packed function as a function of its own.

There its pointers are parameters, which LLVM may assume not to overlap.
"""

from __future__ import annotations

from autosched.codegen.llvm_builder import FunctionBuilder, StmtFn
from autosched.codegen.llvm_parallel import captured_variables, take_captured
from autosched.codegen.llvm_storage import epilogue, prologue
from autosched.codegen.llvm_types import llvm_type
from autosched.tir.stmt import AttrStmt


def compute_scope(b: FunctionBuilder, stmt: AttrStmt, statement: StmtFn) -> None:
    """Writes the body as a function, and its call."""
    captured = captured_variables(b, stmt.body)
    values = [b.value(v) for v in captured]
    b.at = b.inner
    module = b.module
    name = f"{module.symbol}.compute{len(module.functions)}"
    inner = FunctionBuilder(module)
    pointers = {var for var in captured if var.element is not None}
    parameters = ["ptr noalias %status", *take_captured(b, inner, captured, pointers)]
    pairs = zip(captured, values, strict=True)
    arguments = ["ptr %status", *(f"{llvm_type(var.dtype)} {value}" for var, value in pairs)]
    module.functions.append("")  # reserves the number
    place = len(module.functions) - 1
    prologue(inner, stmt.body)
    statement(inner, stmt.body)
    inner.at = inner.inner
    head = f"define internal void @{name}({', '.join(parameters)}) #0"
    module.functions[place] = inner.complete(head, epilogue(inner))
    b.line(f"call void @{name}({', '.join(arguments)})")
    b.forget_all()
    good = b.emit(f"icmp eq i32 {b.emit('load i32, ptr %status')}, 0")
    done = b.new_block("computed")
    b.branch(f"br i1 {good}, label %{done.label}, label %exit")
    b.resume(done)
