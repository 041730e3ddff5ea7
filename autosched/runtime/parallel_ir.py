"""LLVM assembly of the worker pool: launching a loop and the worker's life.

The pool is one global; its words that different threads write are on cache lines of their own:

| byte | word | written by |
|---|---|---|
| 0 | epoch: rises by one with each loop and at the end | launcher |
| 64 | pending: workers that have not finished this loop | all |
| 128 | function, environment, begin, end (8 bytes each), threads (4) | launcher |
| 192 | busy: 1 while a loop runs; a loop launched meanwhile (nested) runs serially | launcher |
| 256 | sleepers: workers in the kernel, which the launcher must wake | workers |
| 320 | waiting: 1 when the launcher sleeps until pending is 0 | launcher |
| 384 | stop: 1 when workers must return | Python |

Each side writes its word and then reads the other's, both sequentially consistent, so no wake-up is
lost. A worker looks for work about 50 microseconds before it sleeps; the launcher waits for its
workers about a millisecond before it sleeps. Static shares: thread t of n runs
[begin + len * t / n, begin + len * (t + 1) / n).
"""

from __future__ import annotations

POOL_BYTES = 448
THREADS_OFFSET = 160
EPOCH_OFFSET = 0
STOP_OFFSET = 384

WORKER_SPINS = 1000
LAUNCHER_SPINS = 20000

