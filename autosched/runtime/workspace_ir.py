"""LLVM assembly of workspace memory for kernels: aligned to 64 bytes, cached between calls.

Fresh pages take longer than most kernels. So freed blocks stay in a table of 64 slots (pointer,
bytes, in use) under a spin lock, and are reused for requests of at least half their size. If more
than 256 MiB would be held, unused blocks are first returned to the C library. A block that finds no
empty slot is returned as soon as it is freed.

`void @autosched_workspace_forget()` is for the child of a fork, which has only the forking thread.
Blocks that other threads used become unused, and a lock that one of them held is released. As that
thread may have been changing the table, the table is then emptied.
"""

from __future__ import annotations

CACHE_BYTES = 256 * 1024 * 1024
_TABLE_BYTES = 64 * 24

WORKSPACE_IR = """
%block = type { ptr, i64, i64 }
@run.blocks = private global [64 x %block] zeroinitializer, align 64
@run.blocks_lock = private global i32 0, align 64
@run.blocks_bytes = private global i64 0

declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)

define private void @run.lock_blocks() {
entry:
  br label %try
try:
  %pair = cmpxchg ptr @run.blocks_lock, i32 0, i32 1 acquire monotonic, align 4
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %done, label %wait
wait:
  call void @run.relax()
  br label %try
done:
  ret void
}

define private void @run.unlock_blocks() {
  store atomic i32 0, ptr @run.blocks_lock release, align 4
  ret void
}

define private void @run.drop_unused_blocks() {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %step ]
  %slot = getelementptr [64 x %block], ptr @run.blocks, i64 0, i64 %i
  %psize = getelementptr %block, ptr %slot, i32 0, i32 1
  %pused = getelementptr %block, ptr %slot, i32 0, i32 2
  %pointer = load ptr, ptr %slot
  %used = load i64, ptr %pused
  %idle = icmp eq i64 %used, 0
  br i1 %idle, label %drop, label %step
drop:
  call void @free(ptr %pointer)
  %size = load i64, ptr %psize
  %total = load i64, ptr @run.blocks_bytes
  %rest = sub i64 %total, %size
  store i64 %rest, ptr @run.blocks_bytes
  store ptr null, ptr %slot
  store i64 0, ptr %psize
  br label %step
step:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 64
  br i1 %more, label %loop, label %done
done:
  ret void
}

define ptr @autosched_workspace_alloc(i64 %asked) {
entry:
  %padded = add i64 %asked, 64
  %size = and i64 %padded, -64
  %limit = mul i64 %size, 2
  call void @run.lock_blocks()
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %step ]
  %slot = getelementptr [64 x %block], ptr @run.blocks, i64 0, i64 %i
  %psize = getelementptr %block, ptr %slot, i32 0, i32 1
  %pused = getelementptr %block, ptr %slot, i32 0, i32 2
  %have = load i64, ptr %psize
  %used = load i64, ptr %pused
  %idle = icmp eq i64 %used, 0
  %enough = icmp uge i64 %have, %size
  %small = icmp ule i64 %have, %limit
  %fits1 = and i1 %idle, %enough
  %fits = and i1 %fits1, %small
  br i1 %fits, label %take, label %step
take:
  store i64 1, ptr %pused
  %known = load ptr, ptr %slot
  call void @run.unlock_blocks()
  ret ptr %known
step:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 64
  br i1 %more, label %loop, label %fresh
fresh:
  %total = load i64, ptr @run.blocks_bytes
  %after = add i64 %total, %size
  %over = icmp ugt i64 %after, CACHE_BYTES
  br i1 %over, label %drop, label %get
drop:
  call void @run.drop_unused_blocks()
  br label %get
get:
  %new = call ptr @aligned_alloc(i64 64, i64 %size)
  %missing = icmp eq ptr %new, null
  br i1 %missing, label %done, label %find
find:
  %j = phi i64 [ 0, %get ], [ %jnext, %fstep ]
  %fslot = getelementptr [64 x %block], ptr @run.blocks, i64 0, i64 %j
  %fp = load ptr, ptr %fslot
  %free = icmp eq ptr %fp, null
  br i1 %free, label %keep, label %fstep
keep:
  %fsize = getelementptr %block, ptr %fslot, i32 0, i32 1
  %fused = getelementptr %block, ptr %fslot, i32 0, i32 2
  store ptr %new, ptr %fslot
  store i64 %size, ptr %fsize
  store i64 1, ptr %fused
  %sum = load i64, ptr @run.blocks_bytes
  %grown = add i64 %sum, %size
  store i64 %grown, ptr @run.blocks_bytes
  br label %done
fstep:
  %jnext = add i64 %j, 1
  %jmore = icmp ult i64 %jnext, 64
  br i1 %jmore, label %find, label %done
done:
  call void @run.unlock_blocks()
  ret ptr %new
}

define void @autosched_workspace_free(ptr %pointer) {
entry:
  %nothing = icmp eq ptr %pointer, null
  br i1 %nothing, label %done, label %search
search:
  call void @run.lock_blocks()
  br label %loop
loop:
  %i = phi i64 [ 0, %search ], [ %next, %step ]
  %slot = getelementptr [64 x %block], ptr @run.blocks, i64 0, i64 %i
  %here = load ptr, ptr %slot
  %same = icmp eq ptr %here, %pointer
  br i1 %same, label %found, label %step
found:
  %pused = getelementptr %block, ptr %slot, i32 0, i32 2
  store i64 0, ptr %pused
  call void @run.unlock_blocks()
  br label %done
step:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 64
  br i1 %more, label %loop, label %unknown
unknown:
  call void @run.unlock_blocks()
  call void @free(ptr %pointer)
  br label %done
done:
  ret void
}

define void @autosched_workspace_forget() {
entry:
  %held = load atomic i32, ptr @run.blocks_lock acquire, align 4
  %torn = icmp ne i32 %held, 0
  br i1 %torn, label %empty, label %loop
empty:
  call void @llvm.memset.p0.i64(ptr @run.blocks, i8 0, i64 TABLE_BYTES, i1 false)
  store i64 0, ptr @run.blocks_bytes
  call void @run.unlock_blocks()
  ret void
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pused = getelementptr [64 x %block], ptr @run.blocks, i64 0, i64 %i, i32 2
  store i64 0, ptr %pused
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 64
  br i1 %more, label %loop, label %done
done:
  ret void
}
""".replace("CACHE_BYTES", str(CACHE_BYTES)).replace("TABLE_BYTES", str(_TABLE_BYTES))
