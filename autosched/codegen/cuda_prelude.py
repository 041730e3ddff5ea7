"""The prelude of a CUDA source, which takes the place of headers: one text for each part.

A source gets the parts that its kernels use and the parts that these need, in the order of the
table. Conversions and extrema mean the same as in compiled CPU code: floats round to nearest, ties
to even; floats that become integers saturate and NaN becomes 0; minimum and maximum propagate NaN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from autosched.codegen.cuda_prelude_ptx import PTX_NEEDS, PTX_PARTS

_F16 = "struct f16 { unsigned short bits; };"
_BF16 = "struct bf16 { unsigned short bits; };"

_F8E4M3 = "struct f8e4m3 { unsigned char bits; };"
_F8E5M2 = "struct f8e5m2 { unsigned char bits; };"

_VEC = """\
template <class T, int N> struct __align__(sizeof(T) * N) vec { T v[N]; };"""

_BIT_CAST = """\
template <class To, class From> __device__ __forceinline__ To bit_cast(From from) {
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}"""

_F16_TO_F32 = """\
__device__ __forceinline__ float f16_to_f32(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}"""

_F32_TO_F16 = """\
__device__ __forceinline__ f16 f32_to_f16(float x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}"""

_F64_TO_F16 = _F32_TO_F16.replace("f32", "f64").replace("float", "double").replace('"f"', '"d"')

_BF16_TO_F32 = """\
__device__ __forceinline__ float bf16_to_f32(bf16 x) {
  return __uint_as_float((unsigned)x.bits << 16);
}"""

_F32_TO_BF16 = """\
__device__ __forceinline__ bf16 f32_to_bf16(float x) {
  bf16 y;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
  unsigned u = __float_as_uint(x);
  unsigned odd = (u >> 16) & 1u;
  y.bits = x == x ? (unsigned short)((u + 0x7fffu + odd) >> 16) : (unsigned short)0x7fff;
#endif
  return y;
}"""

_MAX_F32 = """\
__device__ __forceinline__ float max_f32(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
#else
  return (a > b || a != a) ? a : b;
#endif
}"""

_MAX_F64 = """\
__device__ __forceinline__ double max_f64(double a, double b) {
  return (a > b || a != a) ? a : b;
}"""

_ABS_INT = """\
template <class T> __device__ __forceinline__ T abs_int(T x) {
  return x < 0 ? (T)(0ull - (unsigned long long)x) : x;
}"""

_QUOTIENT_INT = """\
template <class T> __device__ __forceinline__ T quotient_int(T a, T b) {
  if (b == 0) return 0;
  return (T)-1 < (T)0 && b == (T)-1 ? (T)(0ull - (unsigned long long)a) : (T)(a / b);
}"""

_REMAINDER_INT = """\
template <class T> __device__ __forceinline__ T remainder_int(T a, T b) {
  return b == 0 || ((T)-1 < (T)0 && b == (T)-1) ? (T)0 : (T)(a % b);
}"""

# The floor division and remainder of NumPy's floats. Functions that name their rounding, such as
# __fadd_rn, are not fused with the computation of their operands.
_FLOORMOD_F32 = """\
__device__ __forceinline__ float floormod_f32(float a, float b) {
  float m = fmodf(a, b);
  if (m == 0.0f) return copysignf(0.0f, b);
  return (m < 0.0f) != (b < 0.0f) ? __fadd_rn(m, b) : m;
}"""

_FLOORDIV_F32 = """\
__device__ __forceinline__ float floordiv_f32(float a, float b) {
  if (b == 0.0f) return a / b;
  float m = fmodf(a, b), q = __fdiv_rn(__fsub_rn(a, m), b);
  if (m != 0.0f && (m < 0.0f) != (b < 0.0f)) q -= 1.0f;
  if (q == 0.0f) return copysignf(0.0f, a / b);
  float n = floorf(q);
  return q - n > 0.5f ? n + 1.0f : n;
}"""


def _of_doubles(text: str) -> str:
    """The float64 version of a function of float32."""
    text = re.sub(r"(fmod|floor|copysign)f\b", r"\1", text.replace("_f32", "_f64"))
    text = re.sub(r"__f(\w+_rn)", r"__d\1", text.replace("float", "double"))
    return re.sub(r"(\d\.\d)f\b", r"\1", text)


_F32_TO_INT = """\
__device__ __forceinline__ int f32_to_i32(float x) { return __float2int_rz(x); }
__device__ __forceinline__ unsigned f32_to_u32(float x) { return __float2uint_rz(x); }
__device__ __forceinline__ long long f32_to_i64(float x) {
  return x == x ? __float2ll_rz(x) : 0LL;
}
__device__ __forceinline__ unsigned long long f32_to_u64(float x) {
  return x == x ? __float2ull_rz(x) : 0uLL;
}"""

_F64_TO_INT = """\
__device__ __forceinline__ int f64_to_i32(double x) { return x == x ? __double2int_rz(x) : 0; }
__device__ __forceinline__ unsigned f64_to_u32(double x) {
  return x == x ? __double2uint_rz(x) : 0u;
}
__device__ __forceinline__ long long f64_to_i64(double x) {
  return x == x ? __double2ll_rz(x) : 0LL;
}
__device__ __forceinline__ unsigned long long f64_to_u64(double x) {
  return x == x ? __double2ull_rz(x) : 0uLL;
}"""

_CLASSIFY = """\
template <class T> __device__ __forceinline__ bool is_nan(T x) { return x != x; }
template <class T> __device__ __forceinline__ bool is_inf(T x) { return x == x && x - x != x - x; }
template <class T> __device__ __forceinline__ bool is_finite(T x) { return x - x == x - x; }"""

PARTS: dict[str, str] = {
    "f16": _F16,
    "bf16": _BF16,
    "f8e4m3": _F8E4M3,
    "f8e5m2": _F8E5M2,
    "vec": _VEC,
    "bit_cast": _BIT_CAST,
    "f16_to_f32": _F16_TO_F32,
    "f32_to_f16": _F32_TO_F16,
    "f64_to_f16": _F64_TO_F16,
    "bf16_to_f32": _BF16_TO_F32,
    "f32_to_bf16": _F32_TO_BF16,
    "max_f32": _MAX_F32,
    "min_f32": _MAX_F32.replace("max", "min").replace("a > b", "a < b"),
    "max_f64": _MAX_F64,
    "min_f64": _MAX_F64.replace("max", "min").replace("a > b", "a < b"),
    "abs_int": _ABS_INT,
    "quotient_int": _QUOTIENT_INT,
    "remainder_int": _REMAINDER_INT,
    "floormod_f32": _FLOORMOD_F32,
    "floormod_f64": _of_doubles(_FLOORMOD_F32),
    "floordiv_f32": _FLOORDIV_F32,
    "floordiv_f64": _of_doubles(_FLOORDIV_F32),
    "f32_to_int": _F32_TO_INT,
    "f64_to_int": _F64_TO_INT,
    "classify": _CLASSIFY,
    **PTX_PARTS,
}

_NEEDS = {
    "f16_to_f32": ("f16",),
    "f32_to_f16": ("f16",),
    "f64_to_f16": ("f16",),
    "bf16_to_f32": ("bf16",),
    "f32_to_bf16": ("bf16",),
    "f8e4m3_to_f32": ("f8e4m3", "bit_cast"),
    "f32_to_f8e4m3": ("f8e4m3", "bit_cast"),
    "f8e5m2_to_f32": ("f8e5m2", "bit_cast", "f16", "f16_to_f32"),
    "f32_to_f8e5m2": ("f8e5m2", "bit_cast"),
    **PTX_NEEDS,
}
"""The parts that a part needs. The conversions of 8-bit floats are printed (`cuda_float8.py`)."""


def prelude(used: Iterable[str]) -> str:
    """The text of the parts `used` and of the parts that they need; empty if there are none."""
    wanted: set[str] = set()
    for part in used:
        wanted.update((part, *_NEEDS.get(part, ())))
    return "".join(f"{text}\n" for part, text in PARTS.items() if part in wanted)


def identifiers() -> frozenset[str]:
    """The names that the prelude gives to types and functions, and the names that it uses."""
    words = re.findall(r"[A-Za-z_]\w*", "\n".join(PARTS.values()))
    # Names that are local to a function of the prelude have no underscore.
    return frozenset((*(word for word in words if "_" in word or word in PARTS), *_NEEDS))
