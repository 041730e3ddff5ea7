"""The accesses of a function to its allocations, in order, and the lifetime of each allocation."""

from __future__ import annotations

from dataclasses import dataclass, field

from autosched.tir.expr import BufferLoad, Expr, IntImm, IterVar, Var
from autosched.tir.loops import trip_count
from autosched.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from autosched.tir.walk import child_stmts, direct_exprs, free_vars
from autosched.transform.expressions.effects import is_lasting

_SCOPE_ATTRIBUTES = ("virtual_thread", "extern_scope")


@dataclass(slots=True, eq=False)
class Entry:
    """A statement that accesses allocations, or the beginning or end of a scope.

    Both ends of a scope have the same `touched`, the allocations accessed inside.
    """

    stmt: Stmt
    touched: dict[Var, None]
    is_scope: bool = False
    is_end: bool = False


@dataclass(slots=True, eq=False)
class Events:
    """The allocations whose first (`born`) or last (`dying`) access is in one statement."""

    born: list[Var] = field(default_factory=list)
    dying: list[Var] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class LinearAccess:
    """The accesses of a function and the allocations that may move.

    `entries` are in program order, and `events` are given per statement. The allocations in
    `allocations` may move to the outermost statement around them for which `opens_attach_scope`
    holds, or to the start of the function. `addressed` are those whose pointer is used by itself
    somewhere.
    """

    entries: list[Entry]
    allocations: dict[Var, Allocate]
    events: dict[Stmt, Events]
    addressed: set[Var]


def linear_access(body: Stmt) -> LinearAccess:
    """Collect the accesses in `body`.

    Left out are allocations with annotations, and those whose size is not known at the place that
    they would move to: a size that reads memory, that depends on a variable bound further inside,
    or that is behind a condition.
    """
    finder = _Finder()
    finder.stmt(body)
    events = _liveness(finder.entries)
    return LinearAccess(finder.entries, finder.allocations, events, finder.addressed)


def opens_attach_scope(s: Stmt) -> bool:
    """Whether allocations inside `s` move to its start; the outermost such statement counts."""
    if isinstance(s, AttrStmt):
        return s.key in ("thread_extent", "virtual_thread")
    return isinstance(s, For) and s.kind is ForKind.PARALLEL


class _Finder:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.allocations: dict[Var, Allocate] = {}
        self._levels: dict[Var, int] = {}
        self._scopes: list[dict[Var, None]] = []
        self._in_threads = False
        self._pointers: dict[Expr, tuple[Var, ...]] = {}
        self.addressed: set[Var] = set()
        # Since the start of the function or of the outermost attach scope: the variables that were
        # bound, and whether the code that follows is conditional.
        self._attached = False
        self._inner: set[Var] = set()
        self._conditional = False

    def stmt(self, s: Stmt) -> None:
        if isinstance(s, BufferStore | Evaluate):
            self._leaf(s)
        elif not self._attached and opens_attach_scope(s):
            outside = self._inner, self._conditional
            self._attached, self._inner, self._conditional = True, set(), False
            self._nested(s)
            self._attached, (self._inner, self._conditional) = False, outside
        else:
            conditional = self._conditional
            self._enter(s)
            self._nested(s)
            self._conditional = conditional

    def _enter(self, s: Stmt) -> None:
        match s:
            case For():
                self._inner.add(s.loop_var)
                self._conditional = self._conditional or not trip_count(s)
            case LetStmt():
                self._inner.add(s.var)
            case AttrStmt() if isinstance(s.node, IterVar):
                self._inner.add(s.node.var)
            case IfThenElse() | While() | AssertStmt():
                self._conditional = True

    def _may_move(self, alloc: Allocate) -> bool:
        sizes = (*alloc.extents, alloc.condition)
        if alloc.annotations:
            return False
        if all(isinstance(e, IntImm) for e in sizes):
            return True
        return not self._conditional and all(
            is_lasting(e) and self._inner.isdisjoint(free_vars(e)) for e in sizes
        )

    def _nested(self, s: Stmt) -> None:
        match s:
            case For() | IfThenElse() | LetStmt() | While() | AssertStmt():
                self._scope(s)
            case AttrStmt(key="thread_extent") if not self._in_threads:
                self._in_threads = True
                self._scope(s)
                self._in_threads = False
            case AttrStmt() if s.key in _SCOPE_ATTRIBUTES:
                self._scope(s)
            case _:
                if isinstance(s, Allocate) and self._may_move(s):
                    self.allocations[s.buffer_var] = s
                    self._levels[s.buffer_var] = len(self._scopes)
                self._inside(s)

    def _inside(self, s: Stmt) -> None:
        for e in direct_exprs(s):
            self._touch_all(e)
        for child in child_stmts(s):
            self.stmt(child)

    def _leaf(self, s: BufferStore | Evaluate) -> None:
        touched: dict[Var, None] = {}
        self._scopes.append(touched)
        if isinstance(s, BufferStore):
            self._touch(s.buffer.data)
        for e in direct_exprs(s):
            self._touch_all(e)
        self._scopes.pop()
        if touched:
            self.entries.append(Entry(s, touched))

    def _scope(self, s: Stmt) -> None:
        touched: dict[Var, None] = {}
        self.entries.append(Entry(s, touched, is_scope=True))
        self._scopes.append(touched)
        self._inside(s)
        self._scopes.pop()
        self.entries.append(Entry(s, touched, is_scope=True, is_end=True))

    def _touch(self, pointer: Var) -> None:
        level = self._levels.get(pointer)
        if level is not None and level < len(self._scopes):
            self._scopes[level].setdefault(pointer)

    def _touch_all(self, e: Expr) -> None:
        for pointer in self._pointers_in(e):
            self._touch(pointer)

    def _pointers_in(self, e: Expr) -> tuple[Var, ...]:
        found = self._pointers.get(e)
        if found is None:
            own: dict[Var, None] = {}
            if isinstance(e, Var) and e.dtype.is_handle:
                own[e] = None
                self.addressed.add(e)
            elif isinstance(e, BufferLoad):
                own[e.buffer.data] = None
            for child in e.children():
                own.update(dict.fromkeys(self._pointers_in(child)))
            found = self._pointers[e] = tuple(own)
        return found


def _liveness(entries: list[Entry]) -> dict[Stmt, Events]:
    events: dict[Stmt, Events] = {}
    seen: set[Var] = set()
    for entry in reversed(entries):
        for pointer in entry.touched:
            if pointer not in seen:
                seen.add(pointer)
                events.setdefault(entry.stmt, Events()).dying.append(pointer)
    seen.clear()
    for entry in entries:
        if entry.is_end:
            continue
        for pointer in entry.touched:
            if pointer not in seen:
                seen.add(pointer)
                events.setdefault(entry.stmt, Events()).born.append(pointer)
    return events
