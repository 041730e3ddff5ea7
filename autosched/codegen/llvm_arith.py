"""Arithmetic, comparisons and conversions.

Floating point: `fmul` and `fadd` carry `contract`, so that LLVM may fuse them. They do not in
operands of operations that jump, such as floor (`tir/jumps.py`), where the last bit of a float
decides. Nothing is reassociated. Minimum and maximum propagate NaN, as NumPy's do. Integers wrap.
Conversions of floats to integers saturate and send NaN to 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from autosched.arith.const_int_bound import eval_bound, holds
from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_lanes import Lanes
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
    Cast,
    Expr,
    FloatImm,
    Max,
    Min,
    Mul,
    Or,
    Sub,
    Var,
)
from autosched.tir.lanes import scalar_of

_FLOAT_OPS: dict[type[Expr], str] = {
    Add: "fadd",
    Sub: "fsub",
    Mul: "fmul",
}
_INT_OPS: dict[type[Expr], str] = {Add: "add", Sub: "sub", Mul: "mul", And: "and", Or: "or"}
_BOOL_OPS: dict[type[Expr], str] = {Add: "or", Mul: "and", And: "and", Or: "or"}
"""Operations on truth values, whose sum in one bit would be the exclusive or."""
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
    """The float32 register of the number whose bits, in a storage-only float type, are `value`."""
    name = Var("bits", source)
    b.bind_here(name, value)
    return b.value(float_bits.widen(name, float32))


def round_to(b: FunctionBuilder, value: str, target: DType) -> str:
    """The bits of a float32 register rounded to `target`, a storage-only float type."""
    name = Var("value", float32_like(target))
    b.bind_here(name, value)
    return b.value(float_bits.narrow(name, target))


def operands(b: FunctionBuilder, e: BinaryExpr) -> tuple[str, str, DType]:
    """Both operand registers and their type; storage-only floats are converted to float32."""
    dtype = e.a.dtype
    first, second = b.value(e.a), b.value(e.b)
    if dtype.is_storage_float:
        return widen(b, first, dtype), widen(b, second, dtype), float32_like(dtype)
    return first, second, dtype


def float32_like(dtype: DType) -> DType:
    """float32 with as many lanes."""
    return float32.with_lanes(dtype.lanes)


def flags_type(dtype: DType) -> str:
    """The LLVM type of a comparison of values of this type."""
    return "i1" if dtype.lanes == 1 else f"<{dtype.lanes} x i1>"


def finish(b: FunctionBuilder, e: Expr, result: str) -> str:
    """The result of `e`, rounded if the type of `e` is narrower than the computation."""
    return round_to(b, result, e.dtype) if e.dtype.is_storage_float else result


def binary(b: FunctionBuilder, e: BinaryExpr) -> str:
    """Add, Sub, Mul, And, Or."""
    if isinstance(e, Mul) and _mixes_bytes(e):
        return _product_of_bytes(b, e)
    first, second, dtype = operands(b, e)
    if dtype.is_float:
        name = _FLOAT_OPS[type(e)] + (" contract" if b.may_fuse else "")
    elif dtype.is_bool and type(e) in _BOOL_OPS:
        name = _BOOL_OPS[type(e)]
    else:
        name = _INT_OPS[type(e)]
    return finish(b, e, b.emit(f"{name} {llvm_type(dtype)} {first}, {second}"))


def _mixes_bytes(e: Mul) -> bool:
    """Whether `e` is an int32 product of data of which uint8 holds one value and int8 the other.

    LLVM knows that, too, of `max(int32(x), 0)` and `y & 15`.
    """
    if e.dtype.element is not int32 or not is_data(e.a) or not is_data(e.b):
        return False
    first, second = eval_bound(e.a, {}), eval_bound(e.b, {})
    return any(
        holds(_UINT8, *unsigned) and holds(_INT8, *signed)
        for unsigned, signed in ((first, second), (second, first))
    )


def _product_of_bytes(b: FunctionBuilder, e: Mul) -> str:
    """The product of such values in int16, which can hold it.

    In int32, LLVM 22 takes the sum over 8 lanes or more for a `vpdpbusd`. Where halves of the
    vector are added, it then forgets to add up what `vpdpbusd` leaves in several lanes
    (combineVPDPBUSDPattern counts the stages of the narrowed vector). LLVM makes such vectors of
    scalars, too.
    """
    half = DType("int16").with_lanes(e.dtype.lanes)
    sides = [side.value if isinstance(side, Cast) else side for side in (e.a, e.b)]
    first, second = (convert(b, b.value(side), side.dtype, half) for side in sides)
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


_INT8, _UINT8 = DType("int8"), DType("uint8")

_LEAST_LANES = 4
"""Lanes of float32 in the smallest vector register; fewer lanes are left to LLVM's own form."""


