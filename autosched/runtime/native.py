"""The native half of the runtime: compiled once per process from LLVM assembly.

It holds what kernels call (launching a parallel loop, workspace memory) and what Python calls
around kernels (the worker's loop, the timing loop, the checked call).
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

from autosched.codegen.llvm_compile import compile_object
from autosched.errors import MeasureError
from autosched.runtime.call_ir import CALL_IR
from autosched.runtime.float_mode_ir import float_mode_ir
from autosched.runtime.parallel_ir import pool_ir
from autosched.runtime.workspace_ir import WORKSPACE_IR
from autosched.target import cpu_target

_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}

_TIMER_IR = """
%timespec = type { i64, i64 }
declare i32 @clock_gettime(i32, ptr)

define private i64 @run.now() {
  %t = alloca %timespec
  %ignored = call i32 @clock_gettime(i32 1, ptr %t)
  %seconds = load i64, ptr %t
  %p = getelementptr %timespec, ptr %t, i32 0, i32 1
  %nanoseconds = load i64, ptr %p
  %scaled = mul i64 %seconds, 1000000000
  %total = add i64 %scaled, %nanoseconds
  ret i64 %total
}

define i64 @autosched_time(ptr %kernel, ptr %args, i64 %calls, ptr %status) {
entry:
  %start = call i64 @run.now()
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %code = call i32 %kernel(ptr %args)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %calls
  %fine = icmp eq i32 %code, 0
  %again = and i1 %more, %fine
  br i1 %again, label %loop, label %done
done:
  store i32 %code, ptr %status
  %stop = call i64 @run.now()
  %elapsed = sub i64 %stop, %start
  ret i64 %elapsed
}
"""

_SLEEP_LINUX = """
declare i64 @syscall(i64, ...)
define private void @run.futex_wait(ptr %word, i32 %seen) {
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 128, i32 %seen, ptr null)
  ret void
}
define private void @run.futex_wake(ptr %word) {
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 129, i32 2147483647)
  ret void
}
"""

# Without futexes a waiting thread polls: 50 microseconds take little CPU time and wake early
# enough.
_SLEEP_ELSEWHERE = """
declare i32 @usleep(i32)
define private void @run.futex_wait(ptr %word, i32 %seen) {
  %r = call i32 @usleep(i32 50)
  ret void
}
define private void @run.futex_wake(ptr %word) {
  ret void
}
"""

_PAUSE = {
    "x86_64": "declare void @llvm.x86.sse2.pause()\n"
    "define private void @run.relax() alwaysinline {\n"
    "  call void @llvm.x86.sse2.pause()\n  ret void\n}\n",
    "aarch64": "define private void @run.relax() alwaysinline {\n"
    '  call void asm sideeffect "yield", ""()\n  ret void\n}\n',
}


@dataclass(frozen=True, slots=True)
class Library:
    """Loaded object code: addresses by symbol.

    `keep` keeps the code in memory; `functions` are ctypes functions that it calls.
    """

    addresses: Mapping[str, int]
    keep: Any
    functions: Sequence[Any] = ()


def processor() -> str:
    """The kind of this machine's processor, as Linux calls it: x86_64, aarch64 ..."""
    found = platform.machine()
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(found, found)


@lru_cache(maxsize=1)
def _jit() -> Any:
    cpu_target()  # initialises LLVM for this machine
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # LLVM's older linker ends the process where sections of one object lie too far apart for ARM.
    return llvm.create_lljit_compiler(use_jit_link=processor() == "aarch64")


def has_symbol(name: str) -> bool:
    """Whether this process has a function of that name."""
    return bool(llvm.address_of_symbol(name))


_loaded = 0


def load_object(
    code: bytes,
    symbols: Sequence[str],
    imports: Mapping[str, int] | None = None,
    functions: Sequence[Any] = (),
) -> Library:
    """Load object code into this process, linked against the process and against `imports`.

    `functions` are the ctypes functions among the imports. Returns the addresses of `symbols`.
    Raises MeasureError (stage load) when a symbol cannot be found.
    """
    global _loaded
    _loaded += 1
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name, where in (imports or {}).items():
        builder.import_symbol(name, where)
    for name in symbols:
        builder.export_symbol(name)
    try:
        tracker = builder.link(_jit(), f"autosched.{_loaded}")
        addresses = {name: int(tracker[name]) for name in symbols}
    except RuntimeError as error:
        raise MeasureError(
            f"the compiled code could not be loaded: {error}", stage="load"
        ) from error
    return Library(addresses, tracker, functions)


SYMBOLS = (
    "autosched_parallel_launch",
    "autosched_pool",
    "autosched_team",
    "autosched_worker",
    "autosched_wake_all",
    "autosched_pool_try_lock",
    "autosched_pool_unlock",
    "autosched_workspace_alloc",
    "autosched_workspace_free",
    "autosched_workspace_forget",
    "autosched_time",
    "autosched_call",
)


def runtime_ir(with_teams: bool = False) -> str:
    """The assembly text of the native runtime for this machine; see `pool_ir`."""
    kind = processor()
    futex = _FUTEX_NUMBERS.get(kind) if sys.platform == "linux" else None
    sleep = _SLEEP_ELSEWHERE if futex is None else _SLEEP_LINUX.replace("FUTEX", str(futex))
    nothing = "define private void @run.relax() alwaysinline {\n  ret void\n}\n"
    own = _PAUSE.get(kind, nothing) + sleep + float_mode_ir(kind)
    return own + pool_ir(with_teams) + WORKSPACE_IR + _TIMER_IR + CALL_IR


@lru_cache(maxsize=1)
def runtime_library() -> Library:
    """The native runtime of this process, compiled on first use (about 20 ms)."""
    text = runtime_ir(with_teams=True)
    return load_object(compile_object(text, cpu_target(1), "light"), SYMBOLS)


def kernel_imports() -> dict[str, int]:
    """The runtime's functions that kernels call, by symbol."""
    addresses = runtime_library().addresses
    names = ("autosched_parallel_launch", "autosched_workspace_alloc", "autosched_workspace_free")
    return {name: addresses[name] for name in names}
