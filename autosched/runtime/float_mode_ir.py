"""LLVM assembly that hands the floating-point mode of a loop's launcher to its workers.

The mode is the rounding direction, and whether subnormal numbers are read or written as zeros. A
thread starts with the mode of the one that created it, so without this the results would depend on
which worker computes an element. `i32 @run.float_mode()` is the calling thread's mode, `void
@run.use_float_mode(i32)` sets it; exceptions are masked then, because a worker cannot take their
signal. On x86 the mode is in MXCSR (Intel's Software Developer's Manual, volume 1, 10.2.3), on
aarch64 in FPCR (ARM's Architecture Reference Manual, C5.2.8). Elsewhere nothing is done.
"""

from __future__ import annotations

_X86 = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define private i32 @run.float_mode() {
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %word = load i32, ptr %place
  %mode = and i32 %word, MODE
  ret i32 %mode
}

define private void @run.use_float_mode(i32 %mode) {
  %place = alloca i32
  %word = or i32 %mode, MASKED
  store i32 %word, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}
""".replace("MODE", str(0xE040)).replace("MASKED", str(0x1F80))

_ARM = """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define private i32 @run.float_mode() {
  %word = call i64 @llvm.aarch64.get.fpcr()
  %low = trunc i64 %word to i32
  %mode = and i32 %low, MODE
  ret i32 %mode
}

define private void @run.use_float_mode(i32 %mode) {
  %word = zext i32 %mode to i64
  call void @llvm.aarch64.set.fpcr(i64 %word)
  ret void
}
""".replace("MODE", str(0x07C80000))

_ELSEWHERE = """
define private i32 @run.float_mode() {
  ret i32 0
}

define private void @run.use_float_mode(i32 %mode) {
  ret void
}
"""


def float_mode_ir(processor: str) -> str:
    """The two functions for a processor as Linux calls it: x86_64, aarch64 ..."""
    return {"x86_64": _X86, "aarch64": _ARM}.get(processor, _ELSEWHERE)
