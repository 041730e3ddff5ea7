"""LLVM assembly of the worker pool: the launch of a loop and the loop of a worker.

The pool is one global. Words that different threads write are on separate cache lines:

| byte | word | written by |
|---|---|---|
| 0 | epoch: incremented by each loop and at the end; workers wait for it to change | launcher |
| 64 | members: bit 30 while the loop is open, plus the number of workers inside it | all |
| 128 | function, environment, begin, end (8 bytes each), threads, float mode (4 each) | launcher |
| 168 | the launching thread, as pthread_self has it; 0 while no loop runs | launcher |
| 192 | busy: 1 while a loop runs or the pool is resized; loops launched then run serially | both |
| 256 | sleepers: number of workers asleep in the system, which the launcher must wake | workers |
| 320 | waiting: 1 when the launcher sleeps until the loop is empty | launcher |
| 384 | stop: 1 when workers must return | Python |
| 448 + 64 t | next: the first iteration of thread t's share not yet taken | all |
| 456 + 64 t | where thread t was last seen: its processor plus one | thread t |
| 464 + 64 t | the thread of a team (`team_ir.py`) in share t, as pthread_self has it; else 0 | it |

A thread takes its own share in eighths, and then what is left of the others' shares. So a core that
is busy with something else delays a loop little, while each thread's data stays in its cache from
call to call. A worker enters an open loop by counting itself among the members. The launcher closes
the loop when no iterations are left and waits for the members inside, never for a worker that has
not entered. Each side writes its word and then reads the other's, both sequentially consistent, so
no wake-up is lost. Workers spin for 25 microseconds before they sleep (Zen 4; about 50 where a
pause takes as long as Intel's); the launcher spins twenty times as long for its members.
"""

from __future__ import annotations

from autosched.runtime.processors_ir import MASK_BYTES, processors_ir
from autosched.runtime.team_ir import LAUNCH_BY_TEAM, TEAM_IR
from autosched.target import MAX_THREADS

THREADS_OFFSET = 160
EPOCH_OFFSET = 0
STOP_OFFSET = 384
LAUNCHER_OFFSET = 168
LINES_OFFSET = 448
LINE_BYTES = 64
POOL_BYTES = LINES_OFFSET + LINE_BYTES * MAX_THREADS

WORKER_SPINS = 1000
LAUNCHER_SPINS = 20000

_SHARE = """
@autosched_pool = global [POOL_BYTES x i8] zeroinitializer, align 64

define private i64 @run.share_bound(i64 %thread) {
  %pb = getelementptr i8, ptr @autosched_pool, i64 144
  %pn = getelementptr i8, ptr @autosched_pool, i64 152
  %pt = getelementptr i8, ptr @autosched_pool, i64 160
  %begin = load i64, ptr %pb
  %end = load i64, ptr %pn
  %threads32 = load i32, ptr %pt
  %threads = zext i32 %threads32 to i64
  %length = sub i64 %end, %begin
  %scaled = mul i64 %length, %thread
  %offset = udiv i64 %scaled, %threads
  %bound = add i64 %begin, %offset
  ret i64 %bound
}

define private ptr @run.share_word(i64 %thread) {
  %scaled = mul i64 %thread, 64
  %offset = add i64 %scaled, 448
  %word = getelementptr i8, ptr @autosched_pool, i64 %offset
  ret ptr %word
}

define private void @run.run_shares(i64 %thread) {
entry:
  %pf = getelementptr i8, ptr @autosched_pool, i64 128
  %pe = getelementptr i8, ptr @autosched_pool, i64 136
  %pt = getelementptr i8, ptr @autosched_pool, i64 160
  %function = load ptr, ptr %pf
  %env = load ptr, ptr %pe
  %threads32 = load i32, ptr %pt
  %threads = zext i32 %threads32 to i64
  br label %victims
victims:
  %v = phi i64 [ 0, %entry ], [ %v1, %done ]
  %sum = add i64 %thread, %v
  %victim = urem i64 %sum, %threads
  %after = add i64 %victim, 1
  %first = call i64 @run.share_bound(i64 %victim)
  %last = call i64 @run.share_bound(i64 %after)
  %word = call ptr @run.share_word(i64 %victim)
  %size = sub i64 %last, %first
  %rounded = add i64 %size, 7
  %chunk = udiv i64 %rounded, 8
  br label %look
look:
  %seen = load atomic i64, ptr %word monotonic, align 8
  %some = icmp slt i64 %seen, %last
  br i1 %some, label %take, label %done
take:
  %from = atomicrmw add ptr %word, i64 %chunk monotonic
  %got = icmp slt i64 %from, %last
  br i1 %got, label %run, label %done
run:
  %to = add i64 %from, %chunk
  %over = icmp sgt i64 %to, %last
  %stop = select i1 %over, i64 %last, i64 %to
  call void %function(ptr %env, i64 %from, i64 %stop)
  br label %look
done:
  %v1 = add i64 %v, 1
  %more = icmp ult i64 %v1, %threads
  br i1 %more, label %victims, label %return
return:
  ret void
}
"""

