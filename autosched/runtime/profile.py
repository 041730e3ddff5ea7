"""Time the parts of a CPU kernel that InstrumentProfileIntrinsics brackets.

with PassContext(config={"tir.instrument_lwp": True, "tir.instr_siblings": False}):
    func = lower(sch, args, target)
profile = ProfiledKernel(func, target).profile(a, b, c)
for part in profile.parts: print(part.number, part.text, part.calls, part.seconds)
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import Any

from autosched.codegen.llvm_profile import clock_name, counter_name
from autosched.errors import ConfigError
from autosched.runtime.artifact import CpuArtifact
from autosched.runtime.cpu import BoundKernel, CpuKernel, build_artifact
from autosched.target import Target
from autosched.tir.expr import Call, IntImm
from autosched.tir.function import PrimFunc
from autosched.tir.printer import to_text
from autosched.tir.stmt import BufferStore, Evaluate, For, SeqStmt, Stmt
from autosched.tir.walk import child_stmts, stmts
from autosched.transform.loops.instrument_profile_intrinsics import END, START

_CLOCK = ctypes.CFUNCTYPE(ctypes.c_uint64)


@dataclass(frozen=True, slots=True)
class Part:
    """A bracketed part of a kernel.

    - `number`: its id.
    - `text`: the head of its loop as printed.
    - `depth`: the number of parts around it.
    - `stores`: the names of the buffers that it writes.
    """

    number: int
    text: str
    depth: int
    stores: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimedPart(Part):
    """A part with its number of runs in one call of the kernel, and their total seconds."""

    calls: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Means over `calls` calls of the kernel.

    - `seconds`: the time of one call, reading the clock included.
    """

    parts: tuple[TimedPart, ...]
    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ProfiledCode:
    """A compiled function and its parts; any process on this machine may load it."""

    artifact: CpuArtifact
    parts: tuple[Part, ...]


def profiled_code(func: PrimFunc, target: Target) -> ProfiledCode:
    """Compile a function. Raises ConfigError for one without any bracketed part."""
    parts = parts_of(func)
    if not parts:
        raise ConfigError(
            f"profile: nothing in {func.name} is timed; run InstrumentProfileIntrinsics on it"
        )
    return ProfiledCode(build_artifact(func, target), parts)


class ProfiledKernel:
    """A kernel whose parts are timed. Only one thread may use it at a time.

    Raises ConfigError for a function without any bracketed part.
    """

    def __init__(self, func: PrimFunc, target: Target) -> None:
        self._load(profiled_code(func, target))

    @classmethod
    def of(cls, code: ProfiledCode) -> ProfiledKernel:
        """Load a compiled function."""
        kernel = cls.__new__(cls)
        kernel._load(code)
        return kernel

    def _load(self, code: ProfiledCode) -> None:
        self.parts = code.parts
        symbol = code.artifact.symbol
        names = [counter_name(symbol, part.number) for part in self.parts]
        clock = clock_name(symbol)
        self.kernel = CpuKernel(code.artifact, None, [*names, clock])
        addresses = self.kernel.addresses
        self._counters = [(ctypes.c_uint64 * 3).from_address(addresses[name]) for name in names]
        self._clock = _CLOCK(addresses[clock])

    def profile(self, *args: Any, seconds: float = 0.2) -> Profile:
        """Call the kernel on `args` (all, outputs as well) for about `seconds`, at least twice.

        Raises MeasureError when an argument does not fit or an assertion fails.
        """
        bound = self.kernel.bind(*args)
        once = bound.time_ns(1) * 1e-9  # warm-up, not counted
        for counter in self._counters:
            counter[:] = [0, 0, 0]
        calls = max(1, min(10**6, round(seconds / max(once, 1e-7))))
        spent, tick = self._timed(bound, calls)
        parts = tuple(
            TimedPart(p.number, p.text, p.depth, p.stores, c[1] / calls, c[0] * tick / calls)
            for p, c in zip(self.parts, self._counters, strict=True)
        )
        return Profile(parts, calls, spent / calls)

    def _timed(self, bound: BoundKernel, calls: int) -> tuple[float, float]:
        """The seconds of `calls` calls, and of one tick of the clock during them."""
        start, first = time.perf_counter(), self._clock()
        spent = bound.time_ns(calls) * 1e-9
        while True:  # until the length of a tick is known to a thousandth
            elapsed, ticks = time.perf_counter() - start, self._clock() - first
            if elapsed > 5e-3:
                return spent, elapsed / ticks


def parts_of(func: PrimFunc) -> tuple[Part, ...]:
    """The bracketed parts of a function in the order of its text, outer parts first."""
    found: list[Part] = []
    _search(func.body, 0, found)
    return tuple(found)


def _search(s: Stmt, depth: int, found: list[Part]) -> None:
    if not isinstance(s, SeqStmt):
        for child in child_stmts(s):
            _search(child, depth, found)
        return
    inside = depth
    for place, part in enumerate(s.stmts):
        number = _bracket(part, START)
        if number is not None:
            found.append(_part(s, place, number, inside))
            inside += 1
        elif _bracket(part, END) is not None:
            inside -= 1
        else:
            _search(part, inside, found)


def _part(s: SeqStmt, place: int, number: int, depth: int) -> Part:
    """The part between the brackets with id `number`: a loop, or the whole function."""
    inside = s.stmts[place + 1]
    if isinstance(inside, For) and _bracket(s.stmts[place + 2], END) == number:
        head = to_text(inside).partition("\n")[0].rstrip(":")
        return Part(number, head, depth, _stored(inside))
    return Part(number, "whole function", depth, ())


def _stored(s: Stmt) -> tuple[str, ...]:
    """The names of the buffers that are written; local accumulators only if there are no others."""
    buffers = [found.buffer for found in stmts(s) if isinstance(found, BufferStore)]
    shared = [b for b in buffers if b.scope != "local"] or buffers
    return tuple(dict.fromkeys(b.name for b in shared))


def _bracket(s: Stmt, op: str) -> int | None:
    """The id in `s` if `s` is a call of `op`; else None."""
    if isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.op == op:
        (number,) = s.value.args
        return number.value if isinstance(number, IntImm) else None
    return None
