"""Parallel loops: the body becomes a function of a range, which the runtime's pool calls.

The loop hands `launch(function, environment, begin, end)` to the runtime; each thread calls
`function(environment, its begin, its end)`. The environment is an array of 8-byte slots: first the
address of the status word, then the variables and pointers that the body uses.
"""

from __future__ import annotations

from autosched.codegen.llvm_builder import FunctionBuilder, StmtFn
from autosched.codegen.llvm_control import run_loop
from autosched.codegen.llvm_storage import epilogue, prologue
from autosched.codegen.llvm_types import llvm_type
from autosched.tir.expr import BufferLoad, SizeVar, Var
from autosched.tir.kinds import bits_of, exprs_with
from autosched.tir.stmt import BufferStore, For, Stmt
from autosched.tir.undefined import bound_variables
from autosched.tir.walk import free_vars, stmts

LAUNCH = "autosched_parallel_launch"


def used_variables(stmt: Stmt) -> list[Var]:
    """Variables that occur in `stmt`, pointers of buffers included, in order of appearance."""
    found: dict[Var, None] = {}
    for e in exprs_with(stmt, bits_of(Var, SizeVar, BufferLoad)):
        if isinstance(e, Var):
            found[e] = None
        elif isinstance(e, BufferLoad):
            found[e.buffer.data] = None
            if e.buffer.elem_offset is not None:
                found.update(dict.fromkeys(free_vars(e.buffer.elem_offset)))
    for s in stmts(stmt):
        if isinstance(s, BufferStore):
            found[s.buffer.data] = None
            if s.buffer.elem_offset is not None:
                found.update(dict.fromkeys(free_vars(s.buffer.elem_offset)))
    return list(found)


def captured_variables(b: FunctionBuilder, body: Stmt) -> list[Var]:
    """The variables of the function that `body` uses, without globals and those that it defines.

    `body` may define variables that were defined before it, too, because expressions share parts.
    """
    own = bound_variables(body)
    return [
        v
        for v in used_variables(body)
        if (v in b.pointers or v in b.depth)
        and v not in own
        and not b.pointers.get(v, "").startswith("@")
    ]


def take_captured(
    b: FunctionBuilder, inner: FunctionBuilder, captured: list[Var], pointers: set[Var]
) -> list[str]:
    """The parameters `%c0`, `%c1`, ... of `inner`, one for each captured variable of `b`.

    Variables in `pointers` are the addresses of buffers. Variables that are known not to be
    negative stay so in `inner`.
    """
    parameters = []
    for i, var in enumerate(captured):
        noalias = " noalias" if var in pointers and b.module.noalias else ""
        parameters.append(f"{llvm_type(var.dtype)}{noalias} %c{i}")
        if var in pointers:
            inner.pointers[var] = f"%c{i}"
        else:
            inner.bind(var, f"%c{i}")
        if var in b.nonnegative:
            inner.nonnegative.add(var)
    inner.pointers.update({v: p for v, p in b.pointers.items() if p.startswith("@")})
    return parameters


def parallel_loop(b: FunctionBuilder, stmt: For, statement: StmtFn) -> None:
    """A parallel loop that is not inside another one."""
    captured = [v for v in captured_variables(b, stmt.body) if v is not stmt.loop_var]
    arguments = [(v, llvm_type(v.dtype), b.value(v)) for v in captured]
    low, high = b.wide_value(stmt.min), b.wide_value(stmt.min + stmt.extent)
    b.at = b.inner
    name = _outline(b, stmt, captured, statement)
    environment = b.fresh("env")
    b.allocas.append(f"  {environment} = alloca [{len(captured) + 1} x i64], align 16")
    b.line(f"store ptr %status, ptr {environment}")
    for i, (_, kind, register) in enumerate(arguments, 1):
        slot = b.emit(f"getelementptr i64, ptr {environment}, i64 {i}")
        b.line(f"store {kind} {register}, ptr {slot}")
    b.module.declare(LAUNCH, "void @(ptr, ptr, i64, i64)")
    b.line(f"call void @{LAUNCH}(ptr @{name}, ptr {environment}, i64 {low}, i64 {high})")
    status = b.emit("load i32, ptr %status")
    good = b.emit(f"icmp eq i32 {status}, 0")
    done = b.new_block("joined")
    b.branch(f"br i1 {good}, label %{done.label}, label %exit")
    b.resume(done)


def _outline(b: FunctionBuilder, stmt: For, captured: list[Var], statement: StmtFn) -> str:
    """Writes the loop's body as a function of a range; returns the name to launch."""
    module = b.module
    name = f"{module.symbol}.parallel{len(module.functions)}"
    module.functions.append("")  # reserves the number
    place = len(module.functions) - 1
    inner = FunctionBuilder(module, inside_parallel=True)
    pointers = {var for var in captured if var in b.pointers}
    parameters = ["ptr noalias %status", *take_captured(b, inner, captured, pointers)]
    prologue(inner, stmt.body)
    run_loop(inner, stmt, "%begin", "%end", statement)
    signature = ", ".join([*parameters, "i64 %begin", "i64 %end"])
    text = inner.complete(f"define internal void @{name}.body({signature}) #0", epilogue(inner))
    module.functions[place] = text + "\n" + _thunk(name, captured)
    return name


def _thunk(name: str, captured: list[Var]) -> str:
    lines = [f"define internal void @{name}(ptr %env, i64 %begin, i64 %end) #0 {{"]
    lines.append("  %status = load ptr, ptr %env")
    values = ["ptr %status"]
    for i, var in enumerate(captured):
        kind = llvm_type(var.dtype)
        lines.append(f"  %p{i} = getelementptr i64, ptr %env, i64 {i + 1}")
        lines.append(f"  %c{i} = load {kind}, ptr %p{i}")
        values.append(f"{kind} %c{i}")
    arguments = ", ".join([*values, "i64 %begin", "i64 %end"])
    lines += [f"  call void @{name}.body({arguments})", "  ret void", "}"]
    return "\n".join(lines)