_LAUNCH = """
declare i64 @pthread_self()

define void @autosched_parallel_launch(ptr %function, ptr %env, i64 %begin, i64 %end) {
entry:
  %pmembers = getelementptr i8, ptr @autosched_pool, i64 64
  %pf = getelementptr i8, ptr @autosched_pool, i64 128
  %pe = getelementptr i8, ptr @autosched_pool, i64 136
  %pb = getelementptr i8, ptr @autosched_pool, i64 144
  %pn = getelementptr i8, ptr @autosched_pool, i64 152
  %pt = getelementptr i8, ptr @autosched_pool, i64 160
  %pmode = getelementptr i8, ptr @autosched_pool, i64 164
  %plauncher = getelementptr i8, ptr @autosched_pool, i64 LAUNCHER_OFFSET
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
  br i1 %won, label %prepare, label %serial
serial:
  call void %function(ptr %env, i64 %begin, i64 %end)
  br label %done
prepare:
  %mode = call i32 @run.float_mode()
  store i32 %mode, ptr %pmode
  %self = call i64 @pthread_self()
  store atomic i64 %self, ptr %plauncher monotonic, align 8
  store ptr %function, ptr %pf
  store ptr %env, ptr %pe
  store i64 %begin, ptr %pb
  store i64 %end, ptr %pn
  %wide = zext i32 %threads to i64
  br label %words
words:
  %t = phi i64 [ 0, %prepare ], [ %t1, %words ]
  %first = call i64 @run.share_bound(i64 %t)
  %word = call ptr @run.share_word(i64 %t)
  store atomic i64 %first, ptr %word monotonic, align 8
  %t1 = add i64 %t, 1
  %more = icmp ult i64 %t1, %wide
  br i1 %more, label %words, label %start
start:
BY_TEAM
workers:
  %where = call i32 @run.note_processor(i64 0)
  %closed = atomicrmw or ptr %pmembers, i32 1073741824 seq_cst
  %old = atomicrmw add ptr @autosched_pool, i32 1 seq_cst
  %asleep = load atomic i32, ptr %psleepers seq_cst, align 4
  %wake = icmp sgt i32 %asleep, 0
  br i1 %wake, label %waking, label %own
waking:
  call void @run.futex_wake(ptr @autosched_pool)
  br label %own
own:
  call void @run.run_shares(i64 0)
  %open = atomicrmw and ptr %pmembers, i32 -1073741825 seq_cst
  br label %spin
spin:
  %k = phi i32 [ 0, %own ], [ %k1, %pause ]
  %inside = load atomic i32, ptr %pmembers acquire, align 4
  %finished = icmp eq i32 %inside, 0
  br i1 %finished, label %release, label %count
count:
  %k1 = add i32 %k, 1
  %tired = icmp sgt i32 %k, LAUNCHER_SPINS
  br i1 %tired, label %sleep, label %pause
pause:
  call void @run.relax()
  br label %spin
sleep:
  store atomic i32 1, ptr %pwaiting seq_cst, align 4
  %still = load atomic i32, ptr %pmembers seq_cst, align 4
  %over = icmp eq i32 %still, 0
  br i1 %over, label %awake, label %wait
wait:
  call void @run.futex_wait(ptr %pmembers, i32 %still)
  br label %sleep
awake:
  store atomic i32 0, ptr %pwaiting seq_cst, align 4
  br label %release
release:
  store atomic i64 0, ptr %plauncher monotonic, align 8
  store atomic i32 0, ptr %pbusy release, align 4
  br label %done
done:
  ret void
}
"""

