"""LLVM assembly of a library's own part: what C and Python call, around the kernels.

It is compiled for the plainest CPU of the architecture, so that it can say what the kernels need
that a machine lacks. Kernels themselves are functions of slots (`codegen/llvm.py`) in objects of
their own, made exactly as they were when they were measured. For a library NAME:

| function | |
|---|---|
| `i32 SYMBOL(ptr, ...)` | a kernel, one pointer for each array |
| `i32 NAME_run_SYMBOL(ptr slots)` | the same, of an array of pointers |
| `ptr NAME_problem()` | null, or why this machine cannot run the library |
| `ptr NAME_message(i32)` | what a status means |
| `ptr NAME_build()` | which build this is: what is written beside the library names the same |
| `i32 NAME_call(ptr table, ptr args)` | the checked call from Python (`runtime/call_ir.py`) |

All check the CPU at their first call, and start threads when the first parallel kernel runs: as
many as it was tuned for, but no more than this process may use, or AUTOSCHED_NUM_THREADS. Threads
take no signals and end with the process; a forked child starts its own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autosched.export.cpu_features import Bit
from autosched.runtime.native import runtime_ir
from autosched.runtime.parallel_ir import POOL_BYTES, THREADS_OFFSET
from autosched.target import MAX_THREADS

NO_MEMORY, UNFIT, UNSUPPORTED, NO_SHAPE = -1, -2, -3, -4

MESSAGES = {
    0: "done",
    NO_MEMORY: "out of workspace memory",
    UNSUPPORTED: "this machine's CPU cannot run the library",
    NO_SHAPE: "there is no kernel for these shapes",
}


class Entry(NamedTuple):
    """A kernel: its name in C, the symbol of its object, how many arrays it takes, its threads.

    `threads` is 1 without parallel loops.
    """

    symbol: str
    kernel: str
    arrays: int
    threads: int


class Shapes(NamedTuple):
    """A function that chooses among `entries` by the extents of all arrays, which they name."""

    symbol: str
    ranks: Sequence[int]
    entries: Sequence[tuple[str, Sequence[Sequence[int]]]]


def library_ir(
    name: str,
    entries: Sequence[Entry],
    shapes: Sequence[Shapes],
    features: Mapping[str, Bit],
    registers: int,
    build: str = "",
) -> str:
    """The assembly text of a library that calls itself `build`.

    `features` and `registers` are empty where CPUID is not to be asked.
    """
    threads = max((e.threads for e in entries), default=1)
    parts = [runtime_ir().replace("@autosched_call(", f"@{name}_call("), _cpu(features, registers)]
    parts += [_threads(threads), _ready(name), _messages(name)]
    parts += [_text("build", build), f"define ptr @{name}_build() {{\n  ret ptr @build\n}}\n"]
    parts += [_entry(name, entry) for entry in entries]
    parts += [_dispatch(name, each, {e.symbol: e for e in entries}) for each in shapes]
    return "\n".join(parts)


def exported(name: str, entries: Sequence[Entry], shapes: Sequence[Shapes]) -> list[str]:
    """The symbols that users may see."""
    own = [f"{name}_{word}" for word in ("problem", "message", "build", "call")]
    runs = [f"{name}_run_{e.symbol}" for e in entries]
    return [*(e.symbol for e in entries), *(s.symbol for s in shapes), *own, *runs]


def _text(label: str, text: str) -> str:
    data = "".join(f"\\{byte:02X}" for byte in text.encode()) + "\\00"
    return f'@{label} = private constant [{len(text.encode()) + 1} x i8] c"{data}"'


_CPUID = """
declare ptr @strcat(ptr, ptr)

define private i32 @cpu_word(i32 %leaf, i32 %subleaf, i32 %register) {
  %base = and i32 %leaf, -2147483648
  %m = call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"(i32 %base, i32 0)
  %most = extractvalue { i32, i32, i32, i32 } %m, 0
  %known = icmp ule i32 %leaf, %most
  %w = call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"(i32 %leaf, i32 %subleaf)
  %a = extractvalue { i32, i32, i32, i32 } %w, 0
  %b = extractvalue { i32, i32, i32, i32 } %w, 1
  %c = extractvalue { i32, i32, i32, i32 } %w, 2
  %d = extractvalue { i32, i32, i32, i32 } %w, 3
  %is1 = icmp eq i32 %register, 1
  %is2 = icmp eq i32 %register, 2
  %is3 = icmp eq i32 %register, 3
  %ab = select i1 %is1, i32 %b, i32 %a
  %abc = select i1 %is2, i32 %c, i32 %ab
  %abcd = select i1 %is3, i32 %d, i32 %abc
  %found = select i1 %known, i32 %abcd, i32 0
  ret i32 %found
}

