"""Measure the bandwidth of this machine's caches and memory with loops that only read vectors."""

from __future__ import annotations

import ctypes
import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from autosched.codegen.llvm_compile import compile_object
from autosched.control_groups import group_memory
from autosched.cpu_caches import cache_sizes
from autosched.measure.at_once import seconds_at_once
from autosched.measure.peak import vector_register
from autosched.runtime.array_checks import address_of
from autosched.runtime.memory import empty
from autosched.runtime.native import Library, load_object
from autosched.target import Target, cpu_target

# A thread reads both halves of its array at once: two streams. One iteration of its loop loads
# _LOADS vectors of each stream, each into an accumulator of its own. On a Cascade Lake one stream
# reads 0.90 of what two do from memory and 0.92 from the L3; kernels that read several arrays were
# faster than one stream.
_STREAMS, _LOADS = 2, 8
_BLOCK_SECONDS = 2e-3
_ROUNDS = 8  # for an array that fits a cache
_SLOW_ROUNDS = 3  # for an array that does not
_BEYOND = 2  # times the last cache, so that most reads come from memory
_SHARE = 4  # at most 1 / _SHARE of the free memory is read
_MOST_BYTES = 2**31


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """The bytes per second that all threads together read from a cache level or memory.

    - `level`: "L1", "L2", "L3" or "memory".
    - `bytes_each`: the size of the array that each thread reads.
    """

    level: str
    bytes_per_second: float
    bytes_each: int


def bandwidths(target: Target) -> list[Bandwidth]:
    """Measure how fast `target.threads` threads together read from L1, L2, L3 and memory.

    Each thread reads an array of its own repeatedly. Its size is half of L1, half of L2, or for the
    L3 its share of half the L3, but at most eight times L2. For memory, all arrays together are
    twice the L3. A level is left out when its array would be no larger than that of the level
    before; memory is left out when its arrays would take more than a quarter of the free memory, or
    more than 2 GiB.
    Takes some 50 ms, and longer where caches are large.
    """
    threads = target.threads
    first, second, third = cache_sizes()
    shared = min(third // 2 // threads, 8 * second)
    sizes = {"L1": first // 2, "L2": second // 2, "L3": shared}
    beyond = _BEYOND * third // threads
    if threads * beyond <= min(_MOST_BYTES, free_bytes() // _SHARE):
        sizes["memory"] = beyond
    turn = _STREAMS * _LOADS * target.vector_bytes
    found: list[Bandwidth] = []
    before = 0
    for level, size in sizes.items():
        whole = size // turn * turn
        if whole > before:
            found.append(Bandwidth(level, _measured(target, whole), whole))
            before = max(before, whole)
    return found


def free_bytes(system: Path = Path("/proc/meminfo")) -> int:
    """Bytes of memory that this process can still allocate, within a container's limit."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    with suppress(OSError, ValueError, IndexError):
        text = system.read_text()
        free = int(text.split("MemAvailable:")[1].split()[0]) * 1024
    for limit, used in group_memory():
        free = min(free, max(0, limit - used))
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    return free if most == resource.RLIM_INFINITY else min(free, most // 2)


def _measured(target: Target, size: int) -> float:
    read = _reader(target.vector_bytes)
    arrays = [empty((size,), np.uint8) for _ in range(target.threads)]
    for array in arrays:
        array.fill(1)
    starts = [address_of(array) for array in arrays]
    begin = time.perf_counter()
    read(starts[0], size, 1)
    once = time.perf_counter() - begin
    passes = max(1, int(_BLOCK_SECONDS / once))
    rounds = _ROUNDS if once < _BLOCK_SECONDS else _SLOW_ROUNDS
    work: list[Callable[[], object]] = [partial(read, start, size, passes) for start in starts]
    seconds = seconds_at_once(work, rounds)
    return max(sum(passes * size / s for s in row) for row in seconds)


def _reader(vector_bytes: int) -> Callable[[int, int, int], None]:
    library = _library(vector_bytes)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return kind(library.addresses["autosched_read"])


@lru_cache(maxsize=2)
def _library(vector_bytes: int) -> Library:
    target = cpu_target(1)
    return load_object(compile_object(read_ir(vector_bytes), target, "light"), ["autosched_read"])


def read_ir(vector_bytes: int) -> str:
    """LLVM assembly of `autosched_read(data, bytes, passes)`.

    `bytes` is a positive multiple of `_STREAMS * _LOADS` vectors. An empty `asm` statement may
    change memory between two passes as far as the compiler knows, so every pass reads the whole
    array.
    """
    vector, register = f"<{vector_bytes // 4} x i32>", vector_register(vector_bytes)
    vectors = [(s, k) for s in range(_STREAMS) for k in range(_LOADS)]
    lines = [
        "define void @autosched_read(ptr %data, i64 %bytes, i64 %passes) {",
        "entry:",
        f"  %length = sdiv i64 %bytes, {_STREAMS}",
    ]
    for s in range(_STREAMS):
        lines += [
            f"  %from{s} = mul i64 %length, {s}",
            f"  %part{s} = getelementptr i8, ptr %data, i64 %from{s}",
        ]
    lines += [
        "  br label %pass",
        "pass:",
        "  %p = phi i64 [ 0, %entry ], [ %pnext, %done ]",
        '  call void asm sideeffect "", "r,~{memory}"(ptr %data)',
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %pass ], [ %next, %loop ]",
    ]
    for s, k in vectors:
        before = f"[ zeroinitializer, %pass ], [ %b{s}.{k}, %loop ]"
        lines.append(f"  %a{s}.{k} = phi {vector} {before}")
    for s, k in vectors:
        lines += [
            f"  %o{s}.{k} = add i64 %i, {k * vector_bytes}",
            f"  %q{s}.{k} = getelementptr i8, ptr %part{s}, i64 %o{s}.{k}",
            f"  %v{s}.{k} = load {vector}, ptr %q{s}.{k}, align {vector_bytes}",
            f"  %b{s}.{k} = xor {vector} %a{s}.{k}, %v{s}.{k}",
        ]
    lines += [
        f"  %next = add i64 %i, {_LOADS * vector_bytes}",
        "  %more = icmp slt i64 %next, %length",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    for s, k in vectors:  # keeps every load alive
        lines.append(f'  call void asm sideeffect "", "{register}"({vector} %b{s}.{k})')
    lines += [
        "  %pnext = add i64 %p, 1",
        "  %again = icmp slt i64 %pnext, %passes",
        "  br i1 %again, label %pass, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join([*lines, ""])
