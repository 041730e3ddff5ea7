"""Measure the peak rate of a tensor instruction on this machine, on registers only."""

from __future__ import annotations

import ctypes

from autosched.codegen.llvm_compile import compile_object
from autosched.measure.peak import rate
from autosched.runtime.native import load_object
from autosched.target import Target
from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.registry import available
from autosched.tir.tiles import CONFIGURE, RELEASE, ROW_BYTES, ROWS, TILES, ZERO

# Independent accumulators: vectors as in peak.py; four AMX tiles, whose operands are two tiles of
# rows and two of columns.
_CHAINS, _SUMS = 12, 4


def instruction_peak(target: Target, it: Instruction) -> float | None:
    """Operations per second of `target.threads` threads together; a product and its sum are two.

    None where this machine lacks the instruction, or the system does not grant AMX's tiles. Takes
    about 20 ms.
    """
    if it not in available(target):
        return None
    tiles = it.c.scope == "amx.tile"
    text = tile_ir(it) if tiles else vector_ir(it)
    library = load_object(compile_object(text, target, "light"), ["autosched_peak"])
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(library.addresses["autosched_peak"])
    if function(1):
        return None

    def repeat(times: int) -> None:
        function(times)

    return rate(repeat, 2 * it.multiply_adds * (_SUMS if tiles else _CHAINS), target.threads)


def vector_ir(it: Instruction) -> str:
    """LLVM assembly of `autosched_peak(iterations)`: _CHAINS products of vectors per iteration."""
    lanes = it.extent("n")
    element = "float" if it.c.dtype.is_float else "i32"
    sums, words = f"<{lanes} x {element}>", f"<{lanes} x i32>"
    call = f"call {sums} @{it.calls[0]}"
    adds, fma = "pmadd" in it.calls[0], it.calls[0].startswith("llvm.fma")
    if adds:
        words = f"<{2 * lanes} x i16>"
    elif fma:
        words = sums
    before = [
        f'  %x = call {words} asm sideeffect "", "=v,0"({words} zeroinitializer)',
    ]
    phis = [
        f"  %a{k} = phi {sums} [ zeroinitializer, %entry ], [ %b{k}, %loop ]"
        for k in range(_CHAINS)
    ]
    body = [f"  %b{k} = {call}({sums} %a{k}, {words} %x, {words} %x)" for k in range(_CHAINS)]
    if fma:  # the accumulator is the last operand
        body = [f"  %b{k} = {call}({sums} %x, {sums} %x, {sums} %a{k})" for k in range(_CHAINS)]
    elif adds:
        body = [line for k in range(_CHAINS) for line in _pairs(call, sums, words, k)]
    after = [f'  call void asm sideeffect "", "v"({sums} %b{k})' for k in range(_CHAINS)]
    takes = f"{words}, {words}" if adds else f"{sums}, {words}, {words}"
    declared = [f"declare {sums} @{it.calls[0]}({takes})"]
    return _function(declared, before, phis, body, after)


def _pairs(call: str, sums: str, words: str, k: int) -> list[str]:
    """A product and its sum. An `asm` may change the operand, so no product is hoisted."""
    before = f"%x{k - 1}" if k else "%x"
    return [
        f'  %x{k} = call {words} asm sideeffect "", "=v,0"({words} {before})',
        f"  %p{k} = {call}({words} %x{k}, {words} %x{k})",
        f"  %b{k} = add {sums} %a{k}, %p{k}",
    ]


def tile_ir(it: Instruction) -> str:
    """LLVM assembly of `autosched_peak(iterations)` for AMX tiles.

    It returns a number other than 0 where the system does not grant the tiles.
    """
    declared = [
        f"declare void @{it.calls[0]}(i8 immarg, i8 immarg, i8 immarg)",
        f"declare void @{CONFIGURE}(ptr)",
        f"declare void @{RELEASE}()",
        f"declare void @{ZERO}(i8 immarg)",
    ]
    data = bytearray(64)
    data[0] = 1
    data[16 : 16 + 2 * TILES : 2] = bytes([ROW_BYTES] * TILES)
    data[48 : 48 + TILES] = bytes([ROWS] * TILES)
    text = "".join(f"\\{byte:02X}" for byte in data)
    declared.append(f'@shape = private constant [64 x i8] c"{text}", align 64')
    registers = "={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory}"
    before = [
        f'  %no = call i64 asm sideeffect "syscall", "{registers}"(i64 158, i64 4131, i64 18)',
        "  %given = icmp eq i64 %no, 0",
        "  br i1 %given, label %start, label %refused",
        "refused:",
        "  ret i32 1",
        "start:",
        f"  call void @{CONFIGURE}(ptr @shape)",
        *(f"  call void @{ZERO}(i8 {k})" for k in range(TILES)),
    ]
    body = [
        f"  call void @{it.calls[0]}(i8 {k}, i8 {_SUMS + k // 2}, i8 {_SUMS + 2 + k % 2})"
        for k in range(_SUMS)
    ]
    return _function(declared, before, [], body, [f"  call void @{RELEASE}()"], "start")


def _function(
    declared: list[str],
    before: list[str],
    phis: list[str],
    body: list[str],
    after: list[str],
    entry: str = "entry",
) -> str:
    lines = [
        *declared,
        "define i32 @autosched_peak(i64 %n) {",
        "entry:",
        *before,
        "  br label %loop",
        "loop:",
        f"  %i = phi i64 [ 0, %{entry} ], [ %next, %loop ]",
        *phis,
        *body,
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %n",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *after,
        "  ret i32 0",
        "}",
        "",
    ]
    return "\n".join(lines)
