"""LLVM assembly that keeps the pool's threads on separate processors, and counts processors.

The system may wake a worker on the launcher's processor, and leave both there while another
processor is idle; a loop then takes as long as on one thread, for tens of milliseconds. Therefore
each thread notes its processor when it takes part in a loop (`CPU_OFFSET` in its line of the pool,
plus one; 0 is unknown). A worker that finds itself on the launcher's processor, or that woke on the
processor of another thread, moves to a processor that no thread uses. From then on it may run on
all processors but the launcher's. Nothing is done where there are fewer processors than threads, or
on other systems than Linux. A move takes three system calls.
"""

from __future__ import annotations

import sys

CPU_OFFSET = 8

MASK_BYTES = 1024  # of 8192 processors, the most that Linux is built for

_LINUX = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare i64 @llvm.ctpop.i64(i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define private i64 @run.ones(ptr %mask) {
entry:
  br label %words
words:
  %at = phi i64 [ 0, %entry ], [ %at1, %words ]
  %sum = phi i64 [ 0, %entry ], [ %sum1, %words ]
  %pword = getelementptr i64, ptr %mask, i64 %at
  %bits = load i64, ptr %pword
  %ones = call i64 @llvm.ctpop.i64(i64 %bits)
  %sum1 = add i64 %sum, %ones
  %at1 = add i64 %at, 1
  %rest = icmp ult i64 %at1, MASK_WORDS
  br i1 %rest, label %words, label %counted
counted:
  ret i64 %sum1
}

define private i64 @run.processors() {
entry:
  %mask = alloca [MASK_BYTES x i8], align 8
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 MASK_BYTES, i1 false)
  %got = call i32 @sched_getaffinity(i32 0, i64 MASK_BYTES, ptr %mask)
  %failed = icmp slt i32 %got, 0
  br i1 %failed, label %one, label %count
one:
  ret i64 1
count:
  %sum = call i64 @run.ones(ptr %mask)
  ret i64 %sum
}

define private i32 @run.note_processor(i64 %thread) {
  %line = call ptr @run.share_word(i64 %thread)
  %word = getelementptr i8, ptr %line, i64 CPU_OFFSET
  %cpu = call i32 @sched_getcpu()
  %noted = add i32 %cpu, 1
  store atomic i32 %noted, ptr %word monotonic, align 4
  ret i32 %noted
}

define private i32 @run.noted_processor(i64 %thread) {
  %line = call ptr @run.share_word(i64 %thread)
  %word = getelementptr i8, ptr %line, i64 CPU_OFFSET
  %noted = load atomic i32, ptr %word monotonic, align 4
  ret i32 %noted
}

; True when one of the first `many` threads was last seen where thread `many` is.
define private i1 @run.beside_another(i64 %many, i32 %own) {
entry:
  br label %look
look:
  %t = phi i64 [ 0, %entry ], [ %t1, %next ]
  %noted = call i32 @run.noted_processor(i64 %t)
  %same = icmp eq i32 %noted, %own
  br i1 %same, label %yes, label %next
next:
  %t1 = add i64 %t, 1
  %rest = icmp ult i64 %t1, %many
  br i1 %rest, label %look, label %no
yes:
  %known = icmp ne i32 %own, 0
  ret i1 %known
no:
  ret i1 false
}

; Off the processors of all others; from then on anywhere but on the launcher's. `all` is where
; the thread could run before, `set` what it was confined to here: another mask is somebody's wish.
define private void @run.move_away(i64 %thread, i64 %threads, ptr %all, ptr %set) noinline {
entry:
  %now = alloca [MASK_BYTES x i8], align 8
  call void @llvm.memset.p0.i64(ptr %now, i8 0, i64 MASK_BYTES, i1 false)
  %got = call i32 @sched_getaffinity(i32 0, i64 MASK_BYTES, ptr %now)
  %failed = icmp slt i32 %got, 0
  br i1 %failed, label %done, label %compare
compare:
  %order = call i32 @memcmp(ptr %now, ptr %set, i64 MASK_BYTES)
  %ours = icmp eq i32 %order, 0
  br i1 %ours, label %count, label %learn
learn:
  call void @llvm.memcpy.p0.p0.i64(ptr %all, ptr %now, i64 MASK_BYTES, i1 false)
  br label %count
count:
  %sum = call i64 @run.ones(ptr %all)
  %few = icmp ult i64 %sum, %threads
  br i1 %few, label %done, label %copy
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %now, ptr %all, i64 MASK_BYTES, i1 false)
  call void @run.without_processor(ptr %now, i64 0)
  call void @llvm.memcpy.p0.p0.i64(ptr %set, ptr %now, i64 MASK_BYTES, i1 false)
  br label %look
look:
  %t = phi i64 [ 1, %copy ], [ %t1, %next ]
  %rest = icmp ult i64 %t, %threads
  br i1 %rest, label %one, label %move
one:
  %itself = icmp eq i64 %t, %thread
  br i1 %itself, label %next, label %clear
clear:
  call void @run.without_processor(ptr %now, i64 %t)
  br label %next
next:
  %t1 = add i64 %t, 1
  br label %look
move:
  %moved = call i32 @sched_setaffinity(i32 0, i64 MASK_BYTES, ptr %now)
  %confined = call i32 @sched_setaffinity(i32 0, i64 MASK_BYTES, ptr %set)
  %note = call i32 @run.note_processor(i64 %thread)
  br label %done
done:
  ret void
}

define private void @run.without_processor(ptr %mask, i64 %thread) {
entry:
  %noted = call i32 @run.noted_processor(i64 %thread)
  %cpu = sub i32 %noted, 1
  %inside = icmp ult i32 %cpu, MASK_BITS
  br i1 %inside, label %clear, label %done
clear:
  %at = lshr i32 %cpu, 6
  %bit = and i32 %cpu, 63
  %bit64 = zext i32 %bit to i64
  %pword = getelementptr i64, ptr %mask, i32 %at
  %bits = load i64, ptr %pword
  %one = shl i64 1, %bit64
  %others = xor i64 %one, -1
  %left = and i64 %bits, %others
  store i64 %left, ptr %pword
  br label %done
done:
  ret void
}
"""

_ELSEWHERE = """
declare i64 @sysconf(i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define private i64 @run.processors() {
  %online = call i64 @sysconf(i32 58)
  ret i64 %online
}
define private i32 @run.note_processor(i64 %thread) {
  ret i32 0
}
define private i32 @run.noted_processor(i64 %thread) {
  ret i32 0
}
define private i1 @run.beside_another(i64 %many, i32 %own) {
  ret i1 false
}
define private void @run.move_away(i64 %thread, i64 %threads, ptr %all, ptr %set) {
  ret void
}
"""


def processors_ir() -> str:
    """`run.processors()` and the functions that the pool calls; they call `run.share_word`."""
    text = _LINUX if sys.platform == "linux" else _ELSEWHERE
    constants = {
        "MASK_BYTES": MASK_BYTES,
        "MASK_WORDS": MASK_BYTES // 8,
        "MASK_BITS": MASK_BYTES * 8,
        "CPU_OFFSET": CPU_OFFSET,
    }
    for name, value in constants.items():
        text = text.replace(name, str(value))
    return text
