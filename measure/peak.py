"""Measure the peak floating-point rate of this machine: multiply-adds in registers only."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

from autosched.codegen.llvm_compile import compile_object
from autosched.measure.at_once import seconds_at_once
from autosched.runtime.native import Library, load_object, processor
from autosched.target import Target, cpu_target

# Independent multiply-adds. Two units with a latency of up to five cycles need ten; twelve
# accumulators and two operands fit sixteen registers. ARM's larger cores have four units with a
# latency of four cycles, and all have 32 registers.
_CHAINS, _CHAINS_ARM = 12, 24
_BLOCK_SECONDS = 2e-3
_ROUNDS = 8
_TYPES = {"float16": ("half", 2), "float32": ("float", 4), "float64": ("double", 8)}


def peak_flops(target: Target, dtype: str) -> float | None:
    """The operations per second that `target.threads` threads reach together; takes about 20 ms.

    A multiply-add is two operations. None for types other than float32 and float64: sums of float16
    are mostly float32 (`float16_peak`).
    """
    return _peak(target, dtype) if dtype in ("float32", "float64") else None


def float16_peak(target: Target) -> float | None:
    """The same for float16 sums, by AVX512-FP16; None for a target without that extension."""
    return _peak(target, "float16") if "+avx512fp16" in target.features.split(",") else None


def _peak(target: Target, dtype: str) -> float:
    lanes = target.vector_bytes // _TYPES[dtype][1]
    return rate(_function(target, dtype), 2 * lanes * _chains(), target.threads)


def rate(function: Callable[[int], None], operations: int, threads: int) -> float:
    """Operations per second of `threads` threads; function(n) performs n * `operations`."""
    start = time.perf_counter()
    function(10_000)
    iterations = max(1000, int(10_000 * _BLOCK_SECONDS / (time.perf_counter() - start)))
    seconds = seconds_at_once([lambda: function(iterations)] * threads, _ROUNDS)
    return max(sum(operations * iterations / s for s in row) for row in seconds)


def block_seconds(target: Target, blocks: int) -> list[float]:
    """The seconds of equal blocks of work on one thread, about 1 ms each.

    They are equal, too, on a machine that does nothing else and whose clock is constant.
    """
    function = _function(target, "float32")
    iterations = 10_000
    function(iterations)
    start = time.perf_counter()
    function(iterations)
    iterations = max(1000, int(iterations * 1e-3 / (time.perf_counter() - start)))
    ends = [time.perf_counter()]
    for _ in range(blocks):
        function(iterations)
        ends.append(time.perf_counter())
    return [end - begin for begin, end in pairwise(ends)]


def _function(target: Target, dtype: str) -> Callable[[int], None]:
    library = _library(target.vector_bytes, dtype)
    return ctypes.CFUNCTYPE(None, ctypes.c_int64)(library.addresses["autosched_peak"])


@lru_cache(maxsize=3)
def _library(vector_bytes: int, dtype: str) -> Library:
    target = cpu_target(1)
    fused = "+fma" in target.features.split(",") or processor() == "aarch64"
    text = peak_ir(vector_bytes, dtype, fused=fused)
    return load_object(compile_object(text, target, "light"), ["autosched_peak"])


def _chains() -> int:
    return _CHAINS_ARM if processor() == "aarch64" else _CHAINS


def vector_register(vector_bytes: int) -> str:
    """The inline assembly constraint for a vector register of that width."""
    return {"aarch64": "w"}.get(processor(), "v" if vector_bytes == 64 else "x")


def peak_ir(vector_bytes: int, dtype: str, *, fused: bool) -> str:
    """LLVM assembly of `autosched_peak(n)`: n iterations of `_chains()` vector multiply-adds.

    - `fused`: the machine has a fused multiply-add instruction; otherwise there are two
      instructions.
    """
    element, size = _TYPES[dtype]
    lanes = vector_bytes // size
    vector = f"<{lanes} x {element}>"
    register = vector_register(vector_bytes)
    fma = f"@llvm.fma.v{lanes}f{size * 8}"
    lines = [
        f"declare {vector} {fma}({vector}, {vector}, {vector})",
        "define void @autosched_peak(i64 %n) {",
        "entry:",
        # A value that the compiler cannot fold.
        f'  %x = call {vector} asm sideeffect "", "={register},0"({vector} zeroinitializer)',
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
    ]
    for k in range(_chains()):
        lines.append(f"  %a{k} = phi {vector} [ zeroinitializer, %entry ], [ %b{k}, %loop ]")
    for k in range(_chains()):
        if fused:
            lines.append(f"  %b{k} = call {vector} {fma}({vector} %a{k}, {vector} %x, {vector} %x)")
        else:
            lines.append(f"  %p{k} = fmul {vector} %a{k}, %x")
            lines.append(f"  %b{k} = fadd {vector} %p{k}, %x")
    lines += [
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %n",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    for k in range(_chains()):
        lines.append(f'  call void asm sideeffect "", "{register}"({vector} %b{k})')
    return "\n".join([*lines, "  ret void", "}", ""])
