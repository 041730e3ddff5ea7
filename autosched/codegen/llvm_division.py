"""Quotients and remainders, truncated and rounded down.

Division of integers never ends the process. As in NumPy, dividing by 0 gives 0 (so does its
remainder), and dividing the least number by -1 gives that number.
"""

from __future__ import annotations

from autosched.codegen.llvm_arith import (
    convert,
    finish,
    flags_type,
    float32_like,
    operands,
)
from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_lanes import Lanes
from autosched.codegen.llvm_math import apply
from autosched.codegen.llvm_types import llvm_type, splat, suffix
from autosched.tir.constants import whole_number
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    Add,
    BinaryExpr,
    Broadcast,
    Expr,
    FloatImm,
    IntImm,
    Min,
    Mod,
    Mul,
    Var,
)
from autosched.tir.op import broadcast, call, const, div, lt, mul, select


def divide(b: FunctionBuilder, e: BinaryExpr) -> str:
    """Div: toward zero on integers; rounded on floats, except a vector divided by one number."""
    first, second, dtype = operands(b, e)
    if dtype.is_float and _is_shared(b, e):
        return _divide_by_one(b, e, first, dtype)
    if dtype.is_float:
        return finish(b, e, b.emit(f"fdiv {llvm_type(dtype)} {first}, {second}"))
    return _int_divide(b, e, "div", first, second, dtype)


LEAST_SHARED = 8
"""Fewest lanes of a vector whose division by one number becomes products.

Dividing sixteen lanes takes as long as 32 products on Intel's cores.
"""


def _is_shared(b: FunctionBuilder, e: BinaryExpr) -> bool:
    """Whether a vector is divided by one number that is known before the loop.

    In operands of jumps (`tir/jumps.py`) only quotients that are rounded to a whole number count:
    the error of the products for very small quotients does not matter there.
    """
    divisor = e.b
    if not b.may_fuse and e not in b.rounded:
        return False
    if not b.module.fuses or not isinstance(divisor, Broadcast) or e.dtype.lanes < LEAST_SHARED:
        return False
    return e.dtype.bits >= 32 and isinstance(divisor.value, Var | FloatImm)


def _divide_by_one(b: FunctionBuilder, e: BinaryExpr, x: str, dtype: DType) -> str:
    """x / s by the reciprocal of s: two products, of which the first is by a power of two.

    With x' = x sign(s) (very small s and x are scaled up first, very large ones down) and r = 1 /
    |s|, the quotient q = x' r errs by less than two units in the last place. If it is rounded to a
    whole number, it is corrected by r times the remainder q |s| - x', which is exact, so that it
    becomes the rounded quotient (Markstein, Computation of Elementary Functions on the IBM RISC
    System/6000 Processor, 1990). The sign of a zero is that of q. If the remainder is not finite
    (infinities, zeros), q stays. If x or the quotient is so small that the remainder is subnormal
    (below 2**-100), or if the quotient is next to the largest number, the last place may differ
    from the division's.
    """
    assert isinstance(e.b, Broadcast)
    s, lanes, kind = e.b.value, dtype.lanes, llvm_type(dtype)
    tiny, large = const(2.0**-64, s.dtype), const(2.0**64, s.dtype)
    size = call("fabs", s)
    down = select(lt(large, size), tiny, const(1.0, s.dtype))
    scale = select(lt(size, tiny), large, down)
    divisor = mul(size, scale)
    factor, wide, reciprocal = (
        b.value(broadcast(part, lanes))
        for part in (call("copysign", scale, s), divisor, div(const(1.0, s.dtype), divisor))
    )
    first = b.emit(f"fmul {kind} {x}, {factor}")
    quotient = b.emit(f"fmul {kind} {first}, {reciprocal}")
    if b.may_fuse:
        return quotient
    less = b.emit(f"fneg {kind} {first}")
    remainder = _fma(b, dtype, quotient, wide, less)
    less = b.emit(f"fneg {kind} {remainder}")
    better = _fma(b, dtype, less, reciprocal, quotient)
    unfit = b.emit(f"fcmp uno {kind} {better}, {better}")
    return b.emit(f"select {flags_type(dtype)} {unfit}, {kind} {quotient}, {kind} {better}")


