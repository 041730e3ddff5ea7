"""Elementwise mathematics on registers.

The C library's functions take one element at a time: 3 to 25 times as long as the code for float32
and float64 here (benchmarks/functions.py). Exponentials, logarithms, tanh, sigmoid and erf of
float32 are polynomials (llvm_exp.py, llvm_log.py), and so are sines and cosines (llvm_angles.py).
The rarer functions of float32 are computed in float64 (llvm_wide_math.py). float64 has polynomials
of its own, in the same files and in llvm_full_math.py; its inverse hyperbolic functions are the
library's, lane by lane. Infinities, NaN and signs of zeros are the library's.

Worst errors over the whole range, in units in the last place, of float32: exp, exp2, exp10, log and
log10 1.1, log2 1.3, log1p and sigmoid 2.4, sin and cos 2.5, tan 1.4, tanh 4, erf 8 (36 on subnormal
arguments), the others 0.51. (log10 1.6 and log2 1.4 where multiply-adds are not fused.) Of float64:
fmod 0, exp, log, pow and erf 1.0, hypot 1.2, exp2, exp10, log2, log10 and acos 1.3, sin and cosh
1.5, log1p, sigmoid, cos, expm1, asin, atan and atan2 2.5, sinh 3.0, tanh 3.3, tan 3.5. (exp 1.1,
exp10 and log10 1.5 where they are not fused; pow and fmod are the library's there.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from autosched.codegen.llvm_angles import ANGLES
from autosched.codegen.llvm_arith import convert
from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_exp import exp, exp2, exp10, exp_by_polynomial
from autosched.codegen.llvm_full_math import FULL
from autosched.codegen.llvm_lanes import Lanes
from autosched.codegen.llvm_log import log, log1p, log2, log10
from autosched.codegen.llvm_types import llvm_type, splat, suffix
from autosched.codegen.llvm_wide_math import WIDE, Near, Tier
from autosched.errors import CompileError
from autosched.tir.dtype import DType, bool_, int32

TIERS = {32: ANGLES | WIDE, 64: FULL}
"""The rarer functions by the bits of floats, each with the ways to compute it."""

_INTRINSICS = {
    "sqrt": "sqrt",
    "fabs": "fabs",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "round",
    "nearbyint": "roundeven",
    "copysign": "copysign",
    "fma": "fma",
}


def apply(
    b: FunctionBuilder, op: str, args: Sequence[str], types: Sequence[DType], result: DType
) -> str:
    """The function `op` of float32 or float64 registers (integers for fabs).

    `types` has the types of the arguments, and `result` is the type of the call.
    """
    dtype = types[0]
    if op in ("isnan", "isinf", "isfinite"):
        return _classify(b, op, args[0], dtype)
    if op == "fabs" and not dtype.is_float:
        kind = llvm_type(dtype)
        return b.call(f"llvm.abs.{suffix(dtype)}", kind, [(kind, args[0]), ("i1", "false")])
    if not dtype.is_float:
        raise CompileError(f"{op} needs a floating point argument, found {dtype}")
    kind = llvm_type(dtype)
    if op == "ldexp":
        # The C function takes an int, whatever integer type the exponent has.
        exponent = int32.with_lanes(dtype.lanes)
        args, types = [args[0], convert(b, args[1], types[1], exponent)], [dtype, exponent]
    if op in _INTRINSICS:
        name = f"llvm.{_INTRINSICS[op]}.{suffix(dtype)}"
        return b.call(name, kind, [(kind, a) for a in args])
    f = Lanes(b, dtype)
    if op == "rsqrt":
        return f.div(f.const(1.0), f.intrinsic("sqrt", args[0]))
    if op in POLYNOMIALS[dtype.bits]:
        return POLYNOMIALS[dtype.bits][op](f, args[0])
    if op in TIERS[dtype.bits]:
        return _in_tiers(b, op, args, dtype)
    return _library(b, op, args, types, result)


def _classify(b: FunctionBuilder, op: str, x: str, dtype: DType) -> str:
    if not dtype.is_float:
        return splat(op == "isfinite", bool_.with_lanes(dtype.lanes))
    kind = llvm_type(dtype)
    if op == "isnan":
        return b.emit(f"fcmp uno {kind} {x}, {x}")
    magnitude = b.call(f"llvm.fabs.{suffix(dtype)}", kind, [(kind, x)])
    test = "oeq" if op == "isinf" else "one"
    return b.emit(f"fcmp {test} {kind} {magnitude}, {splat(math.inf, dtype)}")


def _in_tiers(b: FunctionBuilder, op: str, args: Sequence[str], dtype: DType) -> str:
    """A function that has several ways to be computed.

    If the first way is wrong for some lanes, vectors are computed by a helper function, which
    branches, and single numbers by the library.
    """
    tiers = TIERS[dtype.bits][op]
    near, is_far, bits, fused = tiers[0]
    possible = b.module.fuses or not fused
    if possible and is_far is None:
        return _computed(b, near, args, dtype, bits)
    if dtype.lanes == 1 or not possible:
        return _library(b, op, args, [dtype] * len(args), dtype)
    kind, name = llvm_type(dtype), f"{op}.{suffix(dtype)}"
    if name not in b.module.helpers:
        own, parameters = FunctionBuilder(b.module), [f"%x{k}" for k in range(len(args))]
        result = _lane_by_tier(own, op, parameters, dtype, tiers)
        listed = ", ".join(f"{kind} {x}" for x in parameters)
        header = f"define internal {kind} @{name}({listed}) #0"
        b.module.helpers[name] = own.complete(header, [], [f"  ret {kind} {result}"])
    return b.emit(f"call {kind} @{name}({', '.join(f'{kind} {a}' for a in args)})")


def _computed(b: FunctionBuilder, near: Near, args: Sequence[str], dtype: DType, bits: int) -> str:
    """The result of `near`, a function of floats of `bits` bits, for registers of `dtype`."""
    own = DType(f"float{bits}").with_lanes(dtype.lanes)
    result = near(Lanes(b, own), *(convert(b, a, dtype, own) for a in args))
    return convert(b, result, own, dtype)


def _lane_by_tier(
    b: FunctionBuilder, op: str, args: Sequence[str], dtype: DType, tiers: Sequence[Tier]
) -> str:
    """Each lane by the first way that is right for it, in the end by the library."""
    if not tiers:
        return _library(b, op, args, [dtype] * len(args), dtype)
    (near, is_far, bits, _), *others = tiers
    result, f = _computed(b, near, args, dtype, bits), Lanes(b, dtype)
    if is_far is None:
        return result
    far = b.emit(f"freeze {f.flags} {is_far(f, *args)}")
    some = b.call(f"llvm.vector.reduce.or.v{dtype.lanes}i1", "i1", [(f.flags, far)])
    apart, join = b.new_block("far"), b.new_block("join")
    start = b.branch(f"br i1 {some}, label %{apart.label}, label %{join.label}")
    b.enter(apart)
    exact = f.choose(far, _lane_by_tier(b, op, args, dtype, others), result)
    end = b.leave(f"br label %{join.label}")
    b.resume(join)
    return b.emit(f"phi {f.kind} [ {result}, %{start.label} ], [ {exact}, %{end.label} ]")


def _library(
    b: FunctionBuilder, op: str, args: Sequence[str], types: Sequence[DType], result: DType
) -> str:
    """The C library's function, lane by lane."""
    name = op + ("f" if types[0].bits == 32 else "")
    scalars = [t.element for t in types]
    element = llvm_type(result.element)
    if result.lanes == 1:
        return b.call(
            name, element, [(llvm_type(t), a) for t, a in zip(scalars, args, strict=True)]
        )
    total = "poison"
    for lane in range(result.lanes):
        parts = [
            (llvm_type(s), b.emit(f"extractelement {llvm_type(t)} {a}, i32 {lane}"))
            for s, t, a in zip(scalars, types, args, strict=True)
        ]
        one = b.call(name, element, parts)
        total = b.emit(f"insertelement {llvm_type(result)} {total}, {element} {one}, i32 {lane}")
    return total


