"""Elementwise mathematics on registers.

float32 exp, log, tanh, sigmoid and erf are polynomials, scalar and vector alike, because the
library's functions take one element at a time (about nine times slower on AVX-512). Infinities and
NaN are treated explicitly. float64 and the rarer functions call the C library lane by lane.

Worst errors over the whole range, in units in the last place: exp and log 1, sigmoid 2, tanh 4, erf
8 (36 on subnormal arguments).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from autosched.codegen.llvm_arith import convert
from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_exp import exp, exp_by_polynomial
from autosched.codegen.llvm_lanes import Lanes
from autosched.codegen.llvm_types import llvm_type, splat, suffix
from autosched.errors import CompileError
from autosched.tir.dtype import DType, bool_, int32

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

    `types` are the arguments' types, `result` the call's.
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
    if dtype.bits == 32 and op in _POLYNOMIALS:
        return _POLYNOMIALS[op](f, args[0])
    if op == "sigmoid":
        return f.div(
            f.const(1.0), f.add(f.const(1.0), _library(b, "exp", [f.neg(args[0])], [dtype], dtype))
        )
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


# log(1 + m) = m - m**2 / 2 + m**3 P(m) on [sqrt(1/2) - 1, sqrt(2) - 1] (Cephes, logf.c)
_LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)


def _log(f: Lanes, x: str) -> str:
    """log: x = 2**e (1 + m); subnormals are scaled first; log(0) = -inf, negative is NaN."""
    tiny = f.test("olt", x, f.const(2.0**-126))
    normal = f.choose(tiny, f.mul(x, f.const(2.0**23)), x)
    bits = f.bits(normal)
    # The mantissa is taken relative to sqrt(1/2), so that m is centred on 0.
    shifted = f.int_op("sub", bits, f.int_const(0x3F3504F3))
    exponent = f.int_op("ashr", shifted, f.int_const(23))
    mantissa = f.int_op("sub", bits, f.int_op("shl", exponent, f.int_const(23)))
    m = f.sub(f.from_bits(mantissa), f.const(1.0))
    e = f.b.emit(f"sitofp {f.int_kind} {exponent} to {f.kind}")
    e = f.choose(tiny, f.sub(e, f.const(23.0)), e)
    square = f.mul(m, m)
    y = f.mul(f.mul(f.polynomial(m, _LOG), m), square)
    y = f.fma(e, f.const(-2.12194440e-4), y)
    y = f.fma(square, f.const(-0.5), y)
    result = f.fma(e, f.const(0.693359375), f.add(m, y))
    result = f.choose(f.test("oeq", x, f.const(math.inf)), x, result)
    result = f.choose(f.test("oeq", x, f.const(0.0)), f.const(-math.inf), result)
    return f.choose(f.test("uge", x, f.const(0.0)), f.keep_nan(x, result), f.const(math.nan))


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
    """1 / (1 + exp(-x)) for x >= 0, exp(x) / (1 + exp(x)) below, where it is as accurate."""
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


_POLYNOMIALS: dict[str, Callable[[Lanes, str], str]] = {
    "exp": exp,
    "log": _log,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
}
