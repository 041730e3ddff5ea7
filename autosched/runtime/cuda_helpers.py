"""GPU kernels that measuring needs: gate, comparison, checksum, and an addition to probe with.

Like generated code they include no headers. Each works with any grid and block.
"""

from __future__ import annotations

import numpy as np

from autosched.codegen.cuda_float8 import float8_conversions
from autosched.codegen.cuda_prelude import prelude
from autosched.runtime.infinities import limit_of
from autosched.tir.dtype import DType

# For each element type: its C type, and the C code that converts an element `x` to a double.
_HALF = 'float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x)); return f;'
_BFLOAT = "return __uint_as_float((unsigned)x << 16);"
_TYPES = {
    "float64": ("double", "return x;"),
    "float32": ("float", "return x;"),
    "float16": ("unsigned short", _HALF),
    "bfloat16": ("unsigned short", _BFLOAT),
    "float8_e4m3fn": ("unsigned char", "return f8e4m3_to_f32(f8e4m3{x});"),
    "float8_e5m2": ("unsigned char", "return f8e5m2_to_f32(f8e5m2{x});"),
    "int64": ("long long", "return (double)x;"),
    "int32": ("int", "return x;"),
    "int16": ("short", "return x;"),
    "int8": ("signed char", "return x;"),
    "uint64": ("unsigned long long", "return (double)x;"),
    "uint32": ("unsigned", "return x;"),
    "uint16": ("unsigned short", "return x;"),
    "uint8": ("unsigned char", "return x;"),
    "bool": ("unsigned char", "return x;"),
}
RESULT_BYTES = 24  # bytes of compare's result: bad (u64), first (u64), error (float), padding

_FIXED = """\
// Keeps what is queued behind it from running until flag[0] is set, for half a second at most.
extern "C" __global__ void autosched_gate(volatile unsigned* flag) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    if (flag[0]) return;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < 500000000ull);
  flag[1] = 1;
}

extern "C" __global__ void autosched_add(
    const float* left, const float* right, float* out, unsigned long long count) {
  unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += step)
    out[i] = left[i] + right[i];
}

// Adds up words, each times an odd number of its place.
extern "C" __global__ void autosched_checksum(
    const unsigned* data, unsigned long long count, unsigned long long* sum) {
  unsigned long long mine = 0, step = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += step)
    mine += data[i] * (2 * i + 1);
  atomicAdd(sum, mine);
}
"""

_COMPARE = """\
static __device__ double autosched_value_NAME(TYPE x) { VALUE }
// An infinity is compared as the first number beyond the range of its type.
static __device__ double autosched_finite_NAME(TYPE x) {
  double value = autosched_value_NAME(x);
  return value > LIMIT ? LIMIT : value < -LIMIT ? -LIMIT : value;
}
// Most elements of a right result differ in their last bits: a thread counts for itself first.
extern "C" __global__ void autosched_compare_NAME(
    const TYPE* got, const TYPE* want, unsigned long long count, double relative, double absolute,
    double rounding, unsigned long long* result) {
  unsigned long long wrong = 0, first = 0;
  int largest = 0;  // a float's bits: those that are not negative are ordered alike
  unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += step) {
    double a = autosched_finite_NAME(got[i]), b = autosched_finite_NAME(want[i]);
    bool same = EXACT ? got[i] == want[i] : (a == b || (a != a && b != b));
    if (same) continue;
    double share = (fabs(a - b) - rounding * fabs(b)) / (relative * fabs(b) + absolute);
    bool bad = !(relative + absolute > 0 && share <= 1);
    int error = __float_as_int(share == share ? (float)share : __int_as_float(0x7f800000));
    if (error > largest) largest = error;
    if (bad && !wrong++) first = i;
  }
  if (largest) atomicMax((int*)(result + 2), largest);
  if (wrong) {
    atomicAdd(result, wrong);
    atomicMin(result + 1, first);
  }
}
"""


def compare_name(dtype: np.dtype[np.generic]) -> str:
    """The name of the kernel that compares elements of a type. KeyError where there is none."""
    _TYPES[dtype.name]
    return f"autosched_compare_{dtype.name}"


def helper_source() -> str:
    """CUDA C of all helper kernels."""
    used = ("f8e4m3_to_f32", "f8e5m2_to_f32")
    head = prelude(used) + float8_conversions(used)
    return "\n".join([head, _FIXED, *map(compare_source, _TYPES)])


def compare_source(name: str) -> str:
    """CUDA C of the kernel that compares elements of the NumPy type `name`."""
    element, value = _TYPES[name]
    exact = name.startswith(("int", "uint", "bool"))
    limit = limit_of(DType("float64" if exact else name).numpy)
    parts = {"NAME": name, "TYPE": element, "VALUE": value, "LIMIT": repr(limit)}
    text = _COMPARE.replace("EXACT", "true" if exact else "false")
    for part, by in parts.items():
        text = text.replace(part, by)
    return text
