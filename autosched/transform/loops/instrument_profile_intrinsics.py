"""InstrumentProfileIntrinsics: calls around loops, by which a runtime can measure their time.

before:
    def main(A: Buffer((8, 8, 128), int32), B: Buffer((8, 8, 128), int32),
            C: Buffer((8, 8, 128), int32)):
        for i in range(8):
            for j in range(8):
                for k in range(8):
                    for l in range(16):
                        B[i, j, k * 16 + l] = A[i, j, k * 16 + l] * 2
                for k in range(8):
                    for l in range(16):
                        C[i, j, k * 16 + l] = B[i, j, k * 16 + l] * 2
after InstrumentProfileIntrinsics{reset_start_id=True, disable_func_prof=True}:
    def main(A: Buffer((8, 8, 128), int32), B: Buffer((8, 8, 128), int32), C: Buffer((8, 8, 128),
            int32)):
        for i in range(8):
            for j in range(8):
                start_profile_intrinsic(3)
                for k in range(8):
                    for l in range(16):
                        B[i, j, k * 16 + l] = A[i, j, k * 16 + l] * 2
                end_profile_intrinsic(3)
                start_profile_intrinsic(5)
                for k in range(8):
                    for l in range(16):
                        C[i, j, k * 16 + l] = B[i, j, k * 16 + l] * 2
                end_profile_intrinsic(5)

Loops are numbered in the order in which they are printed, after the function itself: i is 1, j is
2, the nests are 3 and 5. Without `siblings` the depth of a loop decides. Nothing inside a parallel
loop is timed:

before:
    def main(A: Buffer((8, 8, 8), float32)):
        for i in range(8):
            for j in range(8):
                for k in range(8):
                    A[i, j, k] = 0.0
        for i in parallel(8):
            for j in range(8):
                A[i, j, 0] = 1.0
after InstrumentProfileIntrinsics{reset_start_id=True, siblings=False, max_depth=1}:
    def main(A: Buffer((8, 8, 8), float32)):
        start_profile_intrinsic(0)
        start_profile_intrinsic(1)
        for i in range(8):
            start_profile_intrinsic(2)
            for j in range(8):
                for k in range(8):
                    A[i, j, k] = 0.0
            end_profile_intrinsic(2)
        end_profile_intrinsic(1)
        start_profile_intrinsic(4)
        for i in parallel(8):
            for j in range(8):
                A[i, j, 0] = 1.0
        end_profile_intrinsic(4)
        end_profile_intrinsic(0)
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.dtype import int32
from autosched.tir.expr import Call, IntImm
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from autosched.tir.walk import child_stmts, map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

START = "start_profile_intrinsic"
END = "end_profile_intrinsic"

_ids = itertools.count()


@dataclass(frozen=True)
class InstrumentProfileIntrinsics(FunctionPass):
    """Brackets functions and loops with start_profile_intrinsic(id) and end_profile_intrinsic(id).

    Every function and every loop takes an id that is unique in the process; with `reset_start_id`
    the ids begin at 0. The function is bracketed unless `disable_func_prof` is set. A loop is
    bracketed if it contains at least `min_height` loops, one inside another, and, with `siblings`,
    stands beside other loops inside a loop, or, without, is inside at most `max_depth` loops. A
    parallel loop may be bracketed, but no loop inside it. Loops are found through sequences (those
    that are direct members), conditions, variables, attributes and allocations, but not inside a
    block of a loop. With `by_config` the pass runs if the context sets `tir.instrument_lwp`, and
    all options are the context's.
    """

    name: ClassVar[str] = "InstrumentProfileIntrinsics"
    siblings: bool = True
    max_depth: int = 0
    min_height: int = 1
    disable_func_prof: bool = False
    reset_start_id: bool = False
    by_config: bool = False

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if self.by_config:
            if not ctx.setting("tir.instrument_lwp"):
                return func
            return _of_config(ctx).apply(func, ctx)
        global _ids
        if self.reset_start_id:
            _ids = itertools.count()
        number = next(_ids)
        found = _Loops()
        found.search(func.body)
        wanted: dict[Stmt, list[int | None]] = {}
        for loop, fact in found.facts:
            wanted.setdefault(loop, []).append(fact.number if self._takes(fact) else None)
        body = _bracketed(func.body, wanted)
        return func.with_body(body if self.disable_func_prof else _between(number, body))

    def _takes(self, fact: _Fact) -> bool:
        if fact.inside_parallel or fact.height < self.min_height:
            return False
        return fact.has_siblings if self.siblings else fact.depth <= self.max_depth


def _of_config(ctx: PassContext) -> InstrumentProfileIntrinsics:
    return InstrumentProfileIntrinsics(
        siblings=ctx.setting("tir.instr_siblings"),
        max_depth=ctx.setting("tir.lwp_max_depth"),
        min_height=ctx.setting("tir.lwp_min_height"),
        disable_func_prof=ctx.setting("tir.lwp_disable_func_prof"),
        reset_start_id=ctx.setting("tir.reset_start_id"),
    )


@dataclass
class _Fact:
    number: int
    depth: int
    has_siblings: bool
    inside_parallel: bool
    height: int = 0


class _Loops:
    """The loops of a function and the facts about them, in the order of their numbers."""

    def __init__(self) -> None:
        self.facts: list[tuple[For, _Fact]] = []

    def search(self, s: Stmt) -> None:
        """Find the outermost loops at or below `s`."""
        if isinstance(s, For):
            self._loop(s, 0, False, False)
            return
        for child in child_stmts(s):
            self.search(child)

    def _loop(self, loop: For, depth: int, siblings: bool, parallel: bool) -> int:
        """Record `loop` and the loops in it; return the height of the nest, counted from 1."""
        fact = _Fact(next(_ids), depth, siblings, parallel)
        self.facts.append((loop, fact))
        inside = parallel or loop.kind is ForKind.PARALLEL
        fact.height = self._below(loop.body, depth + 1, inside)
        return fact.height + 1

    def _below(self, s: Stmt, depth: int, parallel: bool) -> int:
        """Record the loops in `s`, a loop's body; return the height of the highest nest, or 0."""
        match s:
            case For():
                return self._loop(s, depth, False, parallel)
            case SeqStmt():
                loops = [part for part in s.stmts if isinstance(part, For)]
                siblings = len(loops) > 1
                heights = [self._loop(loop, depth, siblings, parallel) for loop in loops]
                return max(heights, default=0)
            case IfThenElse() | LetStmt() | AttrStmt() | Allocate() | DeclBuffer():
                heights = [self._below(child, depth, parallel) for child in child_stmts(s)]
                return max(heights, default=0)
        return 0


def _bracketed(s: Stmt, wanted: dict[Stmt, list[int | None]]) -> Stmt:
    """`s` with brackets around the loops in `wanted`, which has a number or None per occurrence.

    One statement may occur in several places.
    """
    numbers = wanted.get(s)
    number = numbers.pop(0) if numbers else None
    new = map_children(s, lambda child: _bracketed(child, wanted))
    return new if number is None else _between(number, new)


def _between(number: int, body: Stmt) -> Stmt:
    start, end = (Evaluate(Call(int32, op, (IntImm(number),))) for op in (START, END))
    return seq(start, body, end)