def extremum(b: FunctionBuilder, e: BinaryExpr) -> str:
    """Min and Max."""
    chain = _chain(b, e)
    if len(chain) > 2:
        of_chain = _masked_chain if b.module.has_masks else _extremum_of_chain
        return of_chain(b, chain, e.dtype, isinstance(e, Min))
    first, second, dtype = operands(b, e)
    smaller = isinstance(e, Min)
    kind = llvm_type(dtype)
    if dtype.is_float and _masks_nan(b, e):
        return finish(b, e, _extremum_of_numbers(b, first, second, dtype, smaller))
    if dtype.is_float:
        name = f"llvm.{'minimum' if smaller else 'maximum'}.{suffix(dtype)}"
        b.module.declare(name, f"{kind} @({kind}, {kind})")
        result = b.emit(f"call nsz {kind} @{name}({kind} {first}, {kind} {second})")
        return finish(b, e, result)
    name = f"{'s' if dtype.code == 'int' else 'u'}{'min' if smaller else 'max'}"
    return b.call(f"llvm.{name}.{suffix(dtype)}", kind, [(kind, first), (kind, second)])


def _chain(b: FunctionBuilder, e: BinaryExpr) -> list[Expr]:
    """The operands of nested extremes of one kind in vectors on x86; none elsewhere."""
    native = e.dtype.lanes >= _LEAST_LANES and e.dtype.is_float and e.dtype.bits in (32, 64)
    if not b.module.has_gather or not native:
        return []
    found: list[Expr] = []
    rest: Expr = e
    while isinstance(rest, Min | Max) and type(rest) is type(e):
        found.append(rest.b)
        rest = rest.a
    return [rest, *reversed(found)]


def _extremum_of_chain(
    b: FunctionBuilder, chain: Sequence[Expr], dtype: DType, smaller: bool
) -> str:
    """The extremum of three operands or more: two instructions for each but the first, not three.

    The processor's extremum instruction returns its second operand if one operand is NaN, so that a
    NaN of the first value comes through. For the other values, one comparison finds the NaN of two.
    """
    kind, flags = llvm_type(dtype), flags_type(dtype)
    bits = llvm_type(DType(f"int{dtype.bits}").with_lanes(dtype.lanes))
    first, *others = [b.value(e) for e in chain]
    extreme = _second_where_nan(b, first, others, dtype, smaller)
    extreme = b.emit(f"bitcast {kind} {extreme} to {bits}")
    for one, two in _pairs(others):
        unordered = b.emit(f"fcmp uno {kind} {one}, {two}")
        mask = b.emit(f"sext {flags} {unordered} to {bits}")
        extreme = b.emit(f"or {bits} {extreme}, {mask}")
    return b.emit(f"bitcast {bits} {extreme} to {kind}")


