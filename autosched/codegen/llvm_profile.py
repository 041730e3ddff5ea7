"""Profiling intrinsics: a clock is read at their place, and ticks are added up for each id.

A module with such calls defines, for each id, a global `SYMBOL.profile.ID` of three i64: ticks,
calls, and the time at which the last call began. It also defines a function `SYMBOL.clock` that
reads the clock. Code between the calls of one id must run on one thread at a time, which is why
InstrumentProfileIntrinsics puts none inside parallel loops.
"""

from __future__ import annotations

import platform

from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_module import ModuleBuilder
from autosched.errors import CompileError
from autosched.tir.expr import Call, IntImm

_COUNTER = """\
declare i64 @llvm.readcyclecounter()
define i64 @{name}() {{
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}}"""

_NANOSECONDS = """\
declare i32 @clock_gettime(i32, ptr)
define i64 @{name}() {{
  %t = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 1, ptr %t)
  %seconds = load i64, ptr %t
  %p = getelementptr i64, ptr %t, i64 1
  %rest = load i64, ptr %p
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  ret i64 %now
}}"""

# On other machines programs may not read the cycle counter.
_CLOCK = _COUNTER if platform.machine() in ("x86_64", "AMD64") else _NANOSECONDS


def counter_name(symbol: str, number: int) -> str:
    """The global that holds the ticks and calls of an id."""
    return f"{symbol}.profile.{number}"


def clock_name(symbol: str) -> str:
    """The function that reads the clock."""
    return f"{symbol}.clock"


def start(b: FunctionBuilder, e: Call) -> str:
    """start_profile_intrinsic: store the time."""
    began = b.emit(f"getelementptr i64, ptr {_counter(b.module, e)}, i64 2")
    b.line(f"store i64 {_now(b)}, ptr {began}")
    return "0"


def end(b: FunctionBuilder, e: Call) -> str:
    """end_profile_intrinsic: add the time since the start to the ticks, and one to the calls."""
    now, counter = _now(b), _counter(b.module, e)
    began = b.emit(f"getelementptr i64, ptr {counter}, i64 2")
    elapsed = b.emit(f"sub i64 {now}, {b.emit(f'load i64, ptr {began}')}")
    ticks = b.emit(f"add i64 {b.emit(f'load i64, ptr {counter}')}, {elapsed}")
    b.line(f"store i64 {ticks}, ptr {counter}")
    calls = b.emit(f"getelementptr i64, ptr {counter}, i64 1")
    more = b.emit(f"add i64 {b.emit(f'load i64, ptr {calls}')}, 1")
    b.line(f"store i64 {more}, ptr {calls}")
    return "0"


def _now(b: FunctionBuilder) -> str:
    name = clock_name(b.module.symbol)
    text = _CLOCK.format(name=name)
    if text not in b.module.functions:
        b.module.functions.append(text)
    return b.emit(f"call i64 @{name}()")


def _counter(module: ModuleBuilder, e: Call) -> str:
    (number,) = e.args
    if not isinstance(number, IntImm):
        raise CompileError(f"the id of a profiled part must be constant: {e!r}")
    name = counter_name(module.symbol, number.value)
    text = f"@{name} = global [3 x i64] zeroinitializer, align 64"
    if text not in module.globals:
        module.globals.append(text)
    return f"@{name}"
