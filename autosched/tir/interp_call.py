"""Compiles intrinsic calls to Python source."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autosched.tir import interp_host, interp_math
from autosched.tir.dot_products import DOT_PRODUCTS
from autosched.tir.expr import BufferLoad, Call, StringImm, Var
from autosched.tir.interp_access import flat_index
from autosched.tir.interp_memory import InterpreterError
from autosched.tir.interp_value import ATOM, Value, is_settled, type_interval
from autosched.tir.intrin import EFFECTS
from autosched.tir.tiles import TILE_CALLS

if TYPE_CHECKING:
    from autosched.tir.interp_expr import ExprCompiler


def call_value(c: ExprCompiler, e: Call) -> Value:
    """The compiled value of a call."""
    special = _SPECIAL.get(e.op)
    if special is not None:
        return special(c, e)
    args = [c.expr(a) for a in e.args]
    many = any(a.varying for a in args)
    bits = _bits(c, e, args)
    if bits is not None:
        return bits
    texts = ", ".join(a.text for a in args)
    result = c.type_name(e.dtype.element)
    if e.op in interp_math.INTEGER_CALLS:
        source = c.type_name(e.args[0].dtype.element)
        text = f"integer_call({e.op!r}, {source}, {result}, {texts})"
    elif e.op in interp_math.UNARY or e.op in interp_math.BINARY:
        text = f"float_call({e.op!r}, {result}, {texts})"
    else:
        raise InterpreterError(f"the interpreter does not know the intrinsic {e.op}: {e!r}")
    return Value(text, ATOM, many, *type_interval(e.dtype))


_BIT_SYMBOLS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "shift_right": ">>"}


def _bits(c: ExprCompiler, e: Call, args: list[Value]) -> Value | None:
    """A bit operation as a Python operator; None where that would not mean the same."""
    symbol = _BIT_SYMBOLS.get(e.op)
    if symbol is None or e.dtype.is_bool or any(a.dtype is not e.dtype for a in e.args):
        return None
    a, b = args
    low, high = type_interval(e.dtype)
    if symbol == ">>":
        if not 0 <= b.low <= b.high < e.dtype.bits:
            return None
        ends = [x >> y for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = min(ends), max(ends)
    elif symbol == "&" and max(a.low, b.low) >= 0:
        low, high = 0, min(v.high for v in args if v.low >= 0)
    text = f"({a.at(ATOM)} {symbol} {b.at(ATOM)})"
    return Value(text, ATOM, a.varying or b.varying, low, high)


def _branch(c: ExprCompiler, e: Call) -> Value:
    condition, then, other = e.args
    test = c.expr(condition)
    if is_settled(test) and condition.dtype.lanes == 1:
        return c.expr(then if test.low else other)
    if test.varying or condition.dtype.lanes > 1:
        outer, inner = c.mask, c.fresh("m")
        c.mask = inner
        with c.inside_lambda(inner):
            a, b = c.typed(c.expr(then), e.dtype), c.typed(c.expr(other), e.dtype)
        c.mask = outer
        wide = e.dtype.lanes > 1 and condition.dtype.lanes == 1
        text = f"lane_axis({test.text})" if wide else test.text
        text = f"branch({text}, {outer}, lambda {inner}: {a.text}, lambda {inner}: {b.text})"
    else:
        a, b = c.expr(then), c.expr(other)
        if a.varying or b.varying:
            a, b = c.typed(a, e.dtype), c.typed(b, e.dtype)
        text = f"({a.text} if {test.text} else {b.text})"
    many = test.varying or a.varying or b.varying
    return Value(text, ATOM, many, min(a.low, b.low), max(a.high, b.high))


def _same(c: ExprCompiler, e: Call) -> Value:
    return c.expr(e.args[0])


def _reinterpret(c: ExprCompiler, e: Call) -> Value:
    v = c.expr(e.args[0])
    source, target = e.args[0].dtype.element, e.dtype.element
    text = f"reinterpret({v.text}, {c.type_name(source)}, {c.type_name(target)})"
    low, high = type_interval(target)
    if source.bits != target.bits:
        return _regrouped(c, e, v)
    if not v.varying and e.dtype.lanes == 1:
        # Not cast_one for a float: it would lose the payload of a NaN.
        text = f"{text}[()]" if target.is_float else f"cast_one({text}[()], {c.type_name(target)})"
    return Value(text, ATOM, v.varying, low, high)


def _regrouped(c: ExprCompiler, e: Call, v: Value) -> Value:
    """The value of a reinterpret that changes the width, and so the number, of lanes."""
    source, target = e.args[0].dtype, e.dtype
    before, after = c.type_name(source.element), c.type_name(target.element)
    text = f"reinterpret_lanes({v.text}, {before}, {source.lanes}, {after}, {target.lanes})"
    if target.lanes == 1 and not v.varying:
        text = f"{text}[0]" if target.is_float else f"int({text}[0])"
    return Value(text, ATOM, v.varying, *type_interval(target))


def _fma(c: ExprCompiler, e: Call) -> Value:
    x, y, z = (c.expr(a) for a in e.args)
    text = f"fused_multiply_add({x.text}, {y.text}, {z.text})"
    return Value(text, ATOM, x.varying or y.varying or z.varying)


def _warp_shuffle(c: ExprCompiler, e: Call) -> Value:
    lanes, value, offset, width = (c.expr(x) for x in e.args[:4])
    if not c.in_kernel:
        return value
    fields = [lanes, value, offset, width]
    text = f"L.shuffle({e.op!r}, {', '.join(v.text for v in fields)}, {c.mask})"
    return Value(text, ATOM, True, value.low, value.high)


def _active_mask(c: ExprCompiler, e: Call) -> Value:
    return Value(str(0xFFFFFFFF), ATOM, False, 0xFFFFFFFF, 0xFFFFFFFF)


def _lane_id(c: ExprCompiler, e: Call) -> Value:
    return Value("L.lane", ATOM, True, 0, 31) if c.in_kernel else Value("0", ATOM, False, 0, 0)


def _llvm_intrinsic(c: ExprCompiler, e: Call) -> Value:
    """The value of an LLVM intrinsic: `dot_products.py` has some, `llvm.exp.f32(x)` is `exp(x)`."""
    product = DOT_PRODUCTS.get(e.args[0].value) if isinstance(e.args[0], StringImm) else None
    if product is not None:
        args = [c.expr(a) for a in e.args[1:]]
        rows = [
            f"all_lanes({v.text}, {a.dtype.lanes})" for v, a in zip(args, e.args[1:], strict=True)
        ]
        text = f"{c.constant(product)}({', '.join(rows)})"
        return Value(text, ATOM, any(a.varying for a in args), *type_interval(e.dtype))
    name = e.args[0].value.split(".")[1] if isinstance(e.args[0], StringImm) else ""
    op = {"fmuladd": "fma", "ctpop": "popcount"}.get(name, name)
    if op not in EFFECTS:
        raise InterpreterError(f"the interpreter does not know the intrinsic of {e!r}")
    return call_value(c, Call(e.dtype, op, e.args[1:]))


def _tile_call(c: ExprCompiler, e: Call) -> Value:
    """The value of an AMX call, which operates on the tiles of this run; else `_llvm_intrinsic`."""
    name = e.args[0].value if isinstance(e.args[0], StringImm) else ""
    if name not in TILE_CALLS:
        return _llvm_intrinsic(c, e)
    texts = ", ".join(c.expr(a).text for a in e.args[1:])
    return Value(f"{c.constant(c.run.tiles)}.call({name!r}, [{texts}])")


def _extern(c: ExprCompiler, e: Call) -> Value:
    args = [c.expr(a) for a in e.args]
    texts = ", ".join(a.text for a in args)
    threads = "L" if c.in_kernel else "None"
    low, high = type_interval(e.dtype)
    text = f"extern([{texts}], {threads}, {c.mask})"
    if not e.dtype.is_handle and not c.in_kernel:
        text = f"cast_one({text}, {c.type_name(e.dtype)})"
    return Value(text, ATOM, c.in_kernel, low, high)


def _address(c: ExprCompiler, e: Call) -> Value:
    load = e.args[0]
    if not isinstance(load, BufferLoad):
        raise InterpreterError(f"address_of takes a load, found {load!r}")
    place = c.place(load.buffer)
    return Value(f"Pointer({place.storage}, {flat_index(c, place, load.indices).text})")


def _access_ptr(c: ExprCompiler, e: Call) -> Value:
    annotation, data, offset, extent = e.args[:4]
    if not isinstance(data, Var) or data not in c.memory:
        raise InterpreterError(f"tvm_access_ptr of an unknown pointer: {e!r}")
    dtype = c.constant(annotation.dtype.numpy)
    memory = c.memory[data]
    low, size = c.expr(offset), c.expr(extent)
    storage = f"{memory.storage(memory.dtype)}.view({dtype})"
    return Value(f"Pointer({storage}, {low.text}, {size.text})")


def _make_array(c: ExprCompiler, e: Call) -> Value:
    data, shape = c.expr(e.args[0]), c.expr(e.args[1])
    offset = c.expr(e.args[5]) if len(e.args) > 5 else Value("0")
    return Value(f"{data.at(ATOM)}.shaped({shape.text}, {offset.text})")


def _tuple(c: ExprCompiler, e: Call) -> Value:
    return Value(f"({''.join(c.expr(a).text + ', ' for a in e.args)})")


SHUFFLES = ("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down")

_SPECIAL: dict[str, Callable[[ExprCompiler, Call], Value]] = {
    "if_then_else": _branch,
    "likely": _same,
    "tvm_thread_invariant": _same,
    "tvm_thread_context": _same,
    "reinterpret": _reinterpret,
    "fma": _fma,
    **dict.fromkeys(SHUFFLES, _warp_shuffle),
    "tvm_warp_activemask": _active_mask,
    "ptx_lane_id": _lane_id,
    "call_llvm_pure_intrin": _llvm_intrinsic,
    "call_llvm_intrin": _tile_call,
    "call_extern": _extern,
    "call_pure_extern": _extern,
    "call_packed": _extern,
    "call_cpacked": _extern,
    "address_of": _address,
    "tvm_access_ptr": _access_ptr,
    "tvm_stack_make_array": _make_array,
    "tvm_stack_make_shape": _tuple,
    "tuple": _tuple,
    **interp_host.CALLS,
}