def _masked_chain(b: FunctionBuilder, chain: Sequence[Expr], dtype: DType, smaller: bool) -> str:
    """`_extremum_of_chain` with masks of lanes: one comparison for two operands.

    The last extremum is under the mask. The NaN of the last operand comes through by itself. The
    first operand, an accumulator, is compared alone: where it begins with a constant, LLVM knows
    that it is not NaN.
    """
    kind, flags = llvm_type(dtype), flags_type(dtype)
    first, *others, last = [b.value(e) for e in chain]
    others.append(first)
    extreme = _second_where_nan(b, last, others, dtype, smaller)
    numbers = [b.emit(f"fcmp ord {kind} {one}, {two}") for one, two in _pairs(others)]
    every = reduce(lambda a, c: b.emit(f"and {flags} {a}, {c}"), numbers)
    nan = splat(math.nan, dtype)
    return b.emit(f"select {flags} {every}, {kind} {extreme}, {kind} {nan}")


def _second_where_nan(
    b: FunctionBuilder, first: str, others: Sequence[str], dtype: DType, smaller: bool
) -> str:
    """The extremum by the processor's instruction, one operand after the other.

    A NaN of `first` comes through, a NaN of the others is lost.
    """
    kind, flags = llvm_type(dtype), flags_type(dtype)
    extreme = first
    for other in others:
        better = b.emit(f"fcmp {'olt' if smaller else 'ogt'} {kind} {other}, {extreme}")
        extreme = b.emit(f"select {flags} {better}, {kind} {other}, {kind} {extreme}")
    return extreme


def _pairs(values: Sequence[str]) -> list[tuple[str, str]]:
    """The values in pairs; the last one of an odd number is paired with itself."""
    return list(zip(values[::2], [*values[1::2], *values[-1:]], strict=False))


def _masks_nan(b: FunctionBuilder, e: BinaryExpr) -> bool:
    """Whether `_extremum_of_numbers` is shorter than LLVM's own form, or that must be avoided.

    It needs masks of lanes. LLVM's form is as short if one side is a constant. On a CPU with
    AVX-512F alone LLVM 22 makes a store with a mask of its own form where that updates memory, and
    then aborts because the mask is a vector of integers.
    """
    if b.module.has_scatter and not b.module.has_masks and e.dtype.lanes > 1:
        return True
    sides = [scalar_of(side) for side in (e.a, e.b)]
    vector = b.module.has_masks and e.dtype.lanes >= _LEAST_LANES and e.dtype.bits >= 32
    return vector and not any(isinstance(side, FloatImm) for side in sides)


def _extremum_of_numbers(
    b: FunctionBuilder, first: str, second: str, dtype: DType, smaller: bool
) -> str:
    """The extremum where `second` is not NaN, elsewhere `second`: two instructions, not three.

    The processor's extremum instruction returns its second operand if one operand is NaN, so that a
    NaN of `first` comes through as well. Only one instruction waits for `first`, an accumulator.
    """
    kind, flags = llvm_type(dtype), flags_type(dtype)
    extreme = _second_where_nan(b, first, [second], dtype, smaller)
    number = b.emit(f"fcmp ord {kind} {second}, {second}")
    return b.emit(f"select {flags} {number}, {kind} {extreme}, {kind} {second}")


# -- conversions ------------------------------------------------------------------------------


def cast(b: FunctionBuilder, e: Cast) -> str:
    """Cast."""
    return convert(b, b.value(e.value), e.value.dtype, e.dtype)


def convert(b: FunctionBuilder, value: str, source: DType, target: DType) -> str:
    """The register `value` of type `source` converted to `target`."""
    if source is target:
        return value
    if source.is_handle or target.is_handle:
        return _convert_pointer(b, value, source, target)
    if source.is_storage_float:
        return convert(b, widen(b, value, source), float32_like(source), target)
    if target.is_storage_float:
        return round_to(b, convert(b, value, source, float32_like(target)), target)
    if source.is_float and target.is_float:
        return _convert_float(b, value, source, target)
    before, after = llvm_type(source), llvm_type(target)
    if source.is_float:
        return _float_to_int(b, value, source, target)
    if target.is_float:
        if target.bits == 16:
            wide = float32_like(target)
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
        # Hardly any processor goes directly between half and double.
        wide = float32_like(source)
        middle = _convert_float if source.bits == 16 else _round_to_odd
        return _convert_float(b, middle(b, value, source, wide), wide, target)
    name = "fptrunc" if target.bits < source.bits else "fpext"
    return b.emit(f"{name} {llvm_type(source)} {value} to {llvm_type(target)}")


