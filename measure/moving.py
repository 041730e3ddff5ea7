"""Measure how long it takes to move an operator's bytes, in loops that only read and write."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from autosched.codegen.llvm_compile import compile_object
from autosched.measure.at_once import seconds_at_once
from autosched.measure.peak import vector_register
from autosched.runtime.array_checks import address_of
from autosched.runtime.memory import empty
from autosched.runtime.native import Library, load_object
from autosched.target import Target, cpu_target

_VECTORS = 8  # most vectors that an iteration loads and stores
_BLOCK_SECONDS = 2e-3
_ROUNDS = 12
_LARGEST_RATIO = 16  # where one side is that many times larger, only that side is moved


def seconds_to_move(target: Target, reads: int, writes: int) -> float:
    """The seconds in which `target.threads` threads read `reads` bytes and write `writes` bytes.

    Each thread goes through its share of both repeatedly, so the bytes come from the level of the
    memory hierarchy that holds so many. The extra cost of writes counts (a cache fetches a line
    before it is written). Returns the fastest of several rounds; takes some 50 ms, and longer where
    the bytes fit no cache.
    """
    if reads < 0 or writes < 0 or reads + writes == 0:
        raise ValueError(f"expected bytes to read or to write, found {reads} and {writes}")
    loads, stores = turn(reads, writes)
    each = (loads + stores) * target.vector_bytes
    turns = max(1, round((reads + writes) / target.threads / each))
    work: list[Callable[[int], object]] = []
    for _ in range(target.threads):
        areas = [_area(max(1, turns * n * target.vector_bytes)) for n in (loads, stores)]
        move = _mover(target.vector_bytes, loads, stores)
        work.append(partial(_pass, move, areas, turns))
    work[0](1)
    begin = time.perf_counter()
    work[0](1)
    passes = max(1, int(_BLOCK_SECONDS / (time.perf_counter() - begin)))
    rows = seconds_at_once([partial(one, passes) for one in work], _ROUNDS)
    exact = (reads + writes) / (target.threads * turns * each)
    return min(max(row) for row in rows) / passes * exact


def turn(reads: int, writes: int) -> tuple[int, int]:
    """How many vectors an iteration loads and stores, in a ratio near that of the bytes."""
    if reads >= _LARGEST_RATIO * writes:
        return _VECTORS, 0
    if writes >= _LARGEST_RATIO * reads:
        return 0, _VECTORS
    ratio = Fraction(reads, writes)
    ratio = 1 / (1 / ratio).limit_denominator(4) if ratio < 1 else ratio.limit_denominator(4)
    times = max(1, _VECTORS // (ratio.numerator + ratio.denominator))
    return ratio.numerator * times, ratio.denominator * times


def _area(size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    area: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = empty((size,), np.uint8)
    area.fill(1)
    return area


def _pass(
    move: Callable[[int, int, int, int], None],
    areas: list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]],
    turns: int,
    passes: int,
) -> None:
    source, target = (address_of(area) for area in areas)
    move(source, target, turns, passes)


def _mover(vector_bytes: int, loads: int, stores: int) -> Callable[[int, int, int, int], None]:
    library = _library(vector_bytes, loads, stores)
    number, address = ctypes.c_int64, ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(None, address, address, number, number)
    return kind(library.addresses["autosched_move"])


@lru_cache(maxsize=16)
def _library(vector_bytes: int, loads: int, stores: int) -> Library:
    text = move_ir(vector_bytes, loads, stores)
    return load_object(compile_object(text, cpu_target(1), "light"), ["autosched_move"])


def move_ir(vector_bytes: int, loads: int, stores: int) -> str:
    """LLVM assembly of `autosched_move(source, target, turns, passes)`.

    Each of the `turns` iterations loads the next `loads` vectors and stores the next `stores`, both
    contiguous. An empty `asm` statement may change memory between two passes as far as the compiler
    knows, so every pass moves everything.
    """
    vector, register = f"<{vector_bytes // 4} x i32>", vector_register(vector_bytes)
    sums = range(max(loads, 1))  # where nothing is read, zeros are written
    lines = [
        "define void @autosched_move(ptr %source, ptr %target, i64 %turns, i64 %passes) {",
        "entry:",
        "  br label %pass",
        "pass:",
        "  %p = phi i64 [ 0, %entry ], [ %pnext, %done ]",
        '  call void asm sideeffect "", "r,r,~{memory}"(ptr %source, ptr %target)',
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %pass ], [ %next, %loop ]",
    ]
    lines += [f"  %a{k} = phi {vector} [ zeroinitializer, %pass ], [ %b{k}, %loop ]" for k in sums]
    lines += [f"  %from = mul i64 %i, {loads}", f"  %to = mul i64 %i, {stores}"]
    for k in sums:
        if loads:
            lines += [
                f"  %o{k} = add i64 %from, {k}",
                f"  %q{k} = getelementptr {vector}, ptr %source, i64 %o{k}",
                f"  %v{k} = load {vector}, ptr %q{k}, align {vector_bytes}",
            ]
        value = f"%v{k}" if loads else "zeroinitializer"
        lines.append(f"  %b{k} = xor {vector} %a{k}, {value}")
    for k in range(stores):
        lines += [
            f"  %w{k} = add i64 %to, {k}",
            f"  %r{k} = getelementptr {vector}, ptr %target, i64 %w{k}",
            f"  store {vector} %b{k % len(sums)}, ptr %r{k}, align {vector_bytes}",
        ]
    lines += [
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %turns",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    lines += [f'  call void asm sideeffect "", "{register}"({vector} %b{k})' for k in sums]
    lines += [
        "  %pnext = add i64 %p, 1",
        "  %again = icmp slt i64 %pnext, %passes",
        "  br i1 %again, label %pass, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join([*lines, ""])
