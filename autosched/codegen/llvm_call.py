"""Calls of intrinsics: conditionals, bit operations, mathematics, memory, functions outside."""

from __future__ import annotations

from collections.abc import Callable

from autosched.codegen import llvm_math, llvm_memory, llvm_packed, llvm_profile, llvm_tiles
from autosched.codegen.llvm_arith import convert
from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_types import llvm_type, memory_type, splat, suffix
from autosched.errors import CompileError
from autosched.tir.dtype import DType, float32
from autosched.tir.expr import (
    BinaryExpr,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    StringImm,
)
from autosched.tir.intrin import BINARY_MATH, UNARY_MATH
from autosched.tir.tiles import TILE_CALLS
from autosched.tir.walk import distinct


def call(b: FunctionBuilder, e: Call) -> str:
    """A Call. Raises CompileError for an intrinsic that has no meaning on a CPU."""
    handler = _CALLS.get(e.op)
    if handler is not None:
        return handler(b, e)
    if e.op in UNARY_MATH or e.op in BINARY_MATH or e.op == "fma":
        return mathematics(b, e)
    raise CompileError(f"the intrinsic {e.op} cannot be compiled for the CPU: {e!r}")


def mathematics(b: FunctionBuilder, e: Call) -> str:
    """An elementwise function; on small floats it is computed in float32 and rounded."""
    args = [b.value(a) for a in e.args]
    dtype = e.args[0].dtype
    if not dtype.is_float or dtype.bits > 16:
        return llvm_math.apply(b, e.op, args, [a.dtype for a in e.args], e.dtype)
    lanes = dtype.lanes
    wide = float32.with_lanes(lanes)
    args = [convert(b, a, x.dtype, wide) for a, x in zip(args, e.args, strict=True)]
    result_type = wide if e.dtype.is_float else e.dtype
    result = llvm_math.apply(b, e.op, args, [wide] * len(args), result_type)
    if not e.dtype.is_float:
        return result
    return convert(b, result, wide, e.dtype)


# -- conditionals -----------------------------------------------------------------------------


def _likely(b: FunctionBuilder, e: Call) -> str:
    return b.value(e.args[0])


def _cheap(e: Expr) -> bool:
    """Whether computing `e` needlessly costs less than a branch."""
    match e:
        case IntImm() | FloatImm():
            return True
        case BufferLoad():
            return e.predicate is None
        case BinaryExpr():
            return _cheap(e.a) and _cheap(e.b)
        case Cast():
            return _cheap(e.value)
    return False


def _is_speculatable(b: FunctionBuilder, e: Expr) -> bool:
    """Whether `e`, of which `_cheap` holds, may be computed though its value is not needed.

    It may read memory, at pure indices, and divides only where `is_pure` allows it.
    """
    match e:
        case BufferLoad():
            return all(b.is_pure(i) for i in e.indices)
        case BinaryExpr() if not b.is_pure(e):
            return e.symbol not in ("/", "//", "%") and all(
                _is_speculatable(b, c) for c in e.children()
            )
        case Cast():
            return _is_speculatable(b, e.value)
    return b.is_pure(e)


def _asks_for_null(condition: Expr) -> bool:
    """Whether a pointer that the arms read may be null: nothing else can be read instead then."""
    return any(isinstance(e, Call) and e.op == "isnullptr" for e in distinct(condition))


def _if_then_else(b: FunctionBuilder, e: Call) -> str:
    condition, first, second = e.args
    arms = (first, second)
    lanes = condition.dtype.lanes
    chosen = llvm_memory.load_or_constant(b, e)
    if chosen is not None:
        return chosen
    safe = all(_cheap(a) and _is_speculatable(b, a) for a in arms) and not _asks_for_null(condition)
    if lanes > 1 or safe:
        return _masked_arms(b, e)
    test = b.value(condition)
    kind = llvm_type(e.dtype)
    then_block, else_block = b.new_block("then"), b.new_block("else")
    join = b.new_block("join")
    b.branch(f"br i1 {test}, label %{then_block.label}, label %{else_block.label}")
    results = []
    for arm, block in zip(arms, (then_block, else_block), strict=True):
        b.enter(block)
        result = b.value(arm)
        results.append(f"[ {result}, %{b.leave(f'br label %{join.label}').label} ]")
    # The join follows the arms' blocks in the text only for readability.
    b.blocks.remove(join)
    b.blocks.append(join)
    b.resume(join)
    return b.emit(f"phi {kind} {', '.join(results)}")


