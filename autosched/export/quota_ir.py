"""LLVM assembly that reads a container's CPU quota: how many processors' time it may use.

`i64 @lib.within_quota(i64 %threads)` is `threads`, limited to the quota but at least one. It reads
the files of the group that a container sees as the root, of both versions of control groups
(`autosched/control_groups.py` also looks at nested groups). Only Linux has these files.
"""

from __future__ import annotations

import os
from pathlib import Path

from autosched.control_groups import MOUNT
from autosched.export.cpu_ir import text_ir

_ROOM = 64  # bytes: two numbers
_FLAGS = os.O_RDONLY | os.O_CLOEXEC  # a program started meanwhile does not inherit the file

_QUOTA = """
declare i32 @open(ptr, i32, ...)
declare i64 @read(i32, ptr, i64)
declare i32 @close(i32)

; The number that a file begins with, and that behind it; 0 where there is none.
define private {i64, i64} @lib.numbers(ptr %path) {
entry:
  %text = alloca [ROOM x i8]
  %end = alloca ptr
  %file = call i32 (ptr, i32, ...) @open(ptr %path, i32 FLAGS)
  %there = icmp sge i32 %file, 0
  br i1 %there, label %opened, label %none
opened:
  %got = call i64 @read(i32 %file, ptr %text, i64 LAST)
  %closed = call i32 @close(i32 %file)
  %some = icmp sgt i64 %got, 0
  br i1 %some, label %parse, label %none
parse:
  %behind = getelementptr i8, ptr %text, i64 %got
  store i8 0, ptr %behind
  %first = call i64 @strtol(ptr %text, ptr %end, i32 10)
  %rest = load ptr, ptr %end
  %second = call i64 @strtol(ptr %rest, ptr null, i32 10)
  %one = insertvalue {i64, i64} poison, i64 %first, 0
  %both = insertvalue {i64, i64} %one, i64 %second, 1
  ret {i64, i64} %both
none:
  ret {i64, i64} zeroinitializer
}

define private i64 @lib.bounded(i64 %threads, i64 %quota, i64 %period) {
entry:
  %limited = icmp sgt i64 %quota, 0
  %sensible = icmp sgt i64 %period, 0
  %both = and i1 %limited, %sensible
  br i1 %both, label %bound, label %free
bound:
  %whole = sdiv i64 %quota, %period
  %none = icmp slt i64 %whole, 1
  %most = select i1 %none, i64 1, i64 %whole
  %over = icmp sgt i64 %threads, %most
  %used = select i1 %over, i64 %most, i64 %threads
  ret i64 %used
free:
  ret i64 %threads
}

define private i64 @lib.within_quota(i64 %threads) {
  %max = call {i64, i64} @lib.numbers(ptr @lib.group.max)
  %quota = extractvalue {i64, i64} %max, 0
  %period = extractvalue {i64, i64} %max, 1
  %second = call i64 @lib.bounded(i64 %threads, i64 %quota, i64 %period)
  %old.max = call {i64, i64} @lib.numbers(ptr @lib.group.quota)
  %old.quota = extractvalue {i64, i64} %old.max, 0
  %old.each = call {i64, i64} @lib.numbers(ptr @lib.group.period)
  %old.period = extractvalue {i64, i64} %old.each, 0
  %first = call i64 @lib.bounded(i64 %second, i64 %old.quota, i64 %old.period)
  ret i64 %first
}
"""


def quota_ir(mount: Path = MOUNT) -> str:
    """The assembly; it calls `strtol`, which the including text must declare."""
    files = {
        "max": mount / "cpu.max",
        "quota": mount / "cpu" / "cpu.cfs_quota_us",
        "period": mount / "cpu" / "cpu.cfs_period_us",
    }
    names = "\n".join(text_ir(f"lib.group.{name}", str(file)) for name, file in files.items())
    numbers = {"ROOM": _ROOM, "LAST": _ROOM - 1, "FLAGS": _FLAGS}
    text = _QUOTA
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    return names + text
