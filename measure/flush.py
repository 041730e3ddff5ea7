"""Empty the caches by writing a buffer that is larger than they are.

Each timed call then begins with its arguments in memory. A kernel whose data stay in the caches
between two calls looks faster in a timing loop than it is among other kernels.
"""

from __future__ import annotations

import ctypes
import re
from functools import lru_cache
from typing import Any

import numpy as np

from autosched.arguments import found, is_flag
from autosched.cpu_caches import cache_sizes
from autosched.cpu_cores import physical_cores
from autosched.errors import ConfigError
from autosched.runtime.native import Library, kernel_imports, load_object
from autosched.runtime.parallel import ensure_pool
from autosched.target import cpu_target

LINE = 64
_BLOCK = 64  # lines that a thread takes at least: 4096 bytes, a page
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_EXPECTED = "expected true, false, or bytes such as 67108864 or 64 MiB"

# Reads and writes a word of each line: stores alone might bypass the caches.
_IR = f"""
declare void @autosched_parallel_launch(ptr, ptr, i64, i64)

define private void @touch(ptr %buffer, i64 %from, i64 %to) {{
entry:
  %first = mul i64 %from, {_BLOCK}
  %last = mul i64 %to, {_BLOCK}
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %byte = mul i64 %i, {LINE}
  %p = getelementptr i8, ptr %buffer, i64 %byte
  %old = load i64, ptr %p
  %new = add i64 %old, 1
  store i64 %new, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}}

define void @autosched_flush(ptr %buffer, i64 %blocks) {{
  call void @autosched_parallel_launch(ptr @touch, ptr %buffer, i64 0, i64 %blocks)
  ret void
}}
"""


class Flush:
    """A buffer of at least `size` bytes; a call lets `threads` threads read and write all of it."""

    def __init__(self, size: int, threads: int) -> None:
        self._threads = threads
        self._blocks = max(1, -(-size // (LINE * _BLOCK)))
        self.words = np.zeros(self._blocks * _BLOCK * LINE // 8, np.int64)
        address = _library().addresses["autosched_flush"]
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)

    def __call__(self) -> None:
        """Empty the caches."""
        ensure_pool(self._threads)
        self._function(self.words.ctypes.data, self._blocks)


@lru_cache(maxsize=1)
def _library() -> Library:
    from autosched.codegen.llvm_compile import compile_object

    code = compile_object(_IR, cpu_target(1), "light")
    return load_object(code, ["autosched_flush"], kernel_imports())


def all_caches() -> int:
    """Bytes that evict everything else: twice the last level and every core's second level."""
    _, second, third = cache_sizes()
    return 2 * (third + physical_cores() * second)


def parse_flush(value: Any) -> bool | int:
    """Parse `measure.cache_flush`: True, False or a number of bytes; 0 is False.

    `value` is a bool, an integer or text such as `64 MiB`. Raises ConfigError for anything else.
    """
    if is_flag(value):
        return bool(value)
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+) ?(B|KiB|MiB|GiB)", value.strip())
        value = int(match[1]) * _UNITS[match[2]] if match else value
    if not isinstance(value, int | np.integer) or value < 0:
        raise ConfigError(f"measure.cache_flush: {_EXPECTED}, {found(value)}")
    return int(value) or False


def flush_text(size: int) -> str:
    """A size as text: `64 MiB`, `1.5 MiB`, `100 bytes`."""
    for unit in ("GiB", "MiB", "KiB"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.4g} {unit}"
    return f"{size} bytes"