def _fma(b: FunctionBuilder, dtype: DType, x: str, y: str, z: str) -> str:
    kind = llvm_type(dtype)
    return b.call(f"llvm.fma.{suffix(dtype)}", kind, [(kind, value) for value in (x, y, z)])


def _int_divide(
    b: FunctionBuilder, e: BinaryExpr, name: str, first: str, second: str, dtype: DType
) -> str:
    """The quotient (`div`) or remainder (`rem`) of the division toward zero."""
    kind, operator = llvm_type(dtype), ("s" if dtype.code == "int" else "u") + name
    number = whole_number(e.b)
    if number == 0:
        return splat(0, dtype)
    if number is not None and number != -1:
        return b.emit(f"{operator} {kind} {first}, {second}")
    flags = flags_type(dtype)
    zero = unfit = b.emit(f"icmp eq {kind} {second}, {splat(0, dtype)}")
    if dtype.code == "int":
        minus = b.emit(f"icmp eq {kind} {second}, {splat(-1, dtype)}")
        least = b.emit(f"icmp eq {kind} {first}, {splat(int(dtype.min_value), dtype)}")
        unfit = b.emit(f"or {flags} {zero}, {b.emit(f'and {flags} {minus}, {least}')}")
    safe = b.emit(f"select {flags} {unfit}, {kind} {splat(1, dtype)}, {kind} {second}")
    if dtype.lanes > 1 and dtype.bits <= 32:
        result = _divide_as_floats(b, name, first, safe, dtype)
    else:
        result = b.emit(f"{operator} {kind} {first}, {safe}")
    if name == "rem":
        return result
    return b.emit(f"select {flags} {zero}, {kind} {splat(0, dtype)}, {kind} {result}")


def _divide_as_floats(b: FunctionBuilder, name: str, first: str, second: str, dtype: DType) -> str:
    """The quotient or remainder of integer vectors, in floats of twice the bits or more.

    There is no instruction for integers. A quotient a / b that is not whole is at least 1 / b away
    from whole numbers, which is 1 / a of itself: too much for rounding to reach one.
    """
    kind = llvm_type(dtype)
    floats = DType("float64" if dtype.bits == 32 else "float32").with_lanes(dtype.lanes)
    a, c = (convert(b, x, dtype, floats) for x in (first, second))
    ratio = b.emit(f"fdiv {llvm_type(floats)} {a}, {c}")
    whole = b.emit(
        f"{'fptosi' if dtype.code == 'int' else 'fptoui'} {llvm_type(floats)} {ratio} to {kind}"
    )
    if name == "div":
        return whole
    return b.emit(f"sub {kind} {first}, {b.emit(f'mul {kind} {whole}, {second}')}")


def remainder(b: FunctionBuilder, e: BinaryExpr) -> str:
    """Mod: the remainder of the truncating division."""
    first, second, dtype = operands(b, e)
    if dtype.is_float:
        return finish(b, e, _float_remainder(b, first, second, dtype))
    return _int_divide(b, e, "rem", first, second, dtype)


def _float_remainder(b: FunctionBuilder, first: str, second: str, dtype: DType) -> str:
    if dtype.lanes == 1:
        return b.emit(f"frem {llvm_type(dtype)} {first}, {second}")
    wide = dtype if dtype.bits >= 32 else float32_like(dtype)
    sides = [convert(b, x, dtype, wide) for x in (first, second)]
    return convert(b, apply(b, "fmod", sides, [wide, wide], wide), wide, dtype)


def nonnegative(b: FunctionBuilder, e: Expr) -> bool:
    """Whether the integer `e` is known not to be negative."""
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
    value = whole_number(e)
    return value if value is not None and value > 0 else None


def floor_divide(b: FunctionBuilder, e: BinaryExpr) -> str:
    """FloorDiv: toward minus infinity."""
    if e.dtype.is_float:
        return _floor_divide_floats(b, e)
    first, second, dtype = operands(b, e)
    kind = llvm_type(dtype)
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
    extended = b.emit(f"sext {flags_type(dtype)} {adjust} to {kind}")
    return b.emit(f"add {kind} {quotient}, {extended}")


