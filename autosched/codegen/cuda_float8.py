"""The conversions of 8-bit floats in CUDA C, printed from the expressions that all back ends use.

    __device__ __forceinline__ float f8e5m2_to_f32(f8e5m2 x) { return ...; }
    __device__ __forceinline__ f8e5m2 f32_to_f8e5m2(float x) { return ...; }

The conversion instructions of sm_89 and later are not used: they saturate, which a cast does not.
"""

from __future__ import annotations

from collections.abc import Iterable

from autosched.codegen.cuda_expr import HANDLERS
from autosched.codegen.cuda_types import value_type
from autosched.codegen.cuda_writer import Text, Writer
from autosched.tir.dtype import DType, float32
from autosched.tir.expr import Expr, Var
from autosched.tir.float_bits import narrow, widen

_TYPES = ("float8_e4m3fn", "float8_e5m2")


def float8_conversions(used: Iterable[str]) -> str:
    """The text of the conversions among the parts `used`, to follow the prelude; empty for none."""
    wanted = set(used)
    texts = (text for name in _TYPES for part, text in _functions(DType(name)) if part in wanted)
    return "".join(f"{text}\n" for text in texts)


def _functions(dtype: DType) -> tuple[tuple[str, str], ...]:
    kind = value_type(dtype)
    small, wide = Var("x", dtype), Var("x", float32)
    up, down = _text(small, widen(small, float32)), _text(wide, narrow(wide, dtype))
    head = "__device__ __forceinline__"
    return (
        (f"{kind}_to_f32", f"{head} float {kind}_to_f32({kind} x) {{\n  return {up};\n}}"),
        (f"f32_to_{kind}", f"{head} {kind} f32_to_{kind}(float x) {{\n  return {down};\n}}"),
    )


def _text(argument: Var, result: Expr) -> str:
    writer = Writer(HANDLERS)
    writer.values[argument] = Text("x")
    return writer.text(result)