def _masked_arms(b: FunctionBuilder, e: Call) -> str:
    """Both arms, each computed under the mask of the lanes that take it, and selected."""
    condition, first, second = e.args
    test, lanes = b.value(condition), condition.dtype.lanes
    flags = llvm_type(condition.dtype)
    outer = b.mask
    results = []
    for arm, flip in ((first, False), (second, True)):
        own = test
        if not b.is_pure(arm):
            if flip:
                own = b.emit(f"xor {flags} {test}, {splat(1, condition.dtype)}")
            if outer is not None:
                combined = llvm_memory.mask_of(b, None, lanes)
                own = b.emit(f"and {flags} {own}, {combined}")
            b.mask = (own, lanes)
        results.append(b.value(arm))
        b.mask = outer
    kind = llvm_type(e.dtype)
    if lanes == 1 and e.dtype.lanes > 1:
        return b.emit(f"select i1 {test}, {kind} {results[0]}, {kind} {results[1]}")
    return b.emit(f"select {flags} {test}, {kind} {results[0]}, {kind} {results[1]}")


# -- bits -------------------------------------------------------------------------------------

_BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


def _bits(b: FunctionBuilder, e: Call) -> str:
    first, second = (b.value(a) for a in e.args)
    return b.emit(f"{_BITS[e.op]} {llvm_type(e.dtype)} {first}, {second}")


def _shift(b: FunctionBuilder, e: Call) -> str:
    """A shift by its count modulo the bits of the type; LLVM's has no value for larger counts."""
    first, second = (b.value(a) for a in e.args)
    name = "shl" if e.op == "shift_left" else "ashr" if e.dtype.code == "int" else "lshr"
    kind, bits = llvm_type(e.dtype), e.dtype.bits
    count = e.args[1].value if isinstance(e.args[1], Broadcast) else e.args[1]
    if not (isinstance(count, IntImm) and 0 <= count.value < bits):
        second = b.emit(f"and {kind} {second}, {splat(bits - 1, e.dtype)}")
    return b.emit(f"{name} {kind} {first}, {second}")


def _bitwise_not(b: FunctionBuilder, e: Call) -> str:
    ones = 1 if e.dtype.is_bool else -1
    return b.emit(f"xor {llvm_type(e.dtype)} {b.value(e.args[0])}, {splat(ones, e.dtype)}")


def _count(b: FunctionBuilder, e: Call) -> str:
    source = e.args[0].dtype
    kind = llvm_type(source)
    args = [(kind, b.value(e.args[0]))]
    if e.op == "clz":
        args.append(("i1", "false"))
    name = f"llvm.{'ctlz' if e.op == 'clz' else 'ctpop'}.{suffix(source)}"
    result = b.call(name, kind, args)
    unsigned = source if source.is_bool else DType(f"uint{source.bits}").with_lanes(source.lanes)
    return convert(b, result, unsigned, e.dtype)


def _reinterpret(b: FunctionBuilder, e: Call) -> str:
    source = e.args[0].dtype
    before, after = llvm_type(source), llvm_type(e.dtype)
    value = b.value(e.args[0])
    if before == after:
        return value
    if source.is_handle or e.dtype.is_handle:
        return convert(b, value, source, e.dtype)
    return b.emit(f"bitcast {before} {value} to {after}")


def _large_constant(b: FunctionBuilder, e: Call) -> str:
    low, high = e.args
    assert isinstance(low, IntImm) and isinstance(high, IntImm)
    return str((high.value << 32) | (low.value & 0xFFFFFFFF))


def _multiply_shift(b: FunctionBuilder, e: Call) -> str:
    """round(x * y * 2**(s - q)), halves up, through a product of twice the width."""
    x, y, q, s = e.args
    if not isinstance(q, IntImm) or not isinstance(s, IntImm):
        raise CompileError(f"q_multiply_shift needs constant q and s: {e!r}")
    wide = DType(f"int{max(64, e.dtype.bits)}").with_lanes(e.dtype.lanes)
    kind, right = llvm_type(wide), q.value - s.value
    first, second = (convert(b, b.value(a), a.dtype, wide) for a in (x, y))
    product = b.emit(f"mul {kind} {first}, {second}")
    if right <= 0:
        shifted = b.emit(f"shl {kind} {product}, {splat(-right, wide)}")
    else:
        half = b.emit(f"add {kind} {product}, {splat(1 << (right - 1), wide)}")
        shifted = b.emit(f"ashr {kind} {half}, {splat(right, wide)}")
    return convert(b, shifted, wide, e.dtype)


# -- memory -----------------------------------------------------------------------------------


def _address_of(b: FunctionBuilder, e: Call) -> str:
    match e.args[0]:
        case BufferLoad(buffer, (index,), _):
            return llvm_memory.address(b, buffer, getattr(index, "base", index))
    raise CompileError(f"address_of needs an element of a buffer, found {e.args[0]!r}")


