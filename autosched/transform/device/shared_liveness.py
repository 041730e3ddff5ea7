"""Liveness of a kernel's shared memory: one interval of program places per pointer.

Each statement that accesses one of the pointers is a place, and so are the beginning and the end of
loops and conditions. Memory that is allocated outside of a loop is in use during the whole loop,
unless all its accesses are inside the loop and each iteration surely makes the same ones: otherwise
the loop may carry values. Memory accessed in one branch of a condition that threads may decide
differently is in use during both branches, because other threads run the other branch at the same
time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from autosched.tir.constants import is_zero
from autosched.tir.expr import And, BufferLoad, Call, Expr, Let, Or, Var
from autosched.tir.intrin import Effect, effect
from autosched.tir.kinds import loads_in
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from autosched.tir.walk import child_stmts, direct_exprs, distinct, free_vars
from autosched.transform.device.thread_index import is_uniform


@dataclass(frozen=True, slots=True)
class Interval:
    """The places `first` to `last`, both included."""

    first: int
    last: int

    def meets(self, other: Interval) -> bool:
        """True if the two intervals have a place in common."""
        return self.first <= other.last and other.first <= self.last


@dataclass(slots=True, eq=False)
class _Scope:
    """A loop or condition.

    `begin` and `end` are its places, `conditions` the expressions at its head, and `loop` the
    statement if it is a loop. `cases` says whether a condition has two branches. `written` holds
    the pointers written inside.
    """

    begin: int
    conditions: tuple[Expr, ...]
    loop: For | While | None
    cases: bool
    end: int = -1
    written: set[Var] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Touch:
    """An access at a place.

    `scopes` are the scopes around it, the outermost first. `decisive` are the expressions that
    decide whether it happens and on which elements. `outside` is the number of scopes around the
    allocation.
    """

    place: int
    scopes: tuple[_Scope, ...]
    decisive: tuple[Expr, ...]
    outside: int


def live_intervals(kernel: Stmt, pointers: Collection[Var]) -> dict[Var, Interval]:
    """The interval of each of `pointers`, all allocated in `kernel`; unused ones are left out."""
    walk = _Walk(pointers)
    walk.stmt(kernel)
    return {data: walk.interval(data) for data in pointers if walk.touches[data]}


class _Walk:
    def __init__(self, pointers: Iterable[Var]) -> None:
        self.touches: dict[Var, list[_Touch]] = {data: [] for data in pointers}
        self.place = 0
        self.scopes: list[_Scope] = []
        self.depth: dict[Var, int] = {}
        self.threads: set[Var] = set()  # of a block, and variables that depend on them
        self.aliases: dict[Var, frozenset[Var]] = {}
        self.defined: dict[Var, tuple[int, tuple[Expr, ...]]] = {}
        self.flights: list[tuple[Var, int, tuple[_Scope, ...]]] = []
        self.waits: list[tuple[int, tuple[_Scope, ...]]] = []
        self.asynchronous = False
        self.seen: set[tuple[Expr, tuple[Expr, ...]]] = set()
        self.touched = False

    # -- places -------------------------------------------------------------------------------

    def stmt(self, s: Stmt) -> None:
        match s:
            case AttrStmt(key="async_scope" | "pipelined_copies"):
                before, self.asynchronous = self.asynchronous, True
                self.stmt(s.body)
                self.asynchronous = before
            case AttrStmt():
                if s.key == "thread_extent":
                    tag = s.node.thread_tag or s.node.var.name
                    self.threads |= {s.node.var} if tag.startswith("threadIdx.") else set()
                self._leaf((s.value,), optional=True)
                if s.key == "async_wait_inflight_count":
                    self._wait(s.value)
                self.stmt(s.body)
            case Allocate():
                self._leaf((*s.extents, s.condition), optional=True)
                depth = len(self.scopes)
                self.depth[s.buffer_var] = min(depth, self.depth.get(s.buffer_var, depth))
                self.stmt(s.body)
            case LetStmt():
                self._leaf((s.value,))
                self._define(s.var, s.value)
                self.stmt(s.body)
            case For():
                self._leaf((s.min, s.extent), optional=True)
                self._note(s.loop_var, (s.min, s.extent))
                self._scope((s.min, s.extent), s, (), [s.body])
            case While():
                self._scope((s.condition,), s, (s.condition,), [s.body])
            case IfThenElse():
                self._leaf((s.condition,), optional=True)
                cases = [s.then_case] if s.else_case is None else [s.then_case, s.else_case]
                self._scope((s.condition,), None, (), cases)
            case BufferStore():
                self._leaf((*s.indices, s.value), store=s)
            case Evaluate():
                self._evaluate(s)
            case _:
                exprs = direct_exprs(s)
                if exprs:
                    self._leaf(exprs, optional=True)
                for child in child_stmts(s):
                    self.stmt(child)

    def _evaluate(self, s: Evaluate) -> None:
        call = s.value
        if isinstance(call, Call) and call.op == "ptx_wait_group":
            self._wait(call.args[0])
        self._leaf((s.value,))

    def _wait(self, flying: Expr) -> None:
        """Record a wait for all copies; waits that leave groups in flight are ignored."""
        if is_zero(flying):
            self.waits.append((self.place, tuple(self.scopes)))

    def _scope(
        self,
        conditions: tuple[Expr, ...],
        loop: For | While | None,
        head: tuple[Expr, ...],
        bodies: Sequence[Stmt],
    ) -> None:
        scope = _Scope(self.place, conditions, loop, len(bodies) > 1)
        self.place += 1
        self.scopes.append(scope)
        if head:
            self._leaf(head)
        for body in bodies:
            self.stmt(body)
        self.scopes.pop()
        scope.end = self.place
        self.place += 1

    def _leaf(
        self, exprs: Sequence[Expr], store: BufferStore | None = None, optional: bool = False
    ) -> None:
        """Add a place for `exprs`; an `optional` one only if they access one of the pointers."""
        self.seen, self.touched = set(), False
        for e in exprs:
            self._expr(e, ())
        if store is not None:
            guards = () if store.predicate is None else (store.predicate,)
            for e in guards:
                self._expr(e, ())
            self._touch(store.buffer.data, (*store.indices, *guards), written=True)
            if self.asynchronous:
                self._fly(store.buffer.data)
        if self.touched or not optional:
            self.place += 1

    # -- accesses -----------------------------------------------------------------------------

    def _expr(self, e: Expr, guards: tuple[Expr, ...]) -> None:
        """Record the accesses of `e`, which is evaluated where `guards` hold."""
        if (e, guards) in self.seen:
            return
        self.seen.add((e, guards))
        match e:
            case BufferLoad():
                self._touch(e.buffer.data, (*e.children(), *guards), written=False)
            case Call(op="if_then_else"):
                condition, yes, no = e.args
                self._expr(condition, guards)
                self._expr(yes, (*guards, condition))
                self._expr(no, (*guards, condition))
                return
            case And() | Or():
                self._expr(e.a, guards)
                self._expr(e.b, (*guards, e.a))
                return
            case Let():
                self._define(e.var, e.value)
            case Call():
                self._call(e, guards)
            case Var() if e.dtype.is_handle:
                self._touch(e, guards, written=True)
        for child in e.children():
            self._expr(child, guards)

    def _call(self, e: Call, guards: tuple[Expr, ...]) -> None:
        """Count all memory that a call gets a pointer to as read and written."""
        for argument in e.args:
            if isinstance(argument, Var) and argument.dtype.is_handle:
                self._touch(argument, (*e.args, *guards), written=True)
        if e.op == "address_of" and isinstance(e.args[0], BufferLoad):
            load = e.args[0]
            self._touch(load.buffer.data, (*load.indices, *guards), written=True)
        if e.op == "ptx_cp_async" and isinstance(e.args[0], Var):
            self._fly(e.args[0])

    def _touch(self, data: Var, decisive: tuple[Expr, ...], written: bool) -> None:
        for base in self.aliases.get(data, (data,)):
            if written:
                for scope in self.scopes:
                    scope.written.add(base)
            if base in self.touches:
                self.touched = True
                touch = _Touch(self.place, tuple(self.scopes), decisive, self.depth.get(base, 0))
                self.touches[base].append(touch)

    def _fly(self, data: Var) -> None:
        for base in self.aliases.get(data, (data,)):
            self.flights.append((base, self.place, tuple(self.scopes)))

    def _note(self, var: Var, values: tuple[Expr, ...]) -> None:
        self.defined[var] = (self.place, values)
        if not all(is_uniform(e, self.threads) for e in values):
            self.threads.add(var)

    def _define(self, var: Var, value: Expr) -> None:
        self._note(var, (value,))
        if var.dtype.is_handle:
            mentioned = {v for v in free_vars(value) if v.dtype.is_handle}
            mentioned |= {load.buffer.data for load in loads_in(value)}
            bases = frozenset(b for v in mentioned for b in self.aliases.get(v, (v,)))
            self.aliases[var] = bases

    # -- intervals ----------------------------------------------------------------------------

    def interval(self, data: Var) -> Interval:
        """The interval from the first to the last place at which the memory is needed."""
        touches = self.touches[data]
        first = min(t.place for t in touches)
        last = max(t.place for t in touches)
        begin, end = first, last
        for loop in {scope for t in touches for scope in t.scopes[t.outside :] if scope.loop}:
            within = loop.begin < begin and end < loop.end
            if not within or not self._repeats(loop, touches):
                first, last = min(first, loop.begin), max(last, loop.end)
        for scope in {scope for t in touches for scope in t.scopes if scope.cases}:
            if not all(is_uniform(e, self.threads) for e in scope.conditions):
                first, last = min(first, scope.begin), max(last, scope.end)
        for pointer, place, scopes in self.flights:
            if pointer is data:
                arrival, held = self._arrival(place, scopes)
                last = max(last, arrival, *(scope.end for scope in held))
                first = min((first, *(scope.begin for scope in held)))
        return Interval(first, last)

    def _arrival(self, place: int, scopes: tuple[_Scope, ...]) -> tuple[int, list[_Scope]]:
        """Where a copy started at `place` is surely complete, and the loops that it outlasts."""
        for wait, around in self.waits:
            if wait > place and scopes[: len(around)] == around:
                return wait, [s for s in scopes[len(around) :] if s.loop]
        return self.place, [s for s in scopes if s.loop]

    def _repeats(self, loop: _Scope, touches: Sequence[_Touch]) -> bool:
        """True if each iteration of `loop` surely makes the same accesses."""
        for touch in touches:
            inner = touch.scopes[touch.scopes.index(loop) + 1 :]
            heads = [e for scope in inner for e in scope.conditions]
            if any(self._changes(e, loop) for e in (*touch.decisive, *heads)):
                return False
        return True

    def _changes(self, e: Expr, loop: _Scope) -> bool:
        """True if `e` may have different values in different iterations of `loop`."""
        for part in distinct(e):
            match part:
                case BufferLoad():
                    bases = self.aliases.get(part.buffer.data, (part.buffer.data,))
                    if not loop.written.isdisjoint(bases):
                        return True
                case Call() if effect(part.op) in (Effect.READ, Effect.OPAQUE):
                    return True
                case Var():
                    if isinstance(loop.loop, For) and part is loop.loop.loop_var:
                        return True
                    place, values = self.defined.get(part, (-1, ()))
                    if place > loop.begin and any(self._changes(v, loop) for v in values):
                        return True
        return False
