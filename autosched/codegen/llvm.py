"""LLVM code for the CPU: a flat PrimFunc becomes assembly text, then an object file.

The exported function is `i32 symbol(ptr args)`: `args` holds one 8-byte slot for each parameter (a
pointer, or a scalar in its first bytes) and then one i64 for each size variable that occurs only in
the buffers' shapes. The result is 0, the 1-based number of the assertion that failed (see
`assertion_messages`) or -1 when memory ran out.
"""

from __future__ import annotations

import math
from functools import cache, partial

from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_compile import assembly, compile_object
from autosched.codegen.llvm_expr import HANDLERS
from autosched.codegen.llvm_masks import updated_buffers
from autosched.codegen.llvm_module import ModuleBuilder
from autosched.codegen.llvm_stmt import statement
from autosched.codegen.llvm_storage import computed_addresses, epilogue, prologue
from autosched.codegen.llvm_tiles import permission
from autosched.codegen.llvm_types import llvm_type
from autosched.errors import CompileError
from autosched.target import Target
from autosched.tir.buffer import Buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.jumps import deciding_variables
from autosched.tir.stmt import Allocate, AssertStmt, AttrStmt, For, ForKind, SeqStmt, Stmt
from autosched.tir.walk import distinct, stmts

__all__ = ["assembly", "assertion_messages", "compile_object", "emit_llvm", "size_variables"]


def size_variables(func: PrimFunc) -> tuple[Var, ...]:
    """Variables that occur in a dimension of a parameter's buffer and are not parameters."""
    found: dict[Var, None] = {}
    for buffer in func.buffers:
        for extent in buffer.shape:
            for e in distinct(extent):
                if isinstance(e, Var) and e not in func.params:
                    found[e] = None
    return tuple(found)


def assertion_messages(func: PrimFunc) -> tuple[str, ...]:
    """The messages of the function's assertions, in the order of their statuses (from 1)."""
    return tuple(s.message for s in stmts(func.body) if isinstance(s, AssertStmt))


def emit_llvm(func: PrimFunc, target: Target) -> str:
    """LLVM assembly of `func` for `target`. Raises CompileError for code that has no meaning there.

    `func` must be flat: one index for each access, no thread axes, no vectorised loops left.
    """
    check_symbol(func.name)
    module = module_for(func, target)
    b = FunctionBuilder(module)
    parameters, arguments, lines = ["ptr noalias %status"], ["ptr %status"], []
    for i, var in enumerate((*func.params, *size_variables(func))):
        buffer = func.buffer_map.get(var)
        kind = llvm_type(var.dtype)
        lines.append(f"  %s{i} = getelementptr i64, ptr %args, i64 {i}")
        lines.append(f"  %a{i} = load {kind}, ptr %s{i}")
        arguments.append(f"{kind} %a{i}")
        parameters.append(f"{kind}{_attributes(buffer, module.noalias)} %a{i}")
        if var.dtype.is_handle:
            b.pointers[var] = f"%a{i}"
        else:
            b.bind(var, f"%a{i}")
        if buffer is not None:
            b.pointers[buffer.data] = f"%a{i}"
    prologue(b, func.body)
    statement(b, func.body)
    b.at = b.inner
    name = func.name
    head = f"define i32 @{name}(ptr %args) #0"
    begin = [*permission(module), "  %status = alloca i32", "  store i32 0, ptr %status", *lines]
    end = ["  %result = load i32, ptr %status", "  ret i32 %result"]
    if only_launches(func.body):
        b.allocas[:0] = begin
        module.functions.append(b.complete(head, epilogue(b), end))
    else:
        inner = f"define internal void @{name}.body({', '.join(parameters)}) #0"
        module.functions.append(b.complete(inner, epilogue(b)))
        call = f"  call void @{name}.body({', '.join(arguments)})"
        module.functions.append("\n".join([f"{head} {{", *begin, call, *end, "}"]))
    width = target.vector_bytes * 8
    module.functions.append(f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" }}')
    return module.text()


def only_launches(s: Stmt) -> bool:
    """Whether `s` does nothing but run parallel loops in memory of constant size.

    Such a function touches no array itself. It needs no inner function whose array parameters do
    not overlap, and a function less takes 4% less time to compile.
    """
    match s:
        case SeqStmt():
            return all(map(only_launches, s.stmts))
        case Allocate() | AttrStmt():
            return only_launches(s.body)
        case For():
            return s.kind is ForKind.PARALLEL
    return False


def module_for(func: PrimFunc, target: Target) -> ModuleBuilder:
    """An empty module for `func`, with the properties of `target` and of the function."""
    features = set(target.features.split(","))
    of_amd = target.cpu.startswith("znver")
    return ModuleBuilder(
        handlers=HANDLERS,
        symbol=func.name,
        noalias=func.noalias,
        vector_bytes=target.vector_bytes,
        has_gather="+avx2" in features,
        has_scatter="+avx512f" in features,
        slow_gathers=of_amd,
        slow_underflow="+avx2" in features and not of_amd,
        fuses="+fma" in features or "+neon" in features,
        scales={"+avx512f", "+avx512vl", "+avx512dq"} <= features,
        has_masks="+avx512vl" in features,
        permutes_bytes="+avx512vbmi" in features,
        converts_halves=not features.isdisjoint(("+f16c", "+avx512f", "+neon")),
        addressed=cache(partial(computed_addresses, func.body)),
        updated=cache(partial(updated_buffers, func.body)),
        deciding=cache(partial(deciding_variables, func.body)),
    )


def _attributes(buffer: Buffer | None, noalias: bool) -> str:
    if buffer is None:
        return ""
    text = " noalias" if noalias else ""
    if buffer.strides:
        return text
    size = math.prod(e.value if isinstance(e, IntImm) else 0 for e in buffer.shape)
    return f"{text} dereferenceable({size * buffer.dtype.value_bytes})" if size else text


def check_symbol(name: str) -> None:
    """Raises CompileError when `name` is not a C identifier."""
    if not name.isidentifier() or not name.isascii():
        raise CompileError(f"the function name {name!r} is not an identifier")