def _round_to_odd(b: FunctionBuilder, value: str, source: DType, target: DType) -> str:
    """float64 rounded to an odd float32: if inexact, to the neighbour whose last bit is 1.

    Rounding this again, to float16, gives the same result as rounding once (Boldo and Melquiond,
    Emulation of a FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to Odd, 2008).
    """
    f, ints = Lanes(b, source), DType("int32").with_lanes(source.lanes)
    near = _convert_float(b, value, source, target)
    back = _convert_float(b, near, target, source)
    beyond = f.test("ogt", f.intrinsic("fabs", back), f.intrinsic("fabs", value))
    kind, bits = llvm_type(ints), b.emit(f"bitcast {llvm_type(target)} {near} to {llvm_type(ints)}")
    toward_zero = b.emit(f"add {kind} {bits}, {b.emit(f'sext {f.flags} {beyond} to {kind}')}")
    inexact = b.emit(f"zext {f.flags} {f.test('one', back, value)} to {kind}")
    odd = b.emit(f"or {kind} {toward_zero}, {inexact}")
    return b.emit(f"bitcast {kind} {odd} to {llvm_type(target)}")


def _float_to_int(b: FunctionBuilder, value: str, source: DType, target: DType) -> str:
    if target.is_bool:
        return b.emit(f"fcmp une {llvm_type(source)} {value}, {splat(0.0, source)}")
    if source.bits == 16:
        wide = float32_like(source)
        return _float_to_int(b, _convert_float(b, value, source, wide), wide, target)
    if source.lanes > 1 and (target.code == "int" or target.bits < 32):
        return _vector_to_int(Lanes(b, source), value, target)
    name = "fptosi" if target.code == "int" else "fptoui"
    return b.call(
        f"llvm.{name}.sat.{suffix(target)}.{suffix(source)}",
        llvm_type(target),
        [(llvm_type(source), value)],
    )


def _vector_to_int(f: Lanes, x: str, target: DType) -> str:
    """Floats to integers by comparisons, because LLVM's own form takes the lanes one by one."""
    number, least, most = f.test("ord", x, x), int(target.min_value), int(target.max_value)
    whole = target if target.bits >= 32 else int32.with_lanes(target.lanes)
    kind = llvm_type(whole)
    if int(f.dtype.numpy.type(most)) == most:  # both limits are floats
        inside = f.choose(number, f.limit(x, least, most), f.const(0.0))
        return convert(f.b, f.b.emit(f"fptosi {f.kind} {inside} to {kind}"), whole, target)
    result = f.b.emit(f"fptosi {f.kind} {x} to {kind}")
    for unfit, instead in [
        (f.test("oge", x, f.const(float(most))), most),
        (f.test("olt", x, f.const(float(least))), least),
        (f.test("uno", x, x), 0),
    ]:
        other = splat(instead, whole)
        result = f.b.emit(f"select {f.flags} {unfit}, {kind} {other}, {kind} {result}")
    return result


def _convert_pointer(b: FunctionBuilder, value: str, source: DType, target: DType) -> str:
    if source.is_handle and target.is_integral and target.bits == 64:
        return b.emit(f"ptrtoint ptr {value} to i64")
    if target.is_handle and source.is_integral and source.bits == 64:
        return b.emit(f"inttoptr i64 {value} to ptr")
    raise CompileError(f"no conversion from {source} to {target}")
