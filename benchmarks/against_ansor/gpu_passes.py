"""Passes for GPUs one by one, on random kernels whose threads share memory, against TVM's.

    python benchmarks/against_ansor/gpu_passes.py --peer PYTHON [--cases N] [--seed N] [--show N]

A case is a kernel without barriers (gpu_kernels.py), in which all threads advance together,
statement by statement. Each pass here and its namesake there get the same function, and the next
passes get what ours made. Ours must mean what the kernel means, and once all barriers are there
no access may race; theirs is counted only.

Strength is what is left: barriers (as often as they are met), bytes of each memory, shuffles,
stores, loops, conditions. More of one of them than TVM leaves is counted as `weaker`, and printed
with `--show`. Known: TVM looks at what one statement, or one turn of a loop, stores as a part for
each thread, and leaves races between turns and statements that store (`peer wrong`); it merges
shared memory in use at other times without the barriers for it. It puts memory of other types in
one allocation by other sizes, at times in fewer bytes; it does not lower memory of a warp that has
less than 32 threads along x, nor read allocations whose pointer has another type. Barriers in its
reductions are met by some lanes alone where threads skip them.
"""

from __future__ import annotations

import sys
from collections import Counter
from math import prod
from typing import Any

import gpu_kernels
import numpy as np
from passes_nodes import UnknownNodeError, read, write
from peer import Peer, PeerError, arguments, each_seed

from autosched.errors import ScheduleError
from autosched.tir import interp, stmt
from autosched.tir.expr import Call, IntImm
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.walk import child_stmts, direct_exprs, pre_order
from autosched.transform.device.inject_virtual_thread import InjectVirtualThread
from autosched.transform.device.lower_thread_allreduce import LowerThreadAllreduce
from autosched.transform.device.lower_warp_memory import LowerWarpMemory
from autosched.transform.device.merge_shared_memory_allocations import (
    MergeSharedMemoryAllocations,
)
from autosched.transform.device.thread_sync import ThreadSync
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.framework.passes import Pass
from autosched.transform.loops.inject_double_buffer import InjectDoubleBuffer
from autosched.transform.storage.storage_rewrite import StorageRewrite

CASES: dict[str, tuple[tuple[Pass, list[Any]], ...]] = {
    "Simplify": ((Simplify(), ["Simplify"]),),
    "InjectVirtualThread": ((InjectVirtualThread(), ["InjectVirtualThread"]),),
    "InjectDoubleBuffer": ((InjectDoubleBuffer(), ["InjectDoubleBuffer"]),),
    "StorageRewrite": ((StorageRewrite(), ["StorageRewrite"]),),
    "ThreadSync": (
        (ThreadSync("shared"), ["ThreadSync", "shared"]),
        (ThreadSync("shared.dyn"), ["ThreadSync", "shared.dyn"]),
        (ThreadSync("warp"), ["ThreadSync", "warp"]),
        (MergeSharedMemoryAllocations(), ["MergeSharedMemoryAllocations"]),
    ),
    "LowerThreadAllreduce": ((LowerThreadAllreduce(), ["LowerThreadAllreduce"]),),
    "LowerWarpMemory": ((LowerWarpMemory(), ["LowerWarpMemory"]),),
    "Simplify, last": ((Simplify(), ["Simplify"]),),
}
"""Passes that follow each other: memory that is merged needs barriers of its own."""
TARGET = "cuda -arch=sm_80"


def measures(s: stmt.Stmt, times: int = 1) -> Counter[str]:
    """What of each kind is in a statement that is run so many times."""
    found: Counter[str] = Counter()
    match s:
        case stmt.For():
            found["loops"] += 1
            times *= s.extent.value if isinstance(s.extent, IntImm) else 1
        case stmt.IfThenElse():
            found["conditions"] += 1
        case stmt.BufferStore():
            found["stores"] += 1
        case stmt.Allocate():
            elements = prod(e.value for e in s.extents if isinstance(e, IntImm))
            size = elements * s.dtype.bits * s.dtype.lanes // 8
            found[f"bytes of {s.buffer_var.scope or 'global'}"] += size
    for root in direct_exprs(s):
        for e in pre_order(root):
            if isinstance(e, Call) and e.op == "tvm_storage_sync":
                found["barriers"] += times
            elif isinstance(e, Call) and "shuffle" in e.op:
                found["shuffles"] += times
    for part in child_stmts(s):
        found += measures(part, times)
    return found


def why_wrong(func: PrimFunc, arrays: list[Any], wanted: list[Any], races: bool) -> str | None:
    """What differs from what is wanted; None where nothing does."""
    found = [array.copy() for array in arrays]
    try:
        interp.run(func, found, check_races=races)
    except (interp.InterpreterError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    equal = all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    return None if equal else "other values"


def theirs(peer: Peer, func: PrimFunc, calls: list[list[Any]]) -> PrimFunc | str:
    """What TVM's passes make of a function, or why they refuse it."""
    try:
        return read(peer.ask("apply", write(func, target=TARGET), calls, {})[0])
    except (PeerError, UnknownNodeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


class Comparison:
    """What was found so far."""

    def __init__(self, show: int) -> None:
        self.show = show
        self.count: Counter[tuple[str, str]] = Counter()
        self.wrong = 0

    def note(self, name: str, what: str, text: str) -> None:
        self.count[name, what] += 1
        if self.count[name, what] <= self.show:
            print(f"{name}: {what}: {text}", flush=True)

    def case(self, peer: Peer, seed: int) -> None:
        """One kernel through all passes."""
        text, arrays = gpu_kernels.drawn(seed)
        func, races = parse_func(text), False
        wanted = [array.copy() for array in arrays]
        interp.run(func, wanted, check_races=False)
        for name, passes in CASES.items():
            races |= name == "ThreadSync"
            other = theirs(peer, func, [call for _, call in passes])
            try:
                ours = func
                for pass_, _ in passes:
                    ours = pass_(ours)
            except ScheduleError as error:
                self.note(name, "refused", f"seed {seed}: {error}")
                return
            why = why_wrong(ours, arrays, wanted, races)
            if why is not None:
                self.wrong += 1
                print(f"WRONG seed {seed}, {name}: {why}\n{func}\n-- became\n{ours}")
                return
            self.count[name, "right"] += 1
            if isinstance(other, str):
                self.note(name, "peer refused", f"seed {seed}: {other}")
            elif (why := why_wrong(other, arrays, wanted, races)) is not None:
                self.note(name, "peer wrong", f"seed {seed}: {why}")
            else:
                self.strength(name, seed, measures(ours.body), measures(other.body))
            func = ours

    def strength(self, name: str, seed: int, a: Counter[str], b: Counter[str]) -> None:
        """Whether something of ours is more than of theirs."""
        more = {key: (a[key], b[key]) for key in a if a[key] > b[key]}
        for key in more:
            self.note(name, f"weaker: {key}", f"seed {seed}: here and there {more}")
        if not more:
            self.count[name, "stronger" if a != b else "as strong"] += 1


def main() -> None:
    """Prints what differs; exits with 1 if ours ever means something else."""
    parser = arguments(__doc__)
    parser.add_argument("--show", type=int, default=0, help="print so many of each kind")
    options = parser.parse_args()
    comparison = Comparison(options.show)
    each_seed(options, "passes_worker.py", comparison.case)
    for (name, what), times in sorted(comparison.count.items()):
        print(f"{name}: {what} {times}")
    print(f"{options.cases} kernels from seed {options.seed}: {comparison.wrong} wrong")
    sys.exit(comparison.wrong > 0)


if __name__ == "__main__":
    main()
