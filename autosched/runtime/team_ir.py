"""LLVM assembly that runs a parallel loop on the threads of an OpenMP runtime.

The threads of such a runtime look for work for milliseconds after each region of theirs (8 with
libgomp on a Zen 4), on the same cores as the pool's. A process that computes with both has one of
them wait for the other; a loop that is a region itself finds the threads awake. `autosched_team`
holds three functions, or null where there is no such runtime: `GOMP_parallel`, which runs a
function in every thread of a team (GCC's and LLVM's runtimes have it), `omp_get_thread_num` and
`omp_get_max_threads`. A team of another size than the one that the runtime holds would make it
start and end threads, so loops of other numbers of threads are left to the workers; and all loops
while the fourth word is not 0. Where the runtime gives fewer threads than were asked for, those
that are there take all shares.
"""

from __future__ import annotations

from autosched.runtime.processors_ir import CPU_OFFSET

MEMBER_OFFSET = CPU_OFFSET + 8
DECLINED_OFFSET = 24

LAUNCH_BY_TEAM = """
  %parallel = load atomic ptr, ptr @autosched_team monotonic, align 8
  %pdeclined = getelementptr i8, ptr @autosched_team, i64 DECLINED_OFFSET
  %declined = load atomic i32, ptr %pdeclined monotonic, align 4
  %accepted = icmp eq i32 %declined, 0
  %there = icmp ne ptr %parallel, null
  %usable = and i1 %accepted, %there
  br i1 %usable, label %ask, label %workers
ask:
  %pmost = getelementptr ptr, ptr @autosched_team, i64 2
  %most_threads = load ptr, ptr %pmost
  %most = call i32 %most_threads()
  %alike = icmp eq i32 %most, %threads
  br i1 %alike, label %team, label %workers
team:
  call void %parallel(ptr @run.member, ptr null, i32 %threads, i32 0)
  br label %release
""".replace("DECLINED_OFFSET", str(DECLINED_OFFSET))

TEAM_IR = """
@autosched_team = global [4 x ptr] zeroinitializer, align 8

define private void @run.member(ptr %ignored) {
entry:
  %pnumber = getelementptr ptr, ptr @autosched_team, i64 1
  %thread_number = load ptr, ptr %pnumber
  %number = call i32 %thread_number()
  %thread = zext i32 %number to i64
  %launches = icmp eq i32 %number, 0
  br i1 %launches, label %own, label %other
own:
  call void @run.run_shares(i64 0)
  ret void
other:
  %line = call ptr @run.share_word(i64 %thread)
  %pmember = getelementptr i8, ptr %line, i64 MEMBER_OFFSET
  %self = call i64 @pthread_self()
  store atomic i64 %self, ptr %pmember monotonic, align 8
  %pmode = getelementptr i8, ptr @autosched_pool, i64 164
  %mode = load i32, ptr %pmode
  %before = call i32 @run.float_mode()
  %kept = icmp eq i32 %mode, %before
  br i1 %kept, label %run, label %change
change:
  call void @run.use_float_mode(i32 %mode)
  br label %run
run:
  call void @run.run_shares(i64 %thread)
  br i1 %kept, label %leave, label %restore
restore:
  call void @run.use_float_mode(i32 %before)
  br label %leave
leave:
  store atomic i64 0, ptr %pmember monotonic, align 8
  ret void
}
""".replace("MEMBER_OFFSET", str(MEMBER_OFFSET))
