"""ThreadSync: insert the barriers that shared memory needs, as few as possible.

before:
    def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((32,), float32, "shared")
        for i in range(4):
            S[threadIdx.x] = A[threadIdx.x]
            B[threadIdx.x] = S[31 - threadIdx.x]
after:
    def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((32,), float32, "shared")
        for i in range(4):
            tvm_storage_sync("shared")
            S[threadIdx.x] = A[threadIdx.x]
            tvm_storage_sync("shared")
            B[threadIdx.x] = S[31 - threadIdx.x]

An element that only its own thread reads needs no barrier:

before:
    def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((32,), float32, "shared")
        for i in range(4):
            S[threadIdx.x] = A[threadIdx.x]
            B[threadIdx.x] = S[threadIdx.x]
unchanged:

Threads that skip a branch would not reach a barrier inside it:

before:
    def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((32,), float32, "shared")
        if threadIdx.x < 16:
            S[threadIdx.x] = A[threadIdx.x]
            B[threadIdx.x] = S[15 - threadIdx.x]
refused:
    ThreadSync: main: a barrier for S is needed inside `if threadIdx.x < 16`, which not all threads
    of a block reach alike; move the condition inside the stage, or compute it elsewhere

No barrier makes it safe that several threads add to one element:

before:
    def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((1,), float32, "shared")
        S[0] = 0.0
        for k in range(32):
            S[0] = S[0] + A[k]
        B[threadIdx.x] = S[0]
refused:
    ThreadSync: main: all threads along threadIdx.x add to the same element of S in shared memory;
    bind a loop of its stage to threadIdx.x
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from autosched.arith import Analyzer
from autosched.errors import ScheduleError
from autosched.tir.dtype import int32
from autosched.tir.expr import Call, Expr, IntImm, IterVar, Range, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.loops import trip_count
from autosched.tir.op import const
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from autosched.tir.walk import child_stmts, map_children, stmts, substitute
from autosched.transform.device.shared_layout import saves_bytes
from autosched.transform.device.shared_liveness import live_intervals
from autosched.transform.device.slots import apart, in_other_slots
from autosched.transform.device.thread_access import (
    BARRIER,
    MAYBE,
    WARP,
    Access,
    Barrier,
    accesses_of,
    closed,
    in_parts,
    is_barrier,
)
from autosched.transform.device.thread_index import (
    MOST,
    Span,
    is_uniform,
    may_meet,
    warps_may_meet,
)
from autosched.transform.device.update_races import check_updates
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_SCOPES = ("shared", "shared.dyn", "warp")
_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


@dataclass(frozen=True)
class ThreadSync(FunctionPass):
    """Insert a barrier before a statement whose accesses may race with those of another thread.

    `scope` is the memory to check: shared, shared.dyn or warp. Two accesses conflict if one is a
    write and different threads may access the same element. That is decided by enumeration
    (`thread_index.py`); a conflict is assumed where enumeration is not possible. Buffers in
    shared.dyn that are not in use at the same time count as one, because
    MergeSharedMemoryAllocations lets them share bytes. So do, with `merged`, those in `scope`; with
    `by_config` they do if that saves bytes and `tir.merge_static_smem` is not off. Raises
    ScheduleError if a barrier is needed at a place that not all threads reach, and for races that
    no barrier can prevent (`update_races.py`), with scope shared in global memory, too.
    """

    name: ClassVar[str] = "ThreadSync"
    scope: str = "shared"
    merged: bool = False
    by_config: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scope not in _SCOPES:
            raise ValueError(
                f"ThreadSync: no barriers for scope {self.scope!r}, only for {', '.join(_SCOPES)}"
            )

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        marked: set[Stmt] = set()
        for region in kernels(func.body):
            for scope in ("shared", "global") if self.scope == "shared" else (self.scope,):
                check_updates(region, scope, func.name)
            merged = self.merged or (
                self.by_config
                and ctx.setting("tir.merge_static_smem")
                and saves_bytes(region, self.scope)
            )
            marked |= missing_barriers(region, self.scope, func.name, merged)
        if not marked:
            return func
        barrier = Evaluate(Call(int32, "tvm_storage_sync", (StringImm(self.scope),)))

        def go(s: Stmt) -> Stmt:
            new = map_children(s, go)
            return seq(barrier, new) if s in marked else new

        return func.with_body(go(func.body))


def kernels(s: Stmt) -> Iterable[AttrStmt]:
    """The outermost thread attributes in `s`, each of which is a launch."""
    if isinstance(s, AttrStmt) and s.key == "thread_extent":
        yield s
        return
    for child in child_stmts(s):
        yield from kernels(child)


def missing_barriers(
    region: AttrStmt, scope: str, function: str, merged: bool = False
) -> set[Stmt]:
    """The statements of a kernel that need a barrier in front; empty if the kernel is safe.

    With `merged`, buffers that are not in use at the same time may share memory, as those in
    shared.dyn always may.
    """
    planner = _Planner(region, scope, function, merged or scope == "shared.dyn")
    planner.summary(planner.entries(region, {}), None, None)
    return planner.marked


@dataclass(frozen=True, slots=True)
class _Entry:
    """A statement with its accesses and barriers in order, as seen from outside."""

    stmt: Stmt
    accesses: Sequence[Access | Barrier]


class _Planner:
    def __init__(self, region: AttrStmt, scope: str, function: str, merged: bool) -> None:
        self.scope = scope
        self.merged = merged
        self.function = function
        self.marked: set[Stmt] = set()
        own = [s.buffer_var for s in stmts(region) if isinstance(s, Allocate)] if merged else []
        self.live = live_intervals(region, [data for data in own if data.scope == scope])
        self.axes = {tag: Var(tag) for tag in _AXES}
        self.loops: dict[Var, Span] = {}  # the loops seen so far whose ranges are known
        self.blocks: list[Span] = []
        extents: dict[str, int] = {}
        for s in stmts(region):
            if isinstance(s, AttrStmt) and s.key == "thread_extent":
                tag = s.node.thread_tag or s.node.var.name
                if tag in self.axes:
                    extents[tag] = s.value.value if isinstance(s.value, IntImm) else 0
                elif isinstance(s.value, IntImm):
                    self.blocks.append(Span(s.node.var, 0, s.value.value))
        # An unknown extent counts as too many threads to enumerate.
        self.threads = [Span(self.axes[tag], 0, n or 1 << 20) for tag, n in extents.items()]
        # The warp of a thread follows from its linear index, for which all extents must be known.
        self.lanes_in_order = all(n > 0 for n in extents.values())
        self._met: dict[object, bool] = {}

    # -- collecting -----------------------------------------------------------------------------

    def entries(self, s: Stmt, table: dict[Var, Expr]) -> list[_Entry]:
        """The statements of `s` in order; a loop or branch is one entry."""
        match s:
            case SeqStmt():
                return [entry for part in s.stmts for entry in self.entries(part, table)]
            case AttrStmt(key="hand_threaded"):
                return []
            case AttrStmt(key="thread_extent"):
                assert isinstance(s.node, IterVar)
                axis = self.axes.get(s.node.thread_tag or s.node.var.name)
                if axis is not None:
                    table = {**table, s.node.var: axis}
                return self.entries(s.body, table)
            case AttrStmt(key="double_buffer_write"):
                inside = self.summary(self.entries(s.body, table), None, None)
                flagged = [
                    replace(a, double_buffer=True) if isinstance(a, Access) and a.is_write else a
                    for a in inside
                ]
                return [_Entry(s, flagged)]
            case LetStmt():
                own = _Entry(s, accesses_of(s, self.scope, table))
                table = {**table, s.var: substitute(s.value, table)}
                return [own, *self.entries(s.body, table)]
            case For():
                return [self._loop(s, s.loop_var, table)]
            case While():
                return [self._loop(s, None, table)]
            case IfThenElse():
                return [self._branch(s, table)]
        if is_barrier(s, self.scope):
            return [_Entry(s, [BARRIER])]
        if is_barrier(s, "warp"):
            return [_Entry(s, [WARP])]
        below = [entry for part in child_stmts(s) for entry in self.entries(part, table)]
        return [_Entry(s, accesses_of(s, self.scope, table)), *below]

    def _loop(self, s: For | While, var: Var | None, table: dict[Var, Expr]) -> _Entry:
        span = self._span(s, table) if isinstance(s, For) else None
        if span is not None:
            if self.loops.get(span.var, span) != span:
                self._met.clear()  # what was found holds for the loop before
            self.loops[span.var] = span
        head = accesses_of(s, self.scope, table)
        before = set(self.marked)
        body = self.entries(s.body, table)
        if isinstance(s, While):
            body.insert(0, _Entry(s, head))
        exposed = self.summary(body, s, span)
        uneven = [s.condition] if isinstance(s, While) else [s.min, s.extent]
        self._check_uniform(s, uneven, self.marked - before, table)
        around = [a.around(span, var) if isinstance(a, Access) else a for a in exposed]
        cleared = [replace(a, double_buffer=False) if isinstance(a, Access) else a for a in around]
        if not (isinstance(s, For) and trip_count(s)):
            # The condition of a while loop is read once more after all barriers.
            cleared = closed(cleared) if isinstance(s, For) else cleared
            cleared = [MAYBE if isinstance(a, Barrier) else a for a in cleared]
        return _Entry(s, [*head, *cleared] if isinstance(s, For) else cleared)

    def _span(self, s: For, table: dict[Var, Expr]) -> Span | None:
        """The range of a loop for all values of surrounding loops and threads; None if unknown."""
        if not isinstance(s.min, IntImm):
            return None
        if isinstance(s.extent, IntImm):
            return Span(s.loop_var, s.min.value, s.extent.value)
        analyzer = Analyzer()
        for known in (*self.blocks, *self.threads, *self.loops.values()):
            ends = const(known.low, known.var.dtype), const(known.extent, known.var.dtype)
            analyzer.bind(known.var, Range(*ends), override=True)
        most = analyzer.const_int_bound(substitute(s.extent, table)).max_value
        return Span(s.loop_var, s.min.value, max(most, 0)) if most <= MOST else None

    def _branch(self, s: IfThenElse, table: dict[Var, Expr]) -> _Entry:
        before = set(self.marked)
        heads: list[Access | Barrier] = [*accesses_of(s, self.scope, table)]
        tails: list[Access | Barrier] = []
        found: list[Barrier] = []
        cases = [s.then_case] if s.else_case is None else [s.then_case, s.else_case]
        for case in cases:
            parts = heads
            guard = substitute(s.condition, table) if case is s.then_case else None
            inside = [_under(guard, entry) for entry in self.entries(case, table)]
            for a in closed(self.summary(inside, None, None)):
                if isinstance(a, Barrier):
                    found.append(a)
                    parts = tails
                else:
                    parts.append(a)
        self._check_uniform(s, [s.condition], self.marked - before, table)
        if not found:
            return _Entry(s, heads)
        return _Entry(s, [*heads, BARRIER if found == [BARRIER, BARRIER] else MAYBE, *tails])

    def _check_uniform(
        self, s: Stmt, decisive: list[Expr], marked: set[Stmt], table: dict[Var, Expr]
    ) -> None:
        """Raise ScheduleError unless all threads reach the barriers before `marked`, inside `s`."""
        if not marked or all(self._is_uniform(substitute(e, table)) for e in decisive):
            return
        touched = {
            access.data.name: None
            for m in marked
            for part in stmts(m)
            for access in accesses_of(part, self.scope, table)
        }
        head = repr(s).split("\n")[0].rstrip(":")
        raise ScheduleError(
            f"ThreadSync: {self.function}: a barrier for {', '.join(touched)} is needed inside "
            f"`{head}`, which not all threads of a block reach alike; move the condition inside "
            "the stage, or compute it elsewhere"
        )

    def _is_uniform(self, e: Expr) -> bool:
        return is_uniform(e, {span.var for span in self.threads if span.extent > 1})

    # -- deciding -------------------------------------------------------------------------------

    def summary(
        self, entries: Sequence[_Entry], loop: Stmt | None, span: Span | None
    ) -> list[Access | Barrier]:
        """Mark the entries that need a barrier; return the accesses visible from outside.

        With `loop` the entries are repeated; `span` is its range if known.
        """
        open_: list[Access] = []
        for entry in entries:
            if entry.stmt not in self.marked and self._meets(open_, entry, None, None):
                self.marked.add(entry.stmt)
            if entry.stmt in self.marked:
                open_ = []
            open_ = _after(open_, entry)
        if loop is not None:
            self._around(open_, entries, loop, span)
        return self._exposed(entries)

    def _around(
        self, open_: list[Access], entries: Sequence[_Entry], loop: Stmt, span: Span | None
    ) -> None:
        """Compare the accesses left open by one iteration with the first ones of the next."""
        for entry in entries:
            if entry.stmt in self.marked or not open_:
                return
            if self._meets(open_, entry, loop, span):
                self.marked.add(entry.stmt)
                return
            if BARRIER in entry.accesses:
                return

    def _meets(
        self, open_: list[Access], entry: _Entry, loop: Stmt | None, span: Span | None
    ) -> bool:
        for access in entry.accesses:
            if access is WARP:
                continue
            if isinstance(access, Barrier):
                return False
            if any(self._conflict(other, access, loop, span) for other in open_):
                return True
        return False

    def _exposed(self, entries: Sequence[_Entry]) -> list[Access | Barrier]:
        """The accesses before the first barrier, a barrier, and the accesses after the last."""
        first: list[Access | Barrier] = []
        last: list[Access | Barrier] = []
        seen: Barrier | None = None
        for entry in entries:
            parts: list[Access | Barrier] = [*entry.accesses]
            if entry.stmt in self.marked:
                parts.insert(0, BARRIER)
            behind = False
            for part in parts:
                if part is BARRIER:
                    seen, last = BARRIER, []
                elif part is MAYBE:
                    seen, behind = seen or MAYBE, True
                elif part is not WARP:  # only neighbouring statements rely on it
                    if seen is not BARRIER and not behind:
                        first.append(part)
                    if seen is not None:
                        last.append(part)
        return first if seen is None else [*first, seen, *last]

    def _in_use_together(self, first: Var, second: Var) -> bool:
        """True if two allocations are in use at the same time, so that they share no bytes."""
        live = self.live.get(first), self.live.get(second)
        return live[0] is not None and live[1] is not None and live[0].meets(live[1])

    def _conflict(
        self, first: Access, second: Access, loop: Stmt | None, span: Span | None
    ) -> bool:
        """True if a barrier must separate the accesses.

        With `loop` they are in different iterations of it.
        """
        if not (first.is_write or second.is_write):
            return False
        if loop is not None and span is not None and span.extent == 1:  # the loop runs once
            return False
        if first.data is not second.data:
            return self.merged and not self._in_use_together(first.data, second.data)
        if loop is None and first.double_buffer and not second.is_write:
            return False
        if first.dtype is not second.dtype:
            first, second = in_parts(first, second), in_parts(second, first)
        if first.place is None or second.place is None:
            return True
        if isinstance(loop, For) and span is None:
            if first.depends_on(loop.loop_var) or second.depends_on(loop.loop_var):
                return True
        where = self.threads, self.loops
        if loop is None and in_other_slots(first.place, second.place, *where):
            return False
        if first.met_in_warp and self.lanes_in_order:
            places = (first.place, first.guard), (second.place, second.guard)
            return warps_may_meet(*places, self.threads, span)
        key = (first.place, first.guard, second.place, second.guard, span)
        if key not in self._met:
            self._met[key] = may_meet(
                first.place, second.place, self.threads, span, self.loops
            ) and not apart(first, second, *where, span)
        return self._met[key]


def _under(guard: Expr | None, entry: _Entry) -> _Entry:
    """An entry of a branch, with `guard` added to its accesses."""
    found = [a.under(guard) if isinstance(a, Access) else a for a in entry.accesses]
    return replace(entry, accesses=found)


def _after(open_: list[Access], entry: _Entry) -> list[Access]:
    for access in entry.accesses:
        if access is BARRIER:
            open_ = []
        elif access is WARP:
            open_ = [replace(a, met_in_warp=True) for a in open_]
        elif isinstance(access, Access) and not access.closed:
            open_ = [*open_, access]
    return open_
