"""Lowering rules for intrinsics per kind of target: tables that are searched in order.

A rule takes a call. It returns the replacement, which is lowered again, or None if it does not
apply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from autosched.tir.conversion import full_like
from autosched.tir.expr import Call, Expr, StringImm
from autosched.tir.intrin import BINARY_MATH, UNARY_MATH
from autosched.tir.op import call, div, ge, mul, select, sub


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


Rule = Callable[[Call], Expr | None]
Table = Mapping[str, Rule]


def tables_for(kind: str, triple: str) -> tuple[Table, ...]:
    """The tables for a kind of target, in search order."""
    kind = "llvm" if kind == "cpu" else kind
    kinds = (kind, f"{kind}.aarch64") if "aarch64" in triple else (kind,)
    names = [f"{k}.{what}" for k in (*kinds, "default") for what in ("lower", "legalize")]
    return tuple(TABLES[name] for name in names if name in TABLES)


# -- calls of functions ----------------------------------------------------------------------------


def _extern(e: Call, name: str) -> Expr:
    return Call(e.dtype, "call_pure_extern", (StringImm(name), *e.args))


def _c_function(e: Call) -> Expr | None:
    """The C function of the same name: `expf` for float32, `exp` for float64, else None."""
    suffix = {"float32": "f", "float64": ""}.get(e.dtype.name)
    return None if suffix is None else _extern(e, e.op + suffix)


def _llvm_intrinsic(name: str) -> Rule:
    """A rule for LLVM's intrinsic `name`, overloaded on the type of the arguments, also vectors."""

    def rule(e: Call) -> Expr | None:
        dtype = e.args[0].dtype
        if dtype.code not in ("float", "int", "uint") or (name == "ctpop") == dtype.is_float:
            return None
        element = f"{'f' if dtype.is_float else 'i'}{dtype.bits}"
        suffix = element if dtype.lanes == 1 else f"v{dtype.lanes}{element}"
        args = (StringImm(f"llvm.{name}.{suffix}"), *e.args)
        return Call(e.dtype, "call_llvm_pure_intrin", args)

    return rule


def _cuda_function(fast: bool) -> Rule:
    """A rule for CUDA's function; with `fast`, the fast hardware function for float32."""

    def rule(e: Call) -> Expr | None:
        if e.dtype.lanes > 1:
            return None
        if e.dtype.name == "float32":
            return _extern(e, f"__{e.op}f" if fast else f"{e.op}f")
        if e.dtype.name == "float16" and e.op in _HALF:
            return _extern(e, f"h{e.op}")
        return _extern(e, e.op) if e.dtype.name == "float64" else None

    return rule


_HALF = frozenset(_names("exp exp2 exp10 log log2 log10 sin cos sqrt rsqrt floor ceil trunc"))
"""Functions with a float16 form, such as `hexp`."""


def _shuffle(name: str) -> Rule:
    # The last argument, the warp size, is not an argument of CUDA's function.
    return lambda e: Call(e.dtype, "call_pure_extern", (StringImm(name), *e.args[:4]))


def _active_mask(e: Call) -> Expr:
    return Call(e.dtype, "call_pure_extern", (StringImm("__activemask"),))


# -- expansions into other intrinsics --------------------------------------------------------------


def _rsqrt(e: Call) -> Expr:
    (x,) = e.args
    return div(full_like(x, 1), call("sqrt", x))


def _sigmoid(e: Call) -> Expr:
    (x,) = e.args
    return div(full_like(x, 1), full_like(x, 1) + call("exp", sub(full_like(x, 0), x)))


def _exp10(e: Call) -> Expr:
    (x,) = e.args
    return call("exp", mul(x, full_like(x, math.log(10))))


def _tan(e: Call) -> Expr:
    (x,) = e.args
    return div(call("sin", x), call("cos", x))


def _tanh(e: Call) -> Expr:
    """Tanh through the exponential of a non-positive number, which cannot overflow."""
    (x,) = e.args
    one = full_like(x, 1)
    down, up = call("exp", mul(x, full_like(x, -2))), call("exp", mul(x, full_like(x, 2)))
    positive, negative = div(sub(one, down), one + down), div(sub(up, one), up + one)
    return select(ge(x, full_like(x, 0)), positive, negative)


def _float_only(rule: Rule) -> Rule:
    return lambda e: rule(e) if e.args[0].dtype.code == "float" else None


_FAST = _names("exp exp10 log log2 log10 cos sin")
_CUDA = _names(
    "exp2 fabs floor ceil trunc round nearbyint sqrt tan tanh sinh cosh atan erf pow fmod"
)
_LLVM = {
    **{name: name for name in _names("exp exp2 log log2 log10 sqrt floor ceil trunc fabs")},
    **{name: name for name in _names("round nearbyint cos sin pow copysign")},
    "fma": "fmuladd",
    "popcount": "ctpop",
}
_C = (UNARY_MATH | BINARY_MATH) - frozenset(
    _names("sigmoid rsqrt clz popcount isnan isinf isfinite ldexp")
)

TABLES: dict[str, Table] = {
    "llvm.lower": {name: _llvm_intrinsic(intrinsic) for name, intrinsic in _LLVM.items()},
    "llvm.legalize": {
        name: _float_only(rule)
        for name, rule in {"exp10": _exp10, "tan": _tan, "tanh": _tanh}.items()
    },
    "cuda.lower": {
        **{name: _cuda_function(fast=True) for name in _FAST},
        **{name: _cuda_function(fast=False) for name in _CUDA},
        "tvm_warp_shuffle": _shuffle("__shfl_sync"),
        "tvm_warp_shuffle_up": _shuffle("__shfl_up_sync"),
        "tvm_warp_shuffle_down": _shuffle("__shfl_down_sync"),
        "tvm_warp_activemask": _active_mask,
    },
    "default.lower": dict.fromkeys(_C, _c_function),
    "default.legalize": {"rsqrt": _rsqrt, "sigmoid": _float_only(_sigmoid)},
}
"""KIND.lower: functions of the target. KIND.legalize: expansions into other intrinsics."""
