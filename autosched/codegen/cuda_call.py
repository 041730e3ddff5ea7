"""Calls of intrinsics in CUDA C: conditionals, bit operations, mathematics, shuffles."""

from __future__ import annotations

from autosched.codegen import cuda_memory
from autosched.codegen.cuda_arith import convert
from autosched.codegen.cuda_ptx import PTX_CALLS
from autosched.codegen.cuda_types import int_constant, unsigned, value_type
from autosched.codegen.cuda_writer import Handler, Level, Text, Writer
from autosched.errors import CompileError
from autosched.tir.dtype import DType
from autosched.tir.expr import Call, Expr, IntImm, StringImm
from autosched.tir.intrin import BINARY_MATH, UNARY_MATH

_SPELLING = {"nearbyint": "rint"}
_CLASSIFY = {"isnan": "is_nan", "isinf": "is_inf", "isfinite": "is_finite"}
_BITS = {
    "bitwise_and": ("&", Level.BIT_AND),
    "bitwise_or": ("|", Level.BIT_OR),
    "bitwise_xor": ("^", Level.BIT_XOR),
}
_SHUFFLES = {
    "tvm_warp_shuffle": "__shfl_sync",
    "tvm_warp_shuffle_up": "__shfl_up_sync",
    "tvm_warp_shuffle_down": "__shfl_down_sync",
}


def call(w: Writer, e: Expr) -> Text:
    """A Call. Raises CompileError for an intrinsic that has no meaning on a GPU."""
    assert isinstance(e, Call)
    handler = _CALLS.get(e.op)
    if handler is not None:
        return handler(w, e)
    if e.op in UNARY_MATH or e.op in BINARY_MATH or e.op == "fma":
        return mathematics(w, e)
    raise CompileError(f"the intrinsic {e.op} cannot be compiled for CUDA: {e!r}")


def mathematics(w: Writer, e: Call) -> Text:
    """An elementwise function; on 16-bit floats it is computed in float and rounded."""
    dtype = e.args[0].dtype
    if e.op in _CLASSIFY:
        if not dtype.is_float:
            return Text("true" if e.op == "isfinite" else "false")
        w.use("classify")
        return Text(f"{_CLASSIFY[e.op]}({w.widened(e.args[0]).text})")
    if e.op == "fabs" and not dtype.is_float:
        return w.call("abs_int", w.text(e.args[0]))
    if not dtype.is_float:
        raise CompileError(f"{e.op} needs a floating point argument, found {dtype}: {e!r}")
    suffix = "" if dtype.bits == 64 else "f"
    args = [w.widened(a).text for a in e.args]
    if e.op == "ldexp":
        args[1] = convert(w, w.value(e.args[1]), e.args[1].dtype, DType("int32")).text
    if e.op == "sigmoid":
        one = f"1.0{suffix}"
        whole = Text(f"{one} / ({one} + exp{suffix}(-({args[0]})))", Level.MUL)
    else:
        whole = Text(f"{_SPELLING.get(e.op, e.op)}{suffix}({', '.join(args)})")
    return w.narrowed(whole, e.dtype)