_WORKER = """
define i32 @autosched_pool_try_lock() {
  %pbusy = getelementptr i8, ptr @autosched_pool, i64 192
  %pair = cmpxchg ptr %pbusy, i32 0, i32 1 acq_rel monotonic, align 4
  %won = extractvalue { i32, i1 } %pair, 1
  %result = zext i1 %won to i32
  ret i32 %result
}

define void @autosched_pool_unlock() {
  %pbusy = getelementptr i8, ptr @autosched_pool, i64 192
  store atomic i32 0, ptr %pbusy release, align 4
  ret void
}

define void @autosched_wake_all() {
  call void @run.futex_wake(ptr @autosched_pool)
  ret void
}

define void @autosched_worker(i64 %thread, i32 %epoch) {
entry:
  %pmembers = getelementptr i8, ptr @autosched_pool, i64 64
  %psleepers = getelementptr i8, ptr @autosched_pool, i64 256
  %pwaiting = getelementptr i8, ptr @autosched_pool, i64 320
  %pstop = getelementptr i8, ptr @autosched_pool, i64 384
  %pthreads = getelementptr i8, ptr @autosched_pool, i64 160
  %pmode = getelementptr i8, ptr @autosched_pool, i64 164
  %all = alloca [MASK_BYTES x i8], align 8
  %set = alloca [MASK_BYTES x i8], align 8
  %float = alloca i32
  store i32 -1, ptr %float  ; no mode
  call void @llvm.memset.p0.i64(ptr %set, i8 0, i64 MASK_BYTES, i1 false)
  br label %idle
idle:
  %last = phi i32 [ %epoch, %entry ], [ %now, %finish ], [ %last, %sleep ]
  %slept = phi i64 [ 1, %entry ], [ 0, %finish ], [ 1, %sleep ]
  br label %spin
spin:
  %k = phi i32 [ 0, %idle ], [ %k1, %pause ]
  %now = load atomic i32, ptr @autosched_pool acquire, align 4
  %same = icmp eq i32 %now, %last
  br i1 %same, label %count, label %work
count:
  %k1 = add i32 %k, 1
  %tired = icmp sgt i32 %k, WORKER_SPINS
  br i1 %tired, label %sleep, label %pause
pause:
  call void @run.relax()
  br label %spin
sleep:
  %s1 = atomicrmw add ptr %psleepers, i32 1 seq_cst
  call void @run.futex_wait(ptr @autosched_pool, i32 %last)
  %s2 = atomicrmw sub ptr %psleepers, i32 1 seq_cst
  br label %idle
work:
  %stop = load atomic i32, ptr %pstop acquire, align 4
  %ends = icmp ne i32 %stop, 0
  br i1 %ends, label %return, label %join
join:
  %entered = atomicrmw add ptr %pmembers, i32 1 seq_cst
  %bit = and i32 %entered, 1073741824
  %open = icmp ne i32 %bit, 0
  br i1 %open, label %place, label %leave
place:
  ; Beside the launcher, or, where it may have been put anew, beside any thread before it.
  %own = call i32 @run.note_processor(i64 %thread)
  %awake = icmp eq i64 %slept, 0
  %before_it = select i1 %awake, i64 1, i64 %thread
  %beside = call i1 @run.beside_another(i64 %before_it, i32 %own)
  br i1 %beside, label %apart, label %share
apart:
  %threads32 = load i32, ptr %pthreads
  %threads = zext i32 %threads32 to i64
  call void @run.move_away(i64 %thread, i64 %threads, ptr %all, ptr %set)
  br label %share
share:
  %mode = load i32, ptr %pmode
  %own_mode = load i32, ptr %float
  %kept = icmp eq i32 %mode, %own_mode
  br i1 %kept, label %run, label %change
change:
  call void @run.use_float_mode(i32 %mode)
  store i32 %mode, ptr %float
  br label %run
run:
  call void @run.run_shares(i64 %thread)
  br label %leave
leave:
  %before = atomicrmw sub ptr %pmembers, i32 1 seq_cst
  %lastone = icmp eq i32 %before, 1
  br i1 %lastone, label %look, label %finish
look:
  %waiting = load atomic i32, ptr %pwaiting seq_cst, align 4
  %tell = icmp ne i32 %waiting, 0
  br i1 %tell, label %wake, label %finish
wake:
  call void @run.futex_wake(ptr %pmembers)
  br label %finish
finish:
  br label %idle
return:
  ret void
}
"""


def pool_ir(with_teams: bool = False) -> str:
    """The pool's functions; `with_teams`, loops may run on the threads of an OpenMP runtime.

    They call run.relax, run.futex_wait, run.futex_wake, run.float_mode and run.use_float_mode.
    """
    by_team = LAUNCH_BY_TEAM if with_teams else "  br label %workers\n"
    text = _SHARE + processors_ir() + _LAUNCH.replace("BY_TEAM\n", by_team) + _WORKER
    text += TEAM_IR if with_teams else ""
    constants = {
        "POOL_BYTES": POOL_BYTES,
        "LAUNCHER_SPINS": LAUNCHER_SPINS,
        "LAUNCHER_OFFSET": LAUNCHER_OFFSET,
        "WORKER_SPINS": WORKER_SPINS,
        "MASK_BYTES": MASK_BYTES,
    }
    for name, value in constants.items():
        text = text.replace(name, str(value))
    return text