define private i32 @saved_registers() {
entry:
  %word = call i32 @cpu_word(i32 1, i32 0, i32 2)
  %bit = and i32 %word, 134217728
  %none = icmp eq i32 %bit, 0
  br i1 %none, label %no, label %ask
no:
  ret i32 0
ask:
  %x = call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx}"(i32 0)
  %low = extractvalue { i32, i32 } %x, 0
  ret i32 %low
}
"""  # noqa: E501 - one instruction a line

_START = "this library needs what this machine's CPU or system lacks:"


def _cpu(features: Mapping[str, Bit], registers: int) -> str:
    """`ptr @look_at_cpu()`: null, or the message that names what is missing."""
    if not features and not registers:
        return "define private ptr @look_at_cpu() {\n  ret ptr null\n}\n"
    names = {name: f"feature.{i}" for i, name in enumerate(features)}
    system = " AVX registers (saved by the system)"
    room = sum(len(name) + 1 for name in names) + len(_START) + len(system) + 1
    lines = [_text(label, f" {name}") for name, label in names.items()]
    lines += [_text("start", _START), _text("system", system)]
    lines.append(f"@missing = private global [{room} x i8] zeroinitializer")
    lines += ["define private ptr @look_at_cpu() {", "entry:"]
    lines.append("  %all = call ptr @strcat(ptr @missing, ptr @start)")
    lines.append("  br label %test.0")
    count = 0
    tests = [(f"feature.{i}", bit) for i, bit in enumerate(features.values())]
    for label, bit in tests:
        register = f"i32 {bit.leaf}, i32 {bit.subleaf}, i32 {bit.register}"
        lines += [
            f"test.{count}:",
            f"  %before.{count} = phi i32 [ 0, %entry ]"
            if not count
            else f"  %before.{count} = phi i32 [ %before.{count - 1}, %test.{count - 1} ], "
            f"[ 1, %add.{count - 1} ]",
            f"  %word.{count} = call i32 @cpu_word({register})",
            f"  %set.{count} = and i32 %word.{count}, {_signed(1 << bit.bit)}",
            f"  %has.{count} = icmp ne i32 %set.{count}, 0",
            f"  br i1 %has.{count}, label %test.{count + 1}, label %add.{count}",
            f"add.{count}:",
            f"  %added.{count} = call ptr @strcat(ptr @missing, ptr @{label})",
            f"  br label %test.{count + 1}",
        ]
        count += 1
    last = (
        f"  %before.{count} = phi i32 [ %before.{count - 1}, %test.{count - 1} ], "
        f"[ 1, %add.{count - 1} ]"
        if count
        else "  %before.0 = phi i32 [ 0, %entry ]"
    )
    lines += [
        f"test.{count}:",
        last,
        "  %saved = call i32 @saved_registers()",
        f"  %kept = and i32 %saved, {registers}",
        f"  %enough = icmp eq i32 %kept, {registers}",
        "  br i1 %enough, label %done, label %system.add",
        "system.add:",
        "  %added = call ptr @strcat(ptr @missing, ptr @system)",
        "  br label %done",
        "done:",
        f"  %lacks = phi i32 [ %before.{count}, %test.{count} ], [ 1, %system.add ]",
        "  %bad = icmp ne i32 %lacks, 0",
        "  %text = select i1 %bad, ptr @missing, ptr null",
        "  ret ptr %text",
        "}",
    ]
    return _CPUID + "\n".join(lines) + "\n"


def _signed(word: int) -> int:
    return word - (1 << 32) if word >= 1 << 31 else word


def _threads(wanted: int) -> str:
    """`void @start_threads()`: the pool of parallel loops, started once in a process."""
    linux = sys.platform == "linux"
    affinity = (
        "  %got = call i32 @sched_getaffinity(i32 0, i64 1024, ptr %mask)\n"
        "  %failed = icmp slt i32 %got, 0\n"
        "  br i1 %failed, label %counted, label %bits\n"
        "bits:\n"
        "  %at = phi i64 [ 0, %entry ], [ %at1, %bits ]\n"
        "  %sum = phi i64 [ 0, %entry ], [ %sum1, %bits ]\n"
        "  %pword = getelementptr i64, ptr %mask, i64 %at\n"
        "  %cpus = load i64, ptr %pword\n"
        "  %ones = call i64 @llvm.ctpop.i64(i64 %cpus)\n"
        "  %sum1 = add i64 %sum, %ones\n"
        "  %at1 = add i64 %at, 1\n"
        "  %rest = icmp ult i64 %at1, 128\n"
        "  br i1 %rest, label %bits, label %counted\n"
        "counted:\n"
        "  %allowed = phi i64 [ 1, %entry ], [ %sum1, %bits ]\n"
        if linux
        else "  br label %counted\ncounted:\n  %allowed = call i64 @sysconf(i32 58)\n"
    )
    declared = (
        "declare i32 @sched_getaffinity(i32, i64, ptr)\ndeclare i64 @llvm.ctpop.i64(i64)\n"
        if linux
        else "declare i64 @sysconf(i32)\n"
    )
    block, restore = (0, 2) if linux else (1, 3)
    return f"""{declared}
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_atfork(ptr, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare ptr @getenv(ptr)
declare i64 @strtol(ptr, ptr, i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
{_text("variable", "AUTOSCHED_NUM_THREADS")}
@starting = private global i32 0
@watched = private global i32 0

define private ptr @thread(ptr %number) {{
  %index = ptrtoint ptr %number to i64
  call void @autosched_worker(i64 %index, i32 0)
  ret ptr null
}}

define private void @after_fork() {{
  call void @llvm.memset.p0.i64(ptr @autosched_pool, i8 0, i64 {POOL_BYTES}, i1 false)
  store atomic i32 0, ptr @starting release, align 4
  ret void
}}

define private i64 @threads_to_use() {{
entry:
  %mask = alloca [128 x i64], align 8
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 1024, i1 false)
{affinity}  %few = icmp slt i64 %allowed, {wanted}
  %usual = select i1 %few, i64 %allowed, i64 {wanted}
  %set = call ptr @getenv(ptr @variable)
  %unset = icmp eq ptr %set, null
  br i1 %unset, label %done, label %read
read:
  %number = call i64 @strtol(ptr %set, ptr null, i32 10)
  %sensible = icmp sgt i64 %number, 0
  %asked = select i1 %sensible, i64 %number, i64 %usual
  br label %done
done:
  %all = phi i64 [ %usual, %counted ], [ %asked, %read ]
  %over = icmp sgt i64 %all, {MAX_THREADS}
  %number1 = select i1 %over, i64 {MAX_THREADS}, i64 %all
  ret i64 %number1
}}

define private void @start_threads() {{
entry:
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  %id = alloca i64, align 8
  %pair = cmpxchg ptr @starting, i32 0, i32 1 acq_rel monotonic, align 4
  %won = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %won, label %first, label %done
first:
  %seen = load i32, ptr @watched
  %new = icmp eq i32 %seen, 0
  br i1 %new, label %watch, label %begin
watch:
  %w = call i32 @pthread_atfork(ptr null, ptr null, ptr @after_fork)
  store i32 1, ptr @watched
  br label %begin
begin:
  %wanted = call i64 @threads_to_use()
  %f = call i32 @sigfillset(ptr %all)
  %b = call i32 @pthread_sigmask(i32 {block}, ptr %all, ptr %old)
  br label %next
next:
  %i = phi i64 [ 1, %begin ], [ %i1, %made ]
  %more = icmp slt i64 %i, %wanted
  br i1 %more, label %make, label %end
make:
  %number = inttoptr i64 %i to ptr
  %failed = call i32 @pthread_create(ptr %id, ptr null, ptr @thread, ptr %number)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %made, label %end
made:
  %which = load i64, ptr %id
  %d = call i32 @pthread_detach(i64 %which)
  %i1 = add i64 %i, 1
  br label %next
end:
  %r = call i32 @pthread_sigmask(i32 {restore}, ptr %old, ptr null)
  %count = trunc i64 %i to i32
  %pthreads = getelementptr i8, ptr @autosched_pool, i64 {THREADS_OFFSET}
  store atomic i32 %count, ptr %pthreads release, align 4
  br label %done
done:
  ret void
}}
"""


def _ready(name: str) -> str:
    """`i32 @ready(i32 threads)`: 0, or UNSUPPORTED. Threads run then, if it asks for some.

    The state is 0 before the CPU was looked at, 1 meanwhile, 2 when it is fine, 3 when not.
    """
    return f"""
@state = private global i32 0
@problem = private global ptr null

define private i32 @look() {{
entry:
  %pair = cmpxchg ptr @state, i32 0, i32 1 acq_rel acquire, align 4
  %won = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %won, label %first, label %wait
first:
  %text = call ptr @look_at_cpu()
  store ptr %text, ptr @problem
  %none = icmp eq ptr %text, null
  %found = select i1 %none, i32 2, i32 3
  store atomic i32 %found, ptr @state release, align 4
  ret i32 %found
wait:
  %now = load atomic i32, ptr @state acquire, align 4
  %busy = icmp ult i32 %now, 2
  br i1 %busy, label %wait, label %known
known:
  ret i32 %now
}}

define private i32 @ready(i32 %threads) {{
entry:
  %state = load atomic i32, ptr @state acquire, align 4
  %fine = icmp eq i32 %state, 2
  br i1 %fine, label %good, label %unknown
unknown:
  %found = call i32 @look()
  %now = icmp eq i32 %found, 2
  br i1 %now, label %good, label %bad
bad:
  ret i32 {UNSUPPORTED}
good:
  %several = icmp ugt i32 %threads, 1
  br i1 %several, label %pool, label %done
pool:
  %pthreads = getelementptr i8, ptr @autosched_pool, i64 {THREADS_OFFSET}
  %have = load atomic i32, ptr %pthreads acquire, align 4
  %none = icmp eq i32 %have, 0
  br i1 %none, label %start, label %done
start:
  call void @start_threads()
  br label %done
done:
  ret i32 0
}}

define ptr @{name}_problem() {{
  %found = call i32 @look()
  %text = load ptr, ptr @problem
  ret ptr %text
}}
"""


def _messages(name: str) -> str:
    lines = [_text(f"message.{-status}", text) for status, text in MESSAGES.items()]
    lines += [_text("message.other", "an assertion of the kernel failed")]
    lines += [f"define ptr @{name}_message(i32 %status) {{", "entry:"]
    lines.append("  switch i32 %status, label %other [")
    lines += [f"    i32 {status}, label %is.{-status}" for status in MESSAGES]
    lines.append("  ]")
    for status in MESSAGES:
        lines += [f"is.{-status}:", f"  ret ptr @message.{-status}"]
    lines += ["other:", "  ret ptr @message.other", "}"]
    return "\n".join(lines) + "\n"


def _entry(name: str, entry: Entry) -> str:
    parameters = ", ".join(f"ptr %a{i}" for i in range(entry.arrays))
    stores = "".join(
        f"  %s{i} = getelementptr ptr, ptr %slots, i64 {i}\n  store ptr %a{i}, ptr %s{i}\n"
        for i in range(entry.arrays)
    )
    return f"""
declare i32 @{entry.kernel}(ptr)

define i32 @{name}_run_{entry.symbol}(ptr %slots) {{
entry:
  %not = call i32 @ready(i32 {entry.threads})
  %fine = icmp eq i32 %not, 0
  br i1 %fine, label %run, label %refuse
run:
  %status = call i32 @{entry.kernel}(ptr %slots)
  ret i32 %status
refuse:
  ret i32 %not
}}

define i32 @{entry.symbol}({parameters}) {{
  %slots = alloca ptr, i64 {entry.arrays}
{stores}  %status = call i32 @{name}_run_{entry.symbol}(ptr %slots)
  ret i32 %status
}}
"""


def _dispatch(name: str, shapes: Shapes, entries: Mapping[str, Entry]) -> str:
    """The extents of each array are compared with those of one kernel after the other."""
    arrays = range(len(shapes.ranks))
    parameters = ", ".join(f"ptr %a{i}, ptr %e{i}" for i in arrays)
    lines = [f"define i32 @{shapes.symbol}({parameters}) {{", "entry:"]
    loads = [(i, d) for i in arrays for d in range(shapes.ranks[i])]
    for i, d in loads:
        lines.append(f"  %p{i}.{d} = getelementptr i64, ptr %e{i}, i64 {d}")
        lines.append(f"  %x{i}.{d} = load i64, ptr %p{i}.{d}")
    lines.append("  br label %try.0")
    given = ", ".join(f"ptr %a{i}" for i in arrays)
    for number, (symbol, extents) in enumerate(shapes.entries):
        assert entries[symbol].arrays == len(shapes.ranks)
        lines.append(f"try.{number}:")
        same = "true"
        for i, d in loads:
            lines.append(f"  %q{number}.{i}.{d} = icmp eq i64 %x{i}.{d}, {extents[i][d]}")
            lines.append(f"  %r{number}.{i}.{d} = and i1 {same}, %q{number}.{i}.{d}")
            same = f"%r{number}.{i}.{d}"
        lines.append(f"  br i1 {same}, label %run.{number}, label %try.{number + 1}")
        lines.append(f"run.{number}:")
        lines.append(f"  %status.{number} = call i32 @{symbol}({given})")
        lines.append(f"  ret i32 %status.{number}")
    lines += [f"try.{len(shapes.entries)}:", f"  ret i32 {NO_SHAPE}", "}"]
    return "\n".join(lines) + "\n"
