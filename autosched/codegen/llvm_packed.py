"""Packed arguments and the runtime's calls: structs, stack frames, workspace, errors, results.

If a call of the runtime fails, the function's status becomes the negative number by which the
runtime knows the error (`runtime/packed.py`), and the function ends.
"""

from __future__ import annotations

from collections.abc import Callable

from autosched.codegen.llvm_arith import convert
from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_storage import FREE, workspace
from autosched.codegen.llvm_types import llvm_type
from autosched.errors import CompileError
from autosched.tir.dtype import DType, int64
from autosched.tir.expr import Call, Expr, IntImm, StringImm
from autosched.tir.packed import (
    CPU,
    TENSOR_BYTES,
    VALUE_BYTES,
    ArgCode,
    Field,
    alloca_bytes,
    field_place,
    packed_dtype,
)

CALL_PACKED = "autosched_call_packed"
LAST_ERROR = "autosched_last_error"
DEVICE_ALLOC, DEVICE_FREE = "autosched_device_alloc", "autosched_device_free"
RUNTIME = (CALL_PACKED, LAST_ERROR, DEVICE_ALLOC, DEVICE_FREE)
"""The runtime's functions that host code calls, besides those that all kernels call."""

_C_FUNCTION = "i32 @(ptr, ptr, i32, ptr, ptr, ptr)"


def _constant(e: Expr, call: Call) -> int:
    if not isinstance(e, IntImm):
        raise CompileError(f"{call.op} needs a number, found {e!r}: {call!r}")
    return e.value


def _name(call: Call) -> str:
    if not isinstance(call.args[0], StringImm):
        raise CompileError(f"{call.op} needs the function's name as its first argument: {call!r}")
    return call.args[0].value


# -- structs -----------------------------------------------------------------------------------


def _place(b: FunctionBuilder, call: Call) -> tuple[str, DType | None]:
    """The address of a field and its type; the type is None for a packed value."""
    base, index = b.value(call.args[0]), b.wide_value(call.args[1])
    field = Field(_constant(call.args[2], call))
    size = VALUE_BYTES if field is Field.VALUE else TENSOR_BYTES
    address = b.emit(f"getelementptr [{size} x i8], ptr {base}, i64 {index}")
    if field is Field.VALUE:
        return address, None
    offset, dtype = field_place(field)
    if offset:
        address = b.emit(f"getelementptr i8, ptr {address}, i64 {offset}")
    return address, dtype


def _struct_get(b: FunctionBuilder, e: Call) -> str:
    address, dtype = _place(b, e)
    if _constant(e.args[2], e) == Field.ADDRESS:
        return address
    dtype = dtype or packed_dtype(e.dtype)
    return convert(b, b.emit(f"load {llvm_type(dtype)}, ptr {address}"), dtype, e.dtype)


def _struct_set(b: FunctionBuilder, e: Call) -> str:
    value, source = b.value(e.args[3]), e.args[3].dtype
    address, dtype = _place(b, e)
    dtype = dtype or packed_dtype(source)
    b.line(f"store {llvm_type(dtype)} {convert(b, value, source, dtype)}, ptr {address}")
    b.forget_all()
    return "0"


def _stack_alloca(b: FunctionBuilder, e: Call) -> str:
    count = _constant(e.args[1], e)
    try:
        size = count * alloca_bytes(_name(e))
    except KeyError:
        raise CompileError(f"tvm_stack_alloca of an unknown kind: {e!r}") from None
    name = b.fresh("frame")
    b.allocas.append(f"  {name} = alloca [{max(1, size)} x i8], align 16")
    return name


# -- calls ---------------------------------------------------------------------------------------


def leave_when(b: FunctionBuilder, failed: str, status: str) -> None:
    """Leaves the function with `status` (i32) if the flag `failed` is set."""
    stop, done = b.new_block("failed"), b.new_block("passed")
    b.branch(f"br i1 {failed}, label %{stop.label}, label %{done.label}")
    stop.lines.append(f"  store i32 {status}, ptr %status")
    stop.terminator = "br label %exit"
    b.resume(done)
    b.at = b.inner


