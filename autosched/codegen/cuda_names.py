"""Identifiers of C that differ from each other, from keywords and from names that CUDA provides."""

from __future__ import annotations

import re

from autosched.codegen.c_words import KEYWORDS
from autosched.codegen.cuda_prelude import identifiers

_BUILT_IN = """
threadIdx blockIdx blockDim gridDim warpSize dim3 uint3 int2 int3 int4 float2 float3 float4 double2
size_t assert printf malloc free memcpy memset clock clock64 main std
min max abs fabs fabsf fma fmaf sqrt rsqrt exp log sin cos tan tanh erf pow fmod floor ceil round
trunc rint smem NULL
"""

RESERVED = KEYWORDS | frozenset(_BUILT_IN.split()) | identifiers()
_MATH = re.compile(
    r"a?(sin|cos|tan)h?f?|(exp|log)(2|10|1p|m1)?f?|(l|ll)?r(ound|int)f?|[jy][01n]f?|"
    r"(floor|ceil|trunc|pow|fmod|atan2|hypot|copysign|ldexp|nextafter|sqrt|rsqrt|erf|fm(in|ax))f?"
)
_MACRO = re.compile(r"(cuda|CUDA)\w*")  # of NVRTC, among them cudaStreamLegacy and CUDART_VERSION


class Names:
    """Gives out identifiers, each of them once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, hint: str) -> str:
        """An identifier like `hint` that is not taken; `i.j.fused` becomes i_j_fused."""
        base = re.sub(r"\W", "_", hint, flags=re.ASCII).strip("_") or "v"
        if base[0].isdigit():
            base = f"v{base}"
        base = re.sub(r"__+", "_", base)  # names with two underscores belong to the compiler
        if _MACRO.fullmatch(base):
            base = f"v_{base}"
        name, count = base, 0
        while name in self._taken or name in RESERVED or _MATH.fullmatch(name):
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name
