"""MakePackedAPI: give exported functions packed arguments, and check these.

before:
    def main(n: int32):
        ret(n + 1)
after BindTarget, MakePackedAPI:
    def main(args: handle, arg_type_ids: pointer(int32), num_args: int32, out_ret_value: handle,
            out_ret_tcode: pointer(int32), resource_handle: handle):
        attrs(calling_conv=1, target="cpu")
        out_ret_value = view(out_ret_value, (1,), int64)
        out_ret_tcode = view(out_ret_tcode, (1,), int32)
        assert num_args == 1, "main: num_args should be 1"
        assert not isnullptr(args), "main: TVMValue* arg pointer was NULL"
        assert not isnullptr(arg_type_ids), "main: int* type_codes was NULL"
        arg_type_ids_1 = declare(arg_type_ids, (1,), int32)
        n.code: int32 = arg_type_ids_1[0]
        assert n.code == 0 or n.code == 15, "main: Expect arg[0] to be int"
        n: int32 = int32(tvm_struct_get(args, 0, 12, dtype=int64))
        with attr(None, "compute_scope", "main_compute_"):
            out_ret_value[0] = int64(n + 1)
            out_ret_tcode[0] = 0
            ret(0)
        ret(0)

`tests/transform/host/make_packed_api.tir` shows the checks of arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from autosched.errors import CompileError
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import handle, int32
from autosched.tir.expr import Call, Expr, StringImm, Var, pointer
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.op import cast, const, eq, not_
from autosched.tir.packed import CPU, PACKED, ArgCode, packed_dtype
from autosched.tir.stmt import BufferStore, Evaluate, For, ForKind, Stmt, seq
from autosched.tir.undefined import undefined
from autosched.tir.walk import map_children, rewrite_expr
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.function_target import FunctionTarget, target_of
from autosched.transform.framework.passes import ModulePass
from autosched.transform.host.packed_arguments import (
    Arguments,
    Wrap,
    attribute,
    before,
    check,
    declare,
    is_null,
    let,
    nest,
    null,
)

RESOURCE = "device_api_context"
"""A parameter of this name receives the resource handle of the call instead of an argument."""


@dataclass(frozen=True)
class MakePackedAPI(ModulePass):
    """Give exported functions with a host the signature of packed functions.

    Arguments are checked before the body runs: their kinds, and for arrays the pointers, type,
    shape, strides, offset and device. Sizes, strides and offsets that are variables get their
    values from the arguments. Calls (`call_extern`) of such a function become `call_cpacked`, and a
    `ret(x)` becomes the result of the call. Functions that are private or kernels, or whose target
    has no host, stay as they are.

    Raises CompileError for an exported function without a target, for a `ret` in a parallel loop,
    for a variable to which no argument gives a value, and for a call with a pointer instead of an
    array.
    """

    name: ClassVar[str] = "MakePackedAPI"

    def apply_module(self, module: IRModule, ctx: PassContext) -> IRModule:
        packed = {n: func for n, func in module.functions.items() if _is_packed(n, func)}
        functions = {
            name: _Calls(packed).func(func) if name not in packed else _packed(name, func, packed)
            for name, func in module.functions.items()
        }
        if all(functions[name] is func for name, func in module.functions.items()):
            return module
        return IRModule(functions, module.attrs)


def _is_packed(name: str, func: PrimFunc) -> bool:
    """Whether the function is exported, not converted yet, and has a host."""
    if func.attrs.get("calling_conv", 0) or "global_symbol" not in func.attrs:
        return False
    target = target_of(func)
    if target is None:
        raise CompileError(
            f"MakePackedAPI: {name} has no attribute `target`; run BindTarget before"
        )
    return target.host is not None


def _packed(name: str, func: PrimFunc, packed: Mapping[str, PrimFunc]) -> PrimFunc:
    target = target_of(func)
    assert target is not None and target.host is not None
    args, resource = Var("args", handle), Var("resource_handle", handle)
    codes = pointer("arg_type_ids", int32)
    count = Var("num_args", int32)
    result, result_code = Var("out_ret_value", handle), pointer("out_ret_tcode", int32)
    params = [p for p in func.params if p.name != RESOURCE]
    contexts = [p for p in func.params if p.name == RESOURCE]
    wraps: list[Wrap] = [
        check(eq(count, const(len(params))), f"{name}: num_args should be {len(params)}")
    ]
    arguments = Arguments(name, target.device_type)
    if params:
        wraps.append(check(not_(is_null(args)), f"{name}: TVMValue* arg pointer was NULL"))
        wraps.append(check(not_(is_null(codes)), f"{name}: int* type_codes was NULL"))
        numbers = decl_buffer((len(params),), int32, codes.name, data=codes)
        wraps.append(declare(numbers))
        for i, param in enumerate(params):
            arguments.code(numbers, i, param)
        for i, param in enumerate(params):
            arguments.value(args, i, param)
        for param in params:
            if param in func.buffer_map:
                arguments.array(param, func.buffer_map[param])
    wraps += arguments.definitions
    device = arguments.device_id
    if device is not None:
        wraps.append(attribute("default", "device_id", device))
        wraps.append(attribute("default", "device_type", const(target.device_type)))
    wraps += arguments.checks
    wraps += arguments.views
    if device is not None and target.device_type != CPU:
        wraps.append(before(_set_device(target, device)))
    body = _Results(name, result, result_code).stmt(_Calls(packed).stmt(func.body))
    compute = attribute(None, "compute_scope", StringImm(f"{name}_compute_"))(body)
    wraps = [*(let(context, resource) for context in contexts), *wraps]
    whole = nest(wraps, seq(compute, _ret()))
    signature = (args, codes, count, result, result_code, resource)
    missing = sorted(v.name for v in undefined(whole) - set(signature))
    if missing:
        raise CompileError(
            f"MakePackedAPI: {name}: {', '.join(missing)} not passed in as API arguments"
        )
    attrs = {**func.attrs, "calling_conv": PACKED, "target": target.host.attribute}
    return replace(func, params=signature, body=whole, buffer_map={}, attrs=attrs)


def _set_device(target: FunctionTarget, device: Var) -> Stmt:
    kind, number = StringImm("__tvm_set_device"), const(target.device_type)
    return Evaluate(Call(int32, "call_packed", (kind, number, device)))


def _ret() -> Stmt:
    return Evaluate(Call(int32, "ret", (const(0),)))


class _Calls:
    """Rewrites calls of functions of the module that will take packed arguments."""

    def __init__(self, packed: Mapping[str, PrimFunc]) -> None:
        self._packed = packed

    def func(self, func: PrimFunc) -> PrimFunc:
        return func.with_body(self.stmt(func.body))

    def stmt(self, s: Stmt) -> Stmt:
        return map_children(s, self.stmt, lambda e: rewrite_expr(e, self._call))

    def _call(self, e: Expr) -> Expr | None:
        if isinstance(e, Call) and e.op == "call_extern" and isinstance(e.args[0], StringImm):
            callee = self._packed.get(e.args[0].value)
            if callee is not None:
                _check_arrays(callee, e)
                return Call(e.dtype, "call_cpacked", (*e.args, null()))
        return None


def _check_arrays(callee: PrimFunc, call: Call) -> None:
    """Raise CompileError if an array is passed as a pointer instead of its description."""
    for param, value in zip(callee.params, call.args[1:], strict=False):
        described = isinstance(value, Call) and value.op == "tvm_stack_make_array"
        if param in callee.buffer_map and not described:
            raise CompileError(
                f"MakePackedAPI: {callee.name} takes the array {callee.buffer_map[param].name}; "
                f"pass tvm_stack_make_array(...), found {value!r}"
            )


class _Results:
    """Stores results where the caller wants them; the function returns 0."""

    def __init__(self, name: str, result: Var, code: Var) -> None:
        self._name = name
        self._result = result
        self._code = decl_buffer((1,), int32, code.name, data=code)
        self._parallel = False

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind is ForKind.PARALLEL:
            outside, self._parallel = self._parallel, True
            new = map_children(s, self.stmt)
            self._parallel = outside
            return new
        if isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.op == "ret":
            return self._stored(s.value.args[0])
        return map_children(s, self.stmt)

    def _stored(self, value: Expr) -> Stmt:
        if self._parallel:
            raise CompileError(
                f"MakePackedAPI: {self._name}: ret({value!r}) in a parallel loop; a function ends "
                "once, outside of its parallel loops"
            )
        dtype = packed_dtype(value.dtype)
        slot = decl_buffer((1,), dtype, self._result.name, data=self._result)
        code = _result_code(value)
        return seq(
            BufferStore(slot, cast(dtype, value), (const(0),)),
            BufferStore(self._code, const(int(code)), (const(0),)),
            _ret(),
        )


def _result_code(value: Expr) -> ArgCode:
    if value.dtype.is_handle:
        return ArgCode.HANDLE
    if value.dtype.is_float:
        return ArgCode.FLOAT
    return ArgCode.BOOL if value.dtype.is_bool else ArgCode.INT
