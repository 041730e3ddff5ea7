"""LLVM assembly of the part of a library around the kernels, which C and Python call.

It is compiled for the most basic CPU of the architecture, so that it can report features that a
machine lacks. The kernels are functions of slots (`codegen/llvm.py`) in their own object files,
compiled exactly as they were for measuring. For a library NAME:

| function | |
|---|---|
| `i32 SYMBOL(ptr, ...)` | a kernel, one pointer for each array |
| `i32 NAME_run_SYMBOL(ptr slots)` | the same for an array of pointers |
| `ptr NAME_problem()` | null, or why this machine cannot run the library |
| `ptr NAME_message(i32)` | the meaning of a status |
| `ptr NAME_build()` | the identity of the build, which the files beside the library contain, too |
| `i32 NAME_call(ptr table, ptr args)` | the checked call from Python (`runtime/call_ir.py`) |

All check the CPU at their first call (`cpu_ir.py`), and start threads when the first parallel
kernel runs (`threads_ir.py`). A kernel may have any name that is not in the C library: the names of
internal symbols contain a point or begin with autosched_.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autosched.codegen.llvm_tiles import NO_TILES
from autosched.cpuid import Bit
from autosched.export.cpu_ir import cpu_ir, text_ir
from autosched.export.threads_ir import threads_ir
from autosched.runtime.native import runtime_ir
from autosched.runtime.parallel_ir import THREADS_OFFSET

NO_MEMORY, UNSUPPORTED, NO_SHAPE = -1, -3, -4

MESSAGES = {
    0: "done",
    NO_MEMORY: "out of workspace memory",
    NO_TILES: "the CPU has no AMX tiles, or the system does not let this process use them",
    UNSUPPORTED: "this machine's CPU cannot run the library",
    NO_SHAPE: "there is no kernel for these shapes",
}


class Entry(NamedTuple):
    """A kernel: its C name, the symbol in its object file, and its numbers of arrays and threads.

    `threads` is 1 without parallel loops.
    """

    symbol: str
    kernel: str
    arrays: int
    threads: int


class Shapes(NamedTuple):
    """A function that chooses among kernels by the extents of all arrays.

    `ranks` are the ranks of the arrays; `entries` are (symbol of a kernel, shapes of its arrays).
    """

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
    """The assembly of a library that reports `build` as its identity.

    `features` and `registers` are empty if CPUID is not to be used.
    """
    threads = max((e.threads for e in entries), default=1)
    parts = [runtime_ir().replace("@autosched_call(", f"@{name}_call(")]
    parts += [cpu_ir(features, registers), threads_ir(threads), _ready(name), _messages(name)]
    parts.append(text_ir("lib.build", build))
    parts.append(f"define ptr @{name}_build() {{\n  ret ptr @lib.build\n}}\n")
    parts += [_entry(name, entry) for entry in entries]
    parts += [_dispatch(each, {e.symbol: e for e in entries}) for each in shapes]
    return "\n".join(parts)


def exported(name: str, entries: Sequence[Entry], shapes: Sequence[Shapes]) -> list[str]:
    """The symbols that are visible to users."""
    own = [f"{name}_{word}" for word in ("problem", "message", "build", "call")]
    runs = [f"{name}_run_{e.symbol}" for e in entries]
    return [*(e.symbol for e in entries), *(s.symbol for s in shapes), *own, *runs]


def _ready(name: str) -> str:
    """`i32 @lib.ready(i32 threads)`: 0, or UNSUPPORTED. It starts the threads if `threads` > 1.

    The state is 0 before the CPU was checked, 1 during the check, 2 if it passed, 3 if it failed.
    """
    return f"""
@lib.state = private global i32 0
@lib.problem = private global ptr null

define private i32 @lib.look() {{
entry:
  %pair = cmpxchg ptr @lib.state, i32 0, i32 1 acq_rel acquire, align 4
  %won = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %won, label %first, label %wait
first:
  %text = call ptr @lib.look_at_cpu()
  store ptr %text, ptr @lib.problem
  %none = icmp eq ptr %text, null
  %found = select i1 %none, i32 2, i32 3
  store atomic i32 %found, ptr @lib.state release, align 4
  ret i32 %found
wait:
  %now = load atomic i32, ptr @lib.state acquire, align 4
  %busy = icmp ult i32 %now, 2
  br i1 %busy, label %wait, label %known
known:
  ret i32 %now
}}

define private i32 @lib.ready(i32 %threads) {{
entry:
  %state = load atomic i32, ptr @lib.state acquire, align 4
  %fine = icmp eq i32 %state, 2
  br i1 %fine, label %good, label %unknown
unknown:
  %found = call i32 @lib.look()
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
  call void @lib.start_threads()
  br label %done
done:
  ret i32 0
}}

define ptr @{name}_problem() {{
  %found = call i32 @lib.look()
  %text = load ptr, ptr @lib.problem
  ret ptr %text
}}
"""


def _messages(name: str) -> str:
    lines = [text_ir(f"lib.message.{-status}", text) for status, text in MESSAGES.items()]
    lines += [text_ir("lib.message.other", "an assertion of the kernel failed")]
    lines += [f"define ptr @{name}_message(i32 %status) {{", "entry:"]
    lines.append("  switch i32 %status, label %other [")
    lines += [f"    i32 {status}, label %is.{-status}" for status in MESSAGES]
    lines.append("  ]")
    for status in MESSAGES:
        lines += [f"is.{-status}:", f"  ret ptr @lib.message.{-status}"]
    lines += ["other:", "  ret ptr @lib.message.other", "}"]
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
  %not = call i32 @lib.ready(i32 {entry.threads})
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


def _dispatch(shapes: Shapes, entries: Mapping[str, Entry]) -> str:
    """A function that compares the extents of all arrays with those of each kernel in turn."""
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
