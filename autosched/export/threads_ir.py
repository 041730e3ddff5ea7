"""LLVM assembly that starts the threads of the worker pool (`runtime/parallel_ir.py`).

`void @lib.start_threads()` starts them once per process. Their number, with the calling thread, is
AUTOSCHED_NUM_THREADS where that is a positive number, or `wanted` limited to the processors that
the process may use and to the quota of its container (`quota_ir.py`). The threads block all signals
and end with the process. A forked child has none of them and starts its own; it resets the state
that other threads of its parent held or had begun to change.
"""

from __future__ import annotations

import sys

from autosched.export.cpu_ir import text_ir
from autosched.export.quota_ir import quota_ir
from autosched.runtime.parallel_ir import POOL_BYTES, THREADS_OFFSET
from autosched.target import MAX_THREADS

_NUMBER = """
declare ptr @getenv(ptr)
declare i64 @strtol(ptr, ptr, i32)

define private i64 @lib.threads_to_use() {
entry:
  %end = alloca ptr, align 8
  %set = call ptr @getenv(ptr @lib.variable)
  %unset = icmp eq ptr %set, null
  br i1 %unset, label %unasked, label %read
read:
  %asked = call i64 @strtol(ptr %set, ptr %end, i32 10)
  %rest = load ptr, ptr %end
  %next = load i8, ptr %rest
  %whole = icmp eq i8 %next, 0
  %positive = icmp sgt i64 %asked, 0
  %sensible = and i1 %whole, %positive
  br i1 %sensible, label %done, label %unasked
unasked:
  %processors = call i64 @run.processors()
  %allowed = call i64 @lib.within_quota(i64 %processors)
  %few = icmp slt i64 %allowed, WANTED
  %usual = select i1 %few, i64 %allowed, i64 WANTED
  br label %done
done:
  %all = phi i64 [ %usual, %unasked ], [ %asked, %read ]
  %over = icmp sgt i64 %all, MOST
  %used = select i1 %over, i64 MOST, i64 %all
  ret i64 %used
}
"""

# Registered when the library is loaded, because kernels without threads hold locks, too.
_FORK = """
declare i32 @pthread_atfork(ptr, ptr, ptr)
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [
  { i32, ptr, ptr } { i32 65535, ptr @lib.watch_forks, ptr null }
]

define private void @lib.after_fork() {
  call void @llvm.memset.p0.i64(ptr @autosched_pool, i8 0, i64 POOL_BYTES, i1 false)
  store atomic i32 0, ptr @lib.starting release, align 4
  call void @autosched_workspace_forget()
  %looking = cmpxchg ptr @lib.state, i32 1, i32 0 acq_rel monotonic, align 4
  ret void
}

define private void @lib.watch_forks() {
  %w = call i32 @pthread_atfork(ptr null, ptr null, ptr @lib.after_fork)
  ret void
}
"""

_START = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @sigfillset(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
@lib.starting = private global i32 0

define private ptr @lib.thread(ptr %number) {
  %index = ptrtoint ptr %number to i64
  call void @autosched_worker(i64 %index, i32 0)
  ret ptr null
}

define private void @lib.start_threads() {
entry:
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  %id = alloca i64, align 8
  %pair = cmpxchg ptr @lib.starting, i32 0, i32 1 acq_rel monotonic, align 4
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %begin, label %done
begin:
  %wanted = call i64 @lib.threads_to_use()
  %f = call i32 @sigfillset(ptr %all)
  %b = call i32 @pthread_sigmask(i32 BLOCK, ptr %all, ptr %old)
  br label %next
next:
  %i = phi i64 [ 1, %begin ], [ %i1, %made ]
  %more = icmp slt i64 %i, %wanted
  br i1 %more, label %make, label %end
make:
  %number = inttoptr i64 %i to ptr
  %failed = call i32 @pthread_create(ptr %id, ptr null, ptr @lib.thread, ptr %number)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %made, label %end
made:
  %which = load i64, ptr %id
  %d = call i32 @pthread_detach(i64 %which)
  %i1 = add i64 %i, 1
  br label %next
end:
  %r = call i32 @pthread_sigmask(i32 RESTORE, ptr %old, ptr null)
  %count = trunc i64 %i to i32
  %pthreads = getelementptr i8, ptr @autosched_pool, i64 THREADS_OFFSET
  store atomic i32 %count, ptr %pthreads release, align 4
  br label %done
done:
  ret void
}
"""


def threads_ir(wanted: int) -> str:
    """The assembly for a library whose kernels were tuned for at most `wanted` threads."""
    text = _NUMBER + _FORK + _START
    block, restore = (0, 2) if sys.platform == "linux" else (1, 3)  # SIG_BLOCK, SIG_SETMASK
    constants = {
        "THREADS_OFFSET": THREADS_OFFSET,
        "POOL_BYTES": POOL_BYTES,
        "WANTED": wanted,
        "MOST": MAX_THREADS,
        "BLOCK": block,
        "RESTORE": restore,
    }
    for name, value in constants.items():
        text = text.replace(name, str(value))
    return text_ir("lib.variable", "AUTOSCHED_NUM_THREADS") + "\n" + quota_ir() + text