POOL_IR = """
@autosched_pool = global [448 x i8] zeroinitializer, align 64

define private void @run_share(i64 %thread) {
  %pf = getelementptr i8, ptr @autosched_pool, i64 128
  %pe = getelementptr i8, ptr @autosched_pool, i64 136
  %pb = getelementptr i8, ptr @autosched_pool, i64 144
  %pn = getelementptr i8, ptr @autosched_pool, i64 152
  %pt = getelementptr i8, ptr @autosched_pool, i64 160
  %function = load ptr, ptr %pf
  %env = load ptr, ptr %pe
  %begin = load i64, ptr %pb
  %end = load i64, ptr %pn
  %threads32 = load i32, ptr %pt
  %threads = zext i32 %threads32 to i64
  %length = sub i64 %end, %begin
  %after = add i64 %thread, 1
  %m1 = mul i64 %length, %thread
  %m2 = mul i64 %length, %after
  %d1 = udiv i64 %m1, %threads
  %d2 = udiv i64 %m2, %threads
  %first = add i64 %begin, %d1
  %last = add i64 %begin, %d2
  %some = icmp slt i64 %first, %last
  br i1 %some, label %run, label %done
run:
  call void %function(ptr %env, i64 %first, i64 %last)
  br label %done
done:
  ret void
}

define void @autosched_parallel_launch(ptr %function, ptr %env, i64 %begin, i64 %end) {
entry:
  %ppending = getelementptr i8, ptr @autosched_pool, i64 64
  %pf = getelementptr i8, ptr @autosched_pool, i64 128
  %pe = getelementptr i8, ptr @autosched_pool, i64 136
  %pb = getelementptr i8, ptr @autosched_pool, i64 144
  %pn = getelementptr i8, ptr @autosched_pool, i64 152
  %pt = getelementptr i8, ptr @autosched_pool, i64 160
  %pbusy = getelementptr i8, ptr @autosched_pool, i64 192
  %psleepers = getelementptr i8, ptr @autosched_pool, i64 256
  %pwaiting = getelementptr i8, ptr @autosched_pool, i64 320
  %length = sub i64 %end, %begin
  %empty = icmp slt i64 %length, 1
  br i1 %empty, label %done, label %some
some:
  %threads = load atomic i32, ptr %pt monotonic, align 4
  %alone = icmp slt i32 %threads, 2
  %single = icmp eq i64 %length, 1
  %direct = or i1 %alone, %single
  br i1 %direct, label %serial, label %try
try:
  %pair = cmpxchg ptr %pbusy, i32 0, i32 1 acq_rel monotonic, align 4
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %start, label %serial
serial:
  call void %function(ptr %env, i64 %begin, i64 %end)
  br label %done
start:
  store ptr %function, ptr %pf
  store ptr %env, ptr %pe
  store i64 %begin, ptr %pb
  store i64 %end, ptr %pn
  %workers = sub i32 %threads, 1
  store atomic i32 %workers, ptr %ppending release, align 4
  %old = atomicrmw add ptr @autosched_pool, i32 1 seq_cst
  %asleep = load atomic i32, ptr %psleepers seq_cst, align 4
  %wake = icmp sgt i32 %asleep, 0
  br i1 %wake, label %waking, label %own
waking:
  call void @futex_wake(ptr @autosched_pool)
  br label %own
own:
  call void @run_share(i64 0)
  br label %spin
spin:
  %k = phi i32 [ 0, %own ], [ %k1, %pause ]
  %left = load atomic i32, ptr %ppending acquire, align 4
  %finished = icmp eq i32 %left, 0
  br i1 %finished, label %release, label %count
count:
  %k1 = add i32 %k, 1
  %tired = icmp sgt i32 %k, 20000
  br i1 %tired, label %sleep, label %pause
pause:
  call void @relax()
  br label %spin
sleep:
  store atomic i32 1, ptr %pwaiting seq_cst, align 4
  %still = load atomic i32, ptr %ppending seq_cst, align 4
  %over = icmp eq i32 %still, 0
  br i1 %over, label %awake, label %wait
wait:
  call void @futex_wait(ptr %ppending, i32 %still)
  br label %sleep
awake:
  store atomic i32 0, ptr %pwaiting seq_cst, align 4
  br label %release
release:
  store atomic i32 0, ptr %pbusy release, align 4
  br label %done
done:
  ret void
}

define void @autosched_wake_all() {
  call void @futex_wake(ptr @autosched_pool)
  ret void
}

define void @autosched_worker(i64 %thread, i32 %epoch) {
entry:
  %ppending = getelementptr i8, ptr @autosched_pool, i64 64
  %psleepers = getelementptr i8, ptr @autosched_pool, i64 256
  %pwaiting = getelementptr i8, ptr @autosched_pool, i64 320
  %pstop = getelementptr i8, ptr @autosched_pool, i64 384
  br label %idle
idle:
  %last = phi i32 [ %epoch, %entry ], [ %now, %finish ], [ %last, %slept ]
  br label %spin
spin:
  %k = phi i32 [ 0, %idle ], [ %k1, %pause ]
  %now = load atomic i32, ptr @autosched_pool acquire, align 4
  %same = icmp eq i32 %now, %last
  br i1 %same, label %count, label %work
count:
  %k1 = add i32 %k, 1
  %tired = icmp sgt i32 %k, 1000
  br i1 %tired, label %sleep, label %pause
pause:
  call void @relax()
  br label %spin
sleep:
  %s1 = atomicrmw add ptr %psleepers, i32 1 seq_cst
  call void @futex_wait(ptr @autosched_pool, i32 %last)
  %s2 = atomicrmw sub ptr %psleepers, i32 1 seq_cst
  br label %slept
slept:
  br label %idle
work:
  %stop = load atomic i32, ptr %pstop acquire, align 4
  %ends = icmp ne i32 %stop, 0
  br i1 %ends, label %return, label %share
share:
  call void @run_share(i64 %thread)
  %before = atomicrmw sub ptr %ppending, i32 1 seq_cst
  %lastone = icmp eq i32 %before, 1
  br i1 %lastone, label %look, label %finish
look:
  %waiting = load atomic i32, ptr %pwaiting seq_cst, align 4
  %tell = icmp ne i32 %waiting, 0
  br i1 %tell, label %wake, label %finish
wake:
  call void @futex_wake(ptr %ppending)
  br label %finish
finish:
  br label %idle
return:
  ret void
}
""".replace("20000", str(LAUNCHER_SPINS)).replace("i32 %k, 1000\n", f"i32 %k, {WORKER_SPINS}\n")