def _packed(b: FunctionBuilder, e: Call) -> str:
    """call_packed_lowered and call_cpacked_lowered(name, values, codes, begin, end[, resource])."""
    values, codes = b.value(e.args[1]), b.value(e.args[2])
    begin, end = (_constant(a, e) for a in e.args[3:5])
    places = []
    for slot in (begin, end):
        places.append(b.emit(f"getelementptr i64, ptr {values}, i64 {slot}"))
        places.append(b.emit(f"getelementptr i32, ptr {codes}, i64 {slot}"))
    b.line(f"store i64 0, ptr {places[2]}")
    b.line(f"store i32 {int(ArgCode.NULL)}, ptr {places[3]}")
    pointers = f"ptr {places[0]}, ptr {places[1]}, i32 {end - begin}"
    results = f"ptr {places[2]}, ptr {places[3]}"
    if e.op == "call_packed_lowered":
        b.module.declare(CALL_PACKED, "i32 @(ptr, ptr, ptr, i32, ptr, ptr)")
        name = b.value(e.args[0])
        status = b.emit(f"call i32 @{CALL_PACKED}(ptr {name}, {pointers}, {results})")
    else:
        function = _name(e)
        if function not in b.module.local:
            b.module.declare(function, _C_FUNCTION)
        resource = b.value(e.args[5])
        status = b.emit(f"call i32 @{function}({pointers}, {results}, ptr {resource})")
    b.forget_all()
    leave_when(b, b.emit(f"icmp ne i32 {status}, 0"), status)
    return _result(b, e.dtype, places[2], places[3])


def _result(b: FunctionBuilder, dtype: DType, value: str, code: str) -> str:
    """The result of a call as `dtype`, converted if it is a number of another kind."""
    if dtype.is_handle:
        return b.emit(f"load ptr, ptr {value}")
    double = DType("float64")
    kind = b.emit(f"load i32, ptr {code}")
    is_float = b.emit(f"icmp eq i32 {kind}, {int(ArgCode.FLOAT)}")
    whole = convert(b, b.emit(f"load i64, ptr {value}"), int64, dtype)
    fraction = convert(b, b.emit(f"load double, ptr {value}"), double, dtype)
    name = llvm_type(dtype)
    return b.emit(f"select i1 {is_float}, {name} {fraction}, {name} {whole}")


def _ret(b: FunctionBuilder, e: Call) -> str:
    (value,) = e.args
    if not isinstance(value, IntImm) or value.value:
        raise CompileError(f"{e!r}: results go through out_ret_value, which MakePackedAPI fills in")
    b.branch("br label %exit")
    b.resume(b.new_block("unreachable"))
    b.at = b.inner
    return "0"


# -- workspace and errors ------------------------------------------------------------------------


def _alloc_workspace(b: FunctionBuilder, e: Call) -> str:
    """Allocates workspace; that of the CPU is freed at the function's exit if not before."""
    device, number, size, code, bits = e.args
    if not (isinstance(device, IntImm) and device.value == CPU):
        kinds = ("i32", "i32", "i64", "i32", "i32")
        values = [b.value(device), b.value(number), b.wide_value(size), b.value(code)]
        return b.call(DEVICE_ALLOC, "ptr", zip(kinds, (*values, b.value(bits)), strict=True))
    pointer, slot = workspace(b, b.wide_value(size))
    b.slot_of[pointer] = slot
    return pointer


def _free_workspace(b: FunctionBuilder, e: Call) -> str:
    device, number, data = e.args
    pointer = b.value(data)
    if not (isinstance(device, IntImm) and device.value == CPU):
        values = [("i32", b.value(device)), ("i32", b.value(number)), ("ptr", pointer)]
        return b.call(DEVICE_FREE, "i32", values)
    b.module.declare(FREE, "void @(ptr)")
    b.line(f"call void @{FREE}(ptr {pointer})")
    slot = b.slot_of.get(pointer)
    if slot is not None:
        b.line(f"store ptr null, ptr {slot}")
    b.forget_all()
    return "0"


def _throw(b: FunctionBuilder, e: Call) -> str:
    status = b.call(LAST_ERROR, "i32", ())
    leave_when(b, "true", status)
    return "0"


CALLS: dict[str, Callable[[FunctionBuilder, Call], str]] = {
    "tvm_struct_get": _struct_get,
    "tvm_struct_set": _struct_set,
    "tvm_stack_alloca": _stack_alloca,
    "call_packed_lowered": _packed,
    "call_cpacked_lowered": _packed,
    "ret": _ret,
    "TVMBackendAllocWorkspace": _alloc_workspace,
    "TVMBackendFreeWorkspace": _free_workspace,
    "tvm_throw_last_error": _throw,
}
