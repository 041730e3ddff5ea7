"""Arithmetic, comparisons and conversions.

Floating point: `fmul` and `fadd` carry `contract`, so that LLVM may fuse them, but not in what is
converted to an integer, where the last bit of a float decides; nothing is reassociated. Minimum and
maximum propagate NaN, as NumPy's do. Integers wrap. Conversions of floats to integers saturate and
send NaN to 0. Division by an integer that is data never ends the process: as in NumPy, dividing by
0 gives 0 (so does its remainder), the least number by -1 itself.
"""

from __future__ import annotations

from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_types import llvm_type, splat, suffix
from autosched.errors import CompileError
from autosched.tir import float_bits
from autosched.tir.data import is_data
from autosched.tir.dtype import DType, float32, int32
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Broadcast,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Min,
    Mod,
    Mul,
    Or,
    Sub,
    Var,
)
from autosched.tir.op import broadcast, call, const, div, lt, mul, select

_FLOAT_OPS: dict[type[Expr], str] = {
    Add: "fadd",
    Sub: "fsub",
    Mul: "fmul",
}
_INT_OPS: dict[type[Expr], str] = {Add: "add", Sub: "sub", Mul: "mul", And: "and", Or: "or"}
_FLOAT_COMPARE: dict[type[Expr], str] = {
    EQ: "oeq",
    NE: "une",
    LT: "olt",
    LE: "ole",
    GT: "ogt",
    GE: "oge",
}
_INT_COMPARE: dict[type[Expr], str] = {EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge"}


def widen(b: FunctionBuilder, value: str, source: DType) -> str:
    """The float32 register equal to the bits of a float that is only stored."""
    name = Var("bits", source)
    b.bind_here(name, value)
    return b.value(float_bits.widen(name, float32))


def round_to(b: FunctionBuilder, value: str, target: DType) -> str:
    """The bits of a float32 register as `target`, a float that is only stored."""
    name = Var("value", _f32(target))
    b.bind_here(name, value)
    return b.value(float_bits.narrow(name, target))


def operands(b: FunctionBuilder, e: BinaryExpr) -> tuple[str, str, DType]:
    """Both operand registers and their type; floats that are only stored come as float32."""
    dtype = e.a.dtype
    first, second = b.value(e.a), b.value(e.b)
    if dtype.is_storage_float:
        return widen(b, first, dtype), widen(b, second, dtype), _f32(dtype)
    return first, second, dtype


def _f32(dtype: DType) -> DType:
    return float32.with_lanes(dtype.lanes)


def _finish(b: FunctionBuilder, e: Expr, result: str) -> str:
    return round_to(b, result, e.dtype) if e.dtype.is_storage_float else result


def binary(b: FunctionBuilder, e: BinaryExpr) -> str:
    """Add, Sub, Mul, And, Or."""
    if isinstance(e, Mul) and e.dtype.lanes >= 16 and _mixes_bytes(e):
        return _product_of_bytes(b, e)
    first, second, dtype = operands(b, e)
    if dtype.is_float:
        name = _FLOAT_OPS[type(e)] + (" contract" if b.may_fuse else "")
    else:
        name = _INT_OPS[type(e)]
    return _finish(b, e, b.emit(f"{name} {llvm_type(dtype)} {first}, {second}"))


def _mixes_bytes(e: Mul) -> bool:
    """Whether a vector of int32 is made of uint8 times int8."""
    if e.dtype.element is not int32 or not isinstance(e.a, Cast) or not isinstance(e.b, Cast):
        return False
    return {e.a.value.dtype.element.name, e.b.value.dtype.element.name} == {"int8", "uint8"}


def _product_of_bytes(b: FunctionBuilder, e: Mul) -> str:
    """uint8 times int8 in int16, which holds it.

    In int32 LLVM 22 takes the sum over 16 lanes for a `vpdpbusd` and, where halves of the vector
    are added, forgets to add up what that leaves in four lanes (combineVPDPBUSDPattern counts the
    stages of the narrowed vector).
    """
    half = DType("int16").with_lanes(e.dtype.lanes)
    first, second = (
        convert(b, b.value(side.value), side.value.dtype, half)
        for side in (e.a, e.b)
        if isinstance(side, Cast)
    )
    product = b.emit(f"mul nsw {llvm_type(half)} {first}, {second}")
    return convert(b, product, half, e.dtype)


def compare(b: FunctionBuilder, e: BinaryExpr) -> str:
    """The six comparisons; false with a NaN, but != is true."""
    first, second, dtype = operands(b, e)
    if dtype.is_float:
        return b.emit(f"fcmp {_FLOAT_COMPARE[type(e)]} {llvm_type(dtype)} {first}, {second}")
    name = _INT_COMPARE[type(e)]
    if name not in ("eq", "ne"):
        name = ("s" if dtype.code == "int" else "u") + name
    return b.emit(f"icmp {name} {llvm_type(dtype)} {first}, {second}")


_LEAST_LANES = 4
"""float32 in the smallest vector register: what has fewer lanes is left to LLVM's own form."""


def extremum(b: FunctionBuilder, e: BinaryExpr) -> str:
    """Min and Max."""
    first, second, dtype = operands(b, e)
    smaller = isinstance(e, Min)
    kind = llvm_type(dtype)
    if dtype.is_float and _masks_nan(b, e):
        return _finish(b, e, _extremum_of_numbers(b, first, second, dtype, smaller))
    if dtype.is_float:
        name = f"llvm.{'minimum' if smaller else 'maximum'}.{suffix(dtype)}"
        b.module.declare(name, f"{kind} @({kind}, {kind})")
        result = b.emit(f"call nsz {kind} @{name}({kind} {first}, {kind} {second})")
        return _finish(b, e, result)
    name = f"{'s' if dtype.code == 'int' else 'u'}{'min' if smaller else 'max'}"
    return b.call(f"llvm.{name}.{suffix(dtype)}", kind, [(kind, first), (kind, second)])


def _masks_nan(b: FunctionBuilder, e: BinaryExpr) -> bool:
    """Whether `_extremum_of_numbers` is shorter than LLVM's own form.

    It needs masks of lanes. LLVM's form is as short where one side is a constant.
    """
    sides = [side.value if isinstance(side, Broadcast) else side for side in (e.a, e.b)]
    vector = b.module.has_masks and e.dtype.lanes >= _LEAST_LANES and e.dtype.bits >= 32
    return vector and not any(isinstance(side, FloatImm) for side in sides)


def _extremum_of_numbers(
    b: FunctionBuilder, first: str, second: str, dtype: DType, smaller: bool
) -> str:
    """The extremum where `second` is no NaN, elsewhere `second`: two instructions, not three.

    The processor's own extremum is its second operand where one is NaN, so that a NaN of `first`
    comes through as well. What waits for `first`, an accumulator, is one instruction.
    """
    kind, flags = llvm_type(dtype), _flags(dtype)
    relation = "olt" if smaller else "ogt"
    better = b.emit(f"fcmp {relation} {kind} {second}, {first}")
    extreme = b.emit(f"select {flags} {better}, {kind} {second}, {kind} {first}")
    number = b.emit(f"fcmp ord {kind} {second}, {second}")
    return b.emit(f"select {flags} {number}, {kind} {extreme}, {kind} {second}")


# -- division ---------------------------------------------------------------------------------


def divide(b: FunctionBuilder, e: BinaryExpr) -> str:
    """Div: exact on floats, toward zero on integers."""
    first, second, dtype = operands(b, e)
    if dtype.is_float and _is_shared(b, e):
        return _divide_by_one(b, e, first, dtype)
    if dtype.is_float:
        return _finish(b, e, b.emit(f"fdiv {llvm_type(dtype)} {first}, {second}"))
    return _int_divide(b, e, "div", first, second, dtype)


LEAST_SHARED = 8
"""Lanes of a vector whose division by one number becomes products: dividing sixteen takes as long
as 32 products on Intel's cores."""


def _is_shared(b: FunctionBuilder, e: BinaryExpr) -> bool:
    """Whether a vector is divided by one number, which is known before the loop."""
    divisor = e.b
    if not b.module.fuses or not isinstance(divisor, Broadcast) or e.dtype.lanes < LEAST_SHARED:
        return False
    return e.dtype.bits >= 32 and isinstance(divisor.value, Var | FloatImm)


def _divide_by_one(b: FunctionBuilder, e: BinaryExpr, x: str, dtype: DType) -> str:
    """x / s by the reciprocal of s, and a correction that makes it the rounded quotient (Markstein,
    Computation of Elementary Functions on the IBM RISC System/6000 Processor, 1990).

    With x' = x sign(s) (a very small s and x are scaled up first) and r = 1 / |s|, the quotient
    q = x' r is corrected by r times the remainder q |s| - x', which is exact. The sign of a zero is
    that of q. What is no finite remainder (infinities, zeros) leaves q. Where x or the quotient is
    so small that the remainder is subnormal (below 2**-100), or the quotient next to the largest
    number, the last place may differ from the division's.
    """
    assert isinstance(e.b, Broadcast)
    s, lanes, kind = e.b.value, dtype.lanes, llvm_type(dtype)
    tiny, large = const(2.0**-64, s.dtype), const(2.0**64, s.dtype)
    size = call("fabs", s)
    up = select(lt(size, tiny), large, const(1.0, s.dtype))
    divisor = mul(size, up)
    factor, wide, reciprocal = (
        b.value(broadcast(part, lanes))
        for part in (call("copysign", up, s), divisor, div(const(1.0, s.dtype), divisor))
    )
    first = b.emit(f"fmul {kind} {x}, {factor}")
    quotient = b.emit(f"fmul {kind} {first}, {reciprocal}")
    less = b.emit(f"fneg {kind} {first}")
    remainder = _fma(b, dtype, quotient, wide, less)
    less = b.emit(f"fneg {kind} {remainder}")
    better = _fma(b, dtype, less, reciprocal, quotient)
    unfit = b.emit(f"fcmp uno {kind} {better}, {better}")
    return b.emit(f"select {_flags(dtype)} {unfit}, {kind} {quotient}, {kind} {better}")


def _fma(b: FunctionBuilder, dtype: DType, x: str, y: str, z: str) -> str:
    kind = llvm_type(dtype)
    return b.call(f"llvm.fma.{suffix(dtype)}", kind, [(kind, value) for value in (x, y, z)])


def _int_divide(
    b: FunctionBuilder, e: BinaryExpr, name: str, first: str, second: str, dtype: DType
) -> str:
    """The quotient (`div`) or remainder (`rem`) of the division toward zero."""
    kind, operator = llvm_type(dtype), ("s" if dtype.code == "int" else "u") + name
    if not is_data(e.b):
        return b.emit(f"{operator} {kind} {first}, {second}")
    flags = _flags(dtype)
    zero = unfit = b.emit(f"icmp eq {kind} {second}, {splat(0, dtype)}")
    if dtype.code == "int":
        minus = b.emit(f"icmp eq {kind} {second}, {splat(-1, dtype)}")
        least = b.emit(f"icmp eq {kind} {first}, {splat(int(dtype.min_value), dtype)}")
        unfit = b.emit(f"or {flags} {zero}, {b.emit(f'and {flags} {minus}, {least}')}")
    safe = b.emit(f"select {flags} {unfit}, {kind} {splat(1, dtype)}, {kind} {second}")
    result = b.emit(f"{operator} {kind} {first}, {safe}")
    if name == "rem":
        return result
    return b.emit(f"select {flags} {zero}, {kind} {splat(0, dtype)}, {kind} {result}")


def remainder(b: FunctionBuilder, e: BinaryExpr) -> str:
    """Mod: the remainder of the truncating division."""
    first, second, dtype = operands(b, e)
    if dtype.is_float:
        return _finish(b, e, _float_remainder(b, first, second, dtype))
    return _int_divide(b, e, "rem", first, second, dtype)


def _float_remainder(b: FunctionBuilder, first: str, second: str, dtype: DType) -> str:
    return b.emit(f"frem {llvm_type(dtype)} {first}, {second}")


def nonnegative(b: FunctionBuilder, e: Expr) -> bool:
    """True when the integer `e` is known not to be negative."""
    if e.dtype.code in ("uint", "bool"):
        return True
    match e:
        case IntImm(v):
            return v >= 0
        case Var():
            return e in b.nonnegative
        case Add() | Mul() | Min():
            return nonnegative(b, e.a) and nonnegative(b, e.b)
        case Mod():
            return nonnegative(b, e.a)
        case BinaryExpr(a, IntImm(v)) if e.symbol in ("//", "/", "%"):
            return v > 0 and (nonnegative(b, a) or (e.symbol == "%" and not isinstance(e, Mod)))
    return False


def _positive_constant(e: Expr) -> int | None:
    if isinstance(e, Broadcast):
        e = e.value
    return e.value if isinstance(e, IntImm) and e.value > 0 else None


def floor_divide(b: FunctionBuilder, e: BinaryExpr) -> str:
    """FloorDiv: toward minus infinity."""
    first, second, dtype = operands(b, e)
    kind = llvm_type(dtype)
    if dtype.is_float:
        return _floor_divide_floats(b, e, first, second, dtype)
    divisor = _positive_constant(e.b)
    if dtype.code != "int":
        return _int_divide(b, e, "div", first, second, dtype)
    if divisor is not None and divisor & (divisor - 1) == 0:
        shift = splat(divisor.bit_length() - 1, dtype)
        return b.emit(f"ashr {kind} {first}, {shift}")
    quotient = _int_divide(b, e, "div", first, second, dtype)
    if divisor is not None and nonnegative(b, e.a):
        return quotient
    rest = _int_divide(b, e, "rem", first, second, dtype)
    adjust = _adjustment(b, rest, second, dtype)
    extended = b.emit(f"sext {_flags(dtype)} {adjust} to {kind}")
    return b.emit(f"add {kind} {quotient}, {extended}")


def _floor_divide_floats(
    b: FunctionBuilder, e: BinaryExpr, first: str, second: str, dtype: DType
) -> str:
    """floor(first / second); float16 is rounded at the end only."""
    half = dtype.bits == 16
    if half:
        first, second = (convert(b, x, dtype, _f32(dtype)) for x in (first, second))
        dtype = _f32(dtype)
    kind = llvm_type(dtype)
    quotient = b.emit(f"fdiv {kind} {first}, {second}")
    result = b.call(f"llvm.floor.{suffix(dtype)}", kind, [(kind, quotient)])
    return convert(b, result, dtype, e.dtype) if half else _finish(b, e, result)


def floor_remainder(b: FunctionBuilder, e: BinaryExpr) -> str:
    """FloorMod: it has the sign of the divisor."""
    first, second, dtype = operands(b, e)
    kind = llvm_type(dtype)
    if dtype.is_float:
        rest = _float_remainder(b, first, second, dtype)
        adjust = _float_adjustment(b, rest, second, dtype)
        corrected = b.emit(f"fadd {kind} {rest}, {second}")
        chosen = b.emit(f"select {_flags(dtype)} {adjust}, {kind} {corrected}, {kind} {rest}")
        return _finish(b, e, chosen)
    divisor = _positive_constant(e.b)
    if dtype.code != "int":
        return _int_divide(b, e, "rem", first, second, dtype)
    if divisor is not None and divisor & (divisor - 1) == 0:
        return b.emit(f"and {kind} {first}, {splat(divisor - 1, dtype)}")
    rest = _int_divide(b, e, "rem", first, second, dtype)
    if divisor is not None and nonnegative(b, e.a):
        return rest
    adjust = _adjustment(b, rest, second, dtype)
    corrected = b.emit(f"add {kind} {rest}, {second}")
    return b.emit(f"select {_flags(dtype)} {adjust}, {kind} {corrected}, {kind} {rest}")


def _flags(dtype: DType) -> str:
    return "i1" if dtype.lanes == 1 else f"<{dtype.lanes} x i1>"


def _adjustment(b: FunctionBuilder, rest: str, divisor: str, dtype: DType) -> str:
    # The truncated result is one too large when a remainder has the other sign.
    kind = llvm_type(dtype)
    nonzero = b.emit(f"icmp ne {kind} {rest}, {splat(0, dtype)}")
    signs = b.emit(f"xor {kind} {rest}, {divisor}")
    differ = b.emit(f"icmp slt {kind} {signs}, {splat(0, dtype)}")
    return b.emit(f"and {_flags(dtype)} {nonzero}, {differ}")


def _float_adjustment(b: FunctionBuilder, rest: str, divisor: str, dtype: DType) -> str:
    kind, zero, flags = llvm_type(dtype), splat(0.0, dtype), _flags(dtype)
    nonzero = b.emit(f"fcmp one {kind} {rest}, {zero}")
    rest_negative = b.emit(f"fcmp olt {kind} {rest}, {zero}")
    divisor_negative = b.emit(f"fcmp olt {kind} {divisor}, {zero}")
    differ = b.emit(f"xor {flags} {rest_negative}, {divisor_negative}")
    return b.emit(f"and {flags} {nonzero}, {differ}")


# -- conversions ------------------------------------------------------------------------------


def cast(b: FunctionBuilder, e: Cast) -> str:
    """Cast."""
    if not e.value.dtype.is_float or not e.dtype.is_integral:
        return convert(b, b.value(e.value), e.value.dtype, e.dtype)
    fusing, b.may_fuse = b.may_fuse, False
    value = b.value(e.value)
    b.may_fuse = fusing
    return convert(b, value, e.value.dtype, e.dtype)


def convert(b: FunctionBuilder, value: str, source: DType, target: DType) -> str:
    """The register `value` of type `source` converted to `target`."""
    if source is target:
        return value
    if source.is_handle or target.is_handle:
        return _convert_pointer(b, value, source, target)
    if source.is_storage_float:
        return convert(b, widen(b, value, source), _f32(source), target)
    if target.is_storage_float:
        return round_to(b, convert(b, value, source, _f32(target)), target)
    if source.is_float and target.is_float:
        return _convert_float(b, value, source, target)
    before, after = llvm_type(source), llvm_type(target)
    if source.is_float:
        return _float_to_int(b, value, source, target)
    if target.is_float:
        if target.bits == 16:
            wide = _f32(target)
            return _convert_float(b, convert(b, value, source, wide), wide, target)
        name = "sitofp" if source.code == "int" else "uitofp"
        return b.emit(f"{name} {before} {value} to {after}")
    if target.is_bool:
        return b.emit(f"icmp ne {before} {value}, {splat(0, source)}")
    if source.bits == target.bits:
        return value
    if target.bits < source.bits:
        return b.emit(f"trunc {before} {value} to {after}")
    return b.emit(f"{'sext' if source.code == 'int' else 'zext'} {before} {value} to {after}")


def _convert_float(b: FunctionBuilder, value: str, source: DType, target: DType) -> str:
    if {source.bits, target.bits} == {16, 64}:
        # No instruction goes directly between half and double.
        wide = _f32(source)
        return _convert_float(b, _convert_float(b, value, source, wide), wide, target)
    name = "fptrunc" if target.bits < source.bits else "fpext"
    return b.emit(f"{name} {llvm_type(source)} {value} to {llvm_type(target)}")


def _float_to_int(b: FunctionBuilder, value: str, source: DType, target: DType) -> str:
    if target.is_bool:
        return b.emit(f"fcmp une {llvm_type(source)} {value}, {splat(0.0, source)}")
    if source.bits == 16:
        wide = _f32(source)
        return _float_to_int(b, _convert_float(b, value, source, wide), wide, target)
    name = "fptosi" if target.code == "int" else "fptoui"
    return b.call(
        f"llvm.{name}.sat.{suffix(target)}.{suffix(source)}",
        llvm_type(target),
        [(llvm_type(source), value)],
    )


def _convert_pointer(b: FunctionBuilder, value: str, source: DType, target: DType) -> str:
    if source.is_handle and target.is_integral and target.bits == 64:
        return b.emit(f"ptrtoint ptr {value} to i64")
    if target.is_handle and source.is_integral and source.bits == 64:
        return b.emit(f"inttoptr i64 {value} to ptr")
    raise CompileError(f"no conversion from {source} to {target}")