def _likely(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    return w.value(e.args[0])


def _if_then_else(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    return conditional(w, *e.args)


def conditional(w: Writer, condition: Expr, yes: Expr, no: Expr) -> Text:
    """`condition ? yes : no`; C evaluates one of the two."""
    text = (
        f"{w.operand(condition, Level.OR)} ? {w.operand(yes, Level.OR)} : {w.operand(no, Level.OR)}"
    )
    return Text(text, Level.CONDITIONAL)


# -- bits -------------------------------------------------------------------------------------


def _bits(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    symbol, level = _BITS[e.op]
    a, b = (w.operand(x, Level.UNARY) for x in e.args)
    return _fitted(Text(f"{a} {symbol} {b}", level), e.dtype)


def _bitwise_not(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    if e.dtype.is_bool:
        return Text(f"!{w.operand(e.args[0], Level.UNARY)}", Level.UNARY)
    return _fitted(Text(f"~{w.operand(e.args[0], Level.UNARY)}", Level.UNARY), e.dtype)


def _shift(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    value, count = e.args
    if isinstance(count, IntImm):
        by = str(count.value % e.dtype.bits)
    else:
        by = f"({w.operand(count, Level.UNARY)} & {e.dtype.bits - 1})"
    if e.op == "shift_right":
        return _fitted(Text(f"{w.operand(value, Level.UNARY)} >> {by}", Level.SHIFT), e.dtype)
    kind = unsigned(e.dtype)
    shifted = f"({kind}){w.operand(value, Level.UNARY)} << {by}"
    return Text(f"({value_type(e.dtype)})({shifted})", Level.UNARY)


def _fitted(value: Text, dtype: DType) -> Text:
    """`value` as the small type `dtype`, from int, to which C promotes it."""
    if dtype.bits >= 32:
        return value
    return Text(f"({value_type(dtype)}){value.within(Level.UNARY)}", Level.UNARY)


def _count(w: Writer, e: Expr) -> Text:
    """clz and popcount in the width of the argument's type."""
    assert isinstance(e, Call)
    source = e.args[0].dtype
    long = "ll" if source.bits == 64 else ""
    # An unsigned type, so that no sign bits are added in front.
    plain = source if source.is_bool else DType(f"uint{source.bits}")
    bits = convert(w, w.value(e.args[0]), source, plain).within(Level.UNARY)
    if e.op == "popcount":
        whole = Text(f"__popc{long}({bits})")
    else:
        whole = Text(f"__clz{long}({bits})")
        if source.bits < 32:
            whole = Text(f"{whole.text} - {32 - source.bits}", Level.ADD)
    return convert(w, whole, DType("int32"), e.dtype)


def _reinterpret(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    source = e.args[0].dtype
    if source.bits != e.dtype.bits or source.lanes != 1:
        raise CompileError(f"reinterpret of {source} as {e.dtype}: the sizes differ")
    w.use("bit_cast")
    return Text(f"bit_cast<{w.type(e.dtype)}>({w.text(e.args[0])})")


def _large_constant(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    low, high = e.args
    assert isinstance(low, IntImm) and isinstance(high, IntImm)
    return Text(int_constant((high.value << 32) | (low.value & 0xFFFFFFFF), e.dtype))


def _multiply_shift(w: Writer, e: Expr) -> Text:
    """round(x * y * 2**(s - q)), halves up, through a product of twice the width."""
    assert isinstance(e, Call)
    x, y, q, s = e.args
    if not isinstance(q, IntImm) or not isinstance(s, IntImm):
        raise CompileError(f"q_multiply_shift needs constant q and s: {e!r}")
    product = f"(long long){w.operand(x, Level.UNARY)} * {w.operand(y, Level.UNARY)}"
    right = q.value - s.value
    if right <= 0:
        shifted = f"(unsigned long long)({product}) << {-right}"
    else:
        shifted = f"({product} + {1 << (right - 1)}LL) >> {right}"
    return Text(f"({value_type(e.dtype)})({shifted})", Level.UNARY)


# -- memory and threads -----------------------------------------------------------------------


def _address_of(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    return cuda_memory.address_of(w, e.args[0])


def _shuffle(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    mask, value, lane, width, _ = e.args
    if not isinstance(mask, IntImm):
        raise CompileError(f"the lanes that take part in a shuffle must be constant: {e!r}")
    if e.dtype.bits < 32:
        raise CompileError(f"a shuffle of {e.dtype}: values of at least 32 bits are exchanged")
    args = (f"0x{mask.value & 0xFFFFFFFF:08x}u", *(w.text(a) for a in (value, lane, width)))
    return Text(f"{_SHUFFLES[e.op]}({', '.join(args)})")


def _extern(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    name = e.args[0].value if isinstance(e.args[0], StringImm) else repr(e.args[0])
    raise CompileError(
        f"the function {name} is called, which CUDA code does not have: write it with the "
        "operations of autosched"
    )


_CALLS: dict[str, Handler] = {
    "likely": _likely,
    "tvm_thread_invariant": _likely,
    "if_then_else": _if_then_else,
    **dict.fromkeys(_BITS, _bits),
    "bitwise_not": _bitwise_not,
    "shift_left": _shift,
    "shift_right": _shift,
    "clz": _count,
    "popcount": _count,
    "reinterpret": _reinterpret,
    "large_uint_imm": _large_constant,
    "q_multiply_shift": _multiply_shift,
    "address_of": _address_of,
    **dict.fromkeys(_SHUFFLES, _shuffle),
    **dict.fromkeys(("call_extern", "call_pure_extern", "call_packed"), _extern),
    **PTX_CALLS,
}
