"""LLVM code for modules of host functions, which call each other and the runtime.

A function with packed arguments (calling_conv 1) is exported as

    i32 symbol(ptr args, ptr arg_type_ids, i32 num_args, ptr out_value, ptr out_code, ptr resource)

and returns 0, the 1-based number of the assertion that failed (`module_messages`) or a negative
status of the runtime. Other functions can only be called from within the module, by `call_extern`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.codegen.llvm import assertion_messages, check_symbol, module_for
from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_module import ModuleBuilder
from autosched.codegen.llvm_stmt import statement
from autosched.codegen.llvm_storage import epilogue, prologue
from autosched.codegen.llvm_tiles import permission
from autosched.codegen.llvm_types import llvm_type
from autosched.errors import CompileError
from autosched.target import Target
from autosched.tir.expr import Call, StringImm
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.packed import PACKED
from autosched.tir.walk import unique_exprs

_CALLS = ("call_extern", "call_pure_extern", "call_packed_lowered", "call_cpacked_lowered")


def emit_host(module: IRModule, target: Target) -> str:
    """LLVM assembly of the module's functions for `target`, a CPU.

    Raises CompileError for code that has no meaning on a CPU.
    """
    builder: ModuleBuilder | None = None
    for name, func in module.functions.items():
        check_symbol(name)
        own = module_for(func, target)
        if builder is None:
            builder = own
            builder.local = frozenset(module.functions)
        # A function outside of the module may access the memory of the arguments.
        calls = any(True for _ in _called(func))
        builder.symbol, builder.noalias = name, own.noalias and not calls
        builder.addressed, builder.updated = own.addressed, own.updated
        builder.functions.append(_body(name, func, builder))
    if builder is None:
        raise CompileError("a module without functions has no code")
    entries = [(n, f) for n, f in module.functions.items() if f.attrs.get("calling_conv") == PACKED]
    # Any function of the module may use tiles, which only its entries ask for.
    allowed = permission(builder)
    builder.functions += [_entry(name, func, allowed) for name, func in entries]
    width = target.vector_bytes * 8
    builder.functions.append(f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" }}')
    return builder.text()


def module_messages(module: IRModule) -> tuple[str, ...]:
    """The messages of all assertions, in the order of their statuses (from 1)."""
    return tuple(m for func in module.functions.values() for m in assertion_messages(func))


def called_outside(module: IRModule) -> tuple[str, ...]:
    """The C functions that the module calls and does not contain."""
    calls = [found for f in module.functions.values() for found in _called(f)]
    names = [name for op, name in calls if op != "call_packed_lowered"]
    return tuple(name for name in dict.fromkeys(names) if name not in module.functions)


def _called(func: PrimFunc) -> Iterator[tuple[str, str]]:
    """The operation and the function name of each call of a function by its name."""
    for e in unique_exprs(func.body):
        if isinstance(e, Call) and e.op in _CALLS and isinstance(e.args[0], StringImm):
            yield e.op, e.args[0].value


def _body(name: str, func: PrimFunc, module: ModuleBuilder) -> str:
    """The function itself, which takes the status word and its parameters."""
    b = FunctionBuilder(module)
    parameters = ["ptr noalias %status"]
    for i, var in enumerate(func.params):
        parameters.append(f"{llvm_type(var.dtype)} %a{i}")
        b.bind(var, f"%a{i}")
        buffer = func.buffer_map.get(var)
        if buffer is not None:
            b.pointers[buffer.data] = f"%a{i}"
    prologue(b, func.body)
    statement(b, func.body)
    b.at = b.inner
    head = f"define internal void @{name}.body({', '.join(parameters)}) #0"
    return b.complete(head, epilogue(b))


def _entry(name: str, func: PrimFunc, begin: Sequence[str]) -> str:
    """The exported function, which starts with the lines `begin`."""
    parameters = ", ".join(f"{llvm_type(v.dtype)} %a{i}" for i, v in enumerate(func.params))
    lines = [
        f"define i32 @{name}({parameters}) #0 {{",
        *begin,
        "  %status = alloca i32",
        "  store i32 0, ptr %status",
        f"  call void @{name}.body(ptr %status, {parameters})",
        "  %result = load i32, ptr %status",
        "  ret i32 %result",
        "}",
    ]
    return "\n".join(lines)