def _access_pointer(b: FunctionBuilder, e: Call) -> str:
    annotation, data, offset = e.args[:3]
    element = memory_type(annotation.dtype)
    return b.emit(f"getelementptr {element}, ptr {b.value(data)}, i64 {b.wide_value(offset)}")


def _is_null(b: FunctionBuilder, e: Call) -> str:
    return b.emit(f"icmp eq ptr {b.value(e.args[0])}, null")


def _prefetch(b: FunctionBuilder, e: Call) -> str:
    pointer = b.value(e.args[0])
    b.module.declare("llvm.prefetch.p0", "void @(ptr, i32, i32, i32)")
    b.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")
    return "0"


# -- external functions -------------------------------------------------------------------------


def _extern(b: FunctionBuilder, e: Call) -> str:
    return extern(b, e, memory_type(e.dtype))


def extern(b: FunctionBuilder, e: Call, result: str) -> str:
    """A call of a C function with this result, or `void`; CompileError unless its name is given."""
    if not isinstance(e.args[0], StringImm):
        raise CompileError(f"{e.op} needs the function's name as its first argument: {e!r}")
    name, args = e.args[0].value, e.args[1:]
    if name in b.module.local:
        return _local(b, name, args)
    pairs = [_extern_argument(b, a) for a in args]
    b.module.declare(name, f"{result} @({', '.join(t for t, _ in pairs)})")
    text = f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in pairs)})"
    if e.op == "call_extern":
        b.forget_all()
    if result == "void":
        b.line(text)
        return "null"
    return llvm_memory.from_memory(b, b.emit(text), e.dtype)


def _local(b: FunctionBuilder, name: str, args: tuple[Expr, ...]) -> str:
    """A call of another function of the module; if it fails, so does the caller."""
    values = ["ptr %status", *(f"{llvm_type(a.dtype)} {b.value(a)}" for a in args)]
    b.line(f"call void @{name}.body({', '.join(values)})")
    b.forget_all()
    status = b.emit("load i32, ptr %status")
    llvm_packed.leave_when(b, b.emit(f"icmp ne i32 {status}, 0"), status)
    return "0"


def _extern_argument(b: FunctionBuilder, e: Expr) -> tuple[str, str]:
    value = b.value(e)
    if e.dtype.is_bool:
        value = b.emit(f"zext {llvm_type(e.dtype)} {value} to {memory_type(e.dtype)}")
    return memory_type(e.dtype), value


_TAKES_BFLOAT = frozenset(("llvm.aarch64.neon.bfmmla",))
"""Intrinsics whose operands have LLVM's type `bfloat`; everywhere else these are 16 bits."""


def _llvm_intrinsic(b: FunctionBuilder, e: Call) -> str:
    if not isinstance(e.args[0], StringImm):
        raise CompileError(f"{e.op} needs the intrinsic's name as its first argument: {e!r}")
    if e.args[0].value in TILE_CALLS:
        return llvm_tiles.tile_call(b, e.args[0].value, e.args[1:])
    pairs = [(llvm_type(a.dtype), b.value(a)) for a in e.args[1:]]
    if e.args[0].value in _TAKES_BFLOAT:
        pairs = [_with_bfloat(b, *pair) for pair in pairs]
    return b.call(e.args[0].value, llvm_type(e.dtype), pairs)


def _with_bfloat(b: FunctionBuilder, kind: str, value: str) -> tuple[str, str]:
    if "i16" not in kind:
        return kind, value
    wanted = kind.replace("i16", "bfloat")
    return wanted, b.emit(f"bitcast {kind} {value} to {wanted}")


_CALLS: dict[str, Callable[[FunctionBuilder, Call], str]] = {
    **llvm_packed.CALLS,
    "likely": _likely,
    "if_then_else": _if_then_else,
    **dict.fromkeys(_BITS, _bits),
    "shift_left": _shift,
    "shift_right": _shift,
    "bitwise_not": _bitwise_not,
    "clz": _count,
    "popcount": _count,
    "reinterpret": _reinterpret,
    "large_uint_imm": _large_constant,
    "q_multiply_shift": _multiply_shift,
    "address_of": _address_of,
    "tvm_access_ptr": _access_pointer,
    "isnullptr": _is_null,
    "prefetch": _prefetch,
    "start_profile_intrinsic": llvm_profile.start,
    "end_profile_intrinsic": llvm_profile.end,
    "call_extern": _extern,
    "call_pure_extern": _extern,
    "call_llvm_intrin": _llvm_intrinsic,
    "call_llvm_pure_intrin": _llvm_intrinsic,
}