def _floor_divide_floats(b: FunctionBuilder, e: BinaryExpr) -> str:
    """NumPy's floor division: (a - fmod(a, b)) / b, as the whole number next to it.

    1.0 // 0.1 is 9, though 1.0 / 0.1 rounds to 10.
    """
    first, second, dtype = _float_operands(b, e)
    kind, flags, f = llvm_type(dtype), flags_type(dtype), Lanes(b, dtype)
    rest = _float_remainder(b, first, second, dtype)
    ratio = f.div(first, second)
    quotient = f.div(b.emit(f"fsub {kind} {first}, {rest}"), second)
    adjust = _float_adjustment(b, rest, second, dtype)
    less = b.emit(f"fsub {kind} {quotient}, {splat(1.0, dtype)}")
    quotient = b.emit(f"select {flags} {adjust}, {kind} {less}, {kind} {quotient}")
    floor = f.intrinsic("floor", quotient)
    more = b.emit(f"fadd {kind} {floor}, {splat(1.0, dtype)}")
    beyond = f.test("ogt", b.emit(f"fsub {kind} {quotient}, {floor}"), f.const(0.5))
    whole = f.choose(beyond, more, floor)
    zero = f.test("oeq", quotient, f.const(0.0))
    whole = f.choose(zero, f.intrinsic("copysign", f.const(0.0), ratio), whole)
    undefined = f.test("oeq", second, f.const(0.0))
    return convert(b, f.choose(undefined, ratio, whole), dtype, e.dtype)


def floor_remainder(b: FunctionBuilder, e: BinaryExpr) -> str:
    """FloorMod: the remainder has the sign of the divisor."""
    if e.dtype.is_float:
        return _floor_remainder_of_floats(b, e)
    first, second, dtype = operands(b, e)
    kind = llvm_type(dtype)
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
    return b.emit(f"select {flags_type(dtype)} {adjust}, {kind} {corrected}, {kind} {rest}")


def _floor_remainder_of_floats(b: FunctionBuilder, e: BinaryExpr) -> str:
    """NumPy's remainder: fmod(a, b), plus b where the signs differ; a zero has the sign of b."""
    first, second, dtype = _float_operands(b, e)
    kind, f = llvm_type(dtype), Lanes(b, dtype)
    rest = _float_remainder(b, first, second, dtype)
    adjust = _float_adjustment(b, rest, second, dtype)
    corrected = b.emit(f"fadd {kind} {rest}, {second}")
    chosen = f.choose(adjust, corrected, rest)
    zero = f.test("oeq", rest, f.const(0.0))
    chosen = f.choose(zero, f.intrinsic("copysign", f.const(0.0), second), chosen)
    return convert(b, chosen, dtype, e.dtype)


def _float_operands(b: FunctionBuilder, e: BinaryExpr) -> tuple[str, str, DType]:
    """The operands, in float32 or wider."""
    first, second, dtype = operands(b, e)
    if dtype.bits >= 32:
        return first, second, dtype
    wide = float32_like(dtype)
    return convert(b, first, dtype, wide), convert(b, second, dtype, wide), wide


def _adjustment(b: FunctionBuilder, rest: str, divisor: str, dtype: DType) -> str:
    # The truncated quotient is one too large if the remainder has the sign opposite to the divisor.
    kind = llvm_type(dtype)
    nonzero = b.emit(f"icmp ne {kind} {rest}, {splat(0, dtype)}")
    signs = b.emit(f"xor {kind} {rest}, {divisor}")
    differ = b.emit(f"icmp slt {kind} {signs}, {splat(0, dtype)}")
    return b.emit(f"and {flags_type(dtype)} {nonzero}, {differ}")


def _float_adjustment(b: FunctionBuilder, rest: str, divisor: str, dtype: DType) -> str:
    kind, zero, flags = llvm_type(dtype), splat(0.0, dtype), flags_type(dtype)
    nonzero = b.emit(f"fcmp one {kind} {rest}, {zero}")
    rest_negative = b.emit(f"fcmp olt {kind} {rest}, {zero}")
    divisor_negative = b.emit(f"fcmp olt {kind} {divisor}, {zero}")
    differ = b.emit(f"xor {flags} {rest_negative}, {divisor_negative}")
    return b.emit(f"and {flags} {nonzero}, {differ}")