_TANH_ODD = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
_TANH_EVEN = (
    1.19825839466702e-06,
    1.18534705686654e-04,
    2.26843463243900e-03,
    4.89352518554385e-03,
)


def _tanh(f: Lanes, x: str) -> str:
    """tanh: an odd rational minimax function, saturated to +-1 beyond 7.9 (as in Eigen)."""
    limit = f.clamp(x, -7.90531110763549805, 7.90531110763549805)
    square = f.mul(limit, limit)
    p = f.mul(limit, f.polynomial(square, _TANH_ODD))
    ratio = f.div(p, f.polynomial(square, _TANH_EVEN))
    magnitude = f.intrinsic("fabs", x)
    # Exact where it matters: tanh(x) = x to float32 below 0.0004, +-1 beyond 9.011.
    ratio = f.choose(f.test("olt", magnitude, f.const(0.0004)), x, ratio)
    one = f.intrinsic("copysign", f.const(1.0), x)
    ratio = f.choose(f.test("ogt", magnitude, f.const(9.011)), one, ratio)
    return f.keep_nan(x, ratio)


def _sigmoid(f: Lanes, x: str) -> str:
    """1 / (1 + exp(-x)) for x >= 0, exp(x) / (1 + exp(x)) below 0, where it is as accurate."""
    small = exp_by_polynomial(f, f.neg(f.intrinsic("fabs", x)))
    upper = f.div(f.const(1.0), f.add(f.const(1.0), small))
    return f.choose(f.test("olt", x, f.const(0.0)), f.mul(small, upper), upper)


_ERF_ODD = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
_ERF_EVEN = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)


def _erf(f: Lanes, x: str) -> str:
    """erf: an odd rational minimax function on [-4, 4] (as in Eigen)."""
    limit = f.clamp(x, -4.0, 4.0)
    square = f.mul(limit, limit)
    p = f.mul(limit, f.polynomial(square, _ERF_ODD))
    ratio = f.div(p, f.polynomial(square, _ERF_EVEN))
    one = f.intrinsic("copysign", f.const(1.0), x)
    far = f.test("ogt", f.intrinsic("fabs", x), f.const(4.0))
    return f.keep_nan(x, f.choose(far, one, ratio))


_OF_BOTH: dict[str, Callable[[Lanes, str], str]] = {
    "exp": exp,
    "exp2": exp2,
    "exp10": exp10,
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "sigmoid": _sigmoid,
}
POLYNOMIALS = {32: _OF_BOTH | {"tanh": _tanh, "erf": _erf}, 64: _OF_BOTH}
"""The frequent functions, by the bits of floats."""
