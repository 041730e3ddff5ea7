"""The functions that LLVM calls to convert float16 where the CPU has no instruction for it.

Only libraries of some compilers have these functions, and no running Python does. A module with
halves therefore brings its own.
"""

from __future__ import annotations

import re

_FROM_DOUBLE = """\
define linkonce_odr hidden half @__truncdfhf2(double %x) {
  %single = fptrunc double %x to float
  %half = fptrunc float %single to half
  ret half %half
}
"""
"""The conversion of a double, which every CPU needs.

LLVM calls it where it finds the sign of a double copied to a half, as in a float64 that is rounded
to 8 bits and made a float16. LLVM uses only the sign of the result.
"""

_TO_FLOAT = """\
define linkonce_odr hidden float @__extendhfsf2(half %x) {
  %bits = bitcast half %x to i16
  %wide = zext i16 %bits to i32
  %size = and i32 %wide, 32767
  %moved = shl i32 %size, 13
  %normal = add i32 %moved, 939524096
  %small.one = add i32 %moved, 947912704
  %small.float = bitcast i32 %small.one to float
  %small.exact = fsub float %small.float, 0x3F10000000000000
  %small = bitcast float %small.exact to i32
  %endless = or i32 %moved, 2139095040
  %quiet = or i32 %endless, 4194304
  %is.small = icmp ult i32 %size, 1024
  %is.large = icmp uge i32 %size, 31744
  %is.nan = icmp ugt i32 %size, 31744
  %finite = select i1 %is.small, i32 %small, i32 %normal
  %large = select i1 %is.nan, i32 %quiet, i32 %endless
  %magnitude = select i1 %is.large, i32 %large, i32 %finite
  %sign = and i32 %wide, 32768
  %high = shl i32 %sign, 16
  %all = or i32 %magnitude, %high
  %result = bitcast i32 %all to float
  ret float %result
}
"""
"""The conversion to float.

The exponent grows by 112. A subnormal becomes a number from 2**-14 on, from which 2**-14 is
subtracted exactly.
"""

_TO_HALF = """\
define linkonce_odr hidden half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %last = lshr i32 %size, 13
  %odd = and i32 %last, 1
  %near = add i32 %size, -939520001
  %even = add i32 %near, %odd
  %normal = lshr i32 %even, 13
  %size.float = bitcast i32 %size to float
  %small.float = fadd float %size.float, 5.000000e-01
  %small.bits = bitcast float %small.float to i32
  %small = sub i32 %small.bits, 1056964608
  %payload = and i32 %last, 511
  %nan = or i32 %payload, 32256
  %is.small = icmp ult i32 %size, 947912704
  %is.large = icmp uge i32 %size, 1199570944
  %is.nan = icmp ugt i32 %size, 2139095040
  %finite = select i1 %is.small, i32 %small, i32 %normal
  %large = select i1 %is.nan, i32 %nan, i32 31744
  %magnitude = select i1 %is.large, i32 %large, i32 %finite
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %all = or i32 %magnitude, %sign
  %low = trunc i32 %all to i16
  %result = bitcast i16 %low to half
  ret half %result
}
"""
"""The conversion to half, rounded to nearest, ties to even.

The exponent shrinks by 112. Numbers below 2**-14 are rounded by adding 0.5, whose last bit is that
of a subnormal half.
"""

_HALF, _DOUBLE = re.compile(r"\bhalf\b"), re.compile(r"\bdouble\b")


def half_functions(text: str, converts: bool) -> str:
    """The functions that a module of `text` needs; none if the CPU `converts` halves itself.

    The conversion of a double is needed on every CPU.
    """
    if not _HALF.search(text):
        return ""
    found = {}
    if _DOUBLE.search(text):
        found["__truncdfhf2"] = _FROM_DOUBLE
    if not converts:
        found |= {"__extendhfsf2": _TO_FLOAT, "__truncsfhf2": _TO_HALF}
    if not found:
        return ""
    names = ", ".join(f"ptr @{name}" for name in found)
    used = f"@llvm.compiler.used = appending global [{len(found)} x ptr] [{names}]"
    return "".join(found.values()) + f'{used}, section "llvm.metadata"\n'
