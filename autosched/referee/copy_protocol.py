"""Proofs that every asynchronous copy is waited for before its data are read, on every path.

A copy belongs to the group that its thread commits next. It has arrived after a wait for all but n
groups if at least n more groups were committed since. Other threads see it after the next barrier.
Loops in which groups are committed are enumerated, so that each slot of a buffer that is filled in
turns, as in a pipeline, is tracked by itself (`touched_bytes.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from autosched.referee.touched_bytes import Bytes, TouchedBytes
from autosched.tir.expr import Call, Expr, IntImm, Var
from autosched.tir.stmt import Evaluate, For, IfThenElse, SeqStmt, Stmt, While
from autosched.tir.walk import child_stmts, direct_exprs, free_vars, pre_order, stmts
from autosched.transform.device.thread_access import is_barrier
from autosched.transform.device.thread_index import evaluate

_STARTED, _ARRIVED, _SEEN = -1, 1 << 20, 1 << 21
"""The state of a copy: started, committed (so many groups ago), arrived, visible to all threads."""
_State = Mapping[Bytes, int]
_MOST = 1 << 16  # iterations of a loop that is enumerated


def early_reads(kernel: Stmt) -> list[Stmt]:
    """The statements that may access memory while it is copied; empty if there are none."""
    finder = _Finder(kernel)
    finder.after(kernel, {})
    return list(finder.early)


def copies(kernel: Stmt) -> bool:
    """Whether a kernel contains asynchronous copies."""
    return any(_calls(s, "ptx_cp_async") for s in stmts(kernel))


def _calls(s: Stmt, op: str) -> bool:
    return any(
        isinstance(e, Call) and e.op == op for root in direct_exprs(s) for e in pre_order(root)
    )


class _Finder:
    def __init__(self, kernel: Stmt) -> None:
        self.early: dict[Stmt, None] = {}
        self._touched = TouchedBytes(kernel)
        self._values: dict[Var, int] = {}  # of the loops that are enumerated

    def after(self, s: Stmt, state: _State) -> _State:
        """The least state, over all paths, of the copies to each part of memory after `s`."""
        match s:
            case SeqStmt():
                for part in s.stmts:
                    state = self.after(part, state)
                return state
            case Evaluate(Call(op="ptx_cp_async")):
                copied = dict.fromkeys(self._touched.of(s, self._values), _STARTED)
                if not copied:  # the destination is unknown
                    self.early[s] = None
                return {**state, **copied}
        for touched in self._touched.of(s, self._values):
            if any(far < _SEEN and touched.meets(part) for part, far in state.items()):
                self.early[s] = None
        match s:
            case Evaluate(Call() as call):
                return self._call(s, call, state)
            case IfThenElse():
                return self._branches(s, state)
            case For() if self._is_counted(s):
                return self._counted(s, state)
            case For() | While():
                before: _State | None = None
                while before != state:
                    before, state = state, _least(state, self.after(s.body, state))
                return state
        for child in child_stmts(s):
            state = self.after(child, state)
        return state

    def _call(self, s: Evaluate, call: Call, state: _State) -> _State:
        if is_barrier(s, "shared"):
            return {part: _SEEN if far == _ARRIVED else far for part, far in state.items()}
        match call.op:
            case "ptx_commit_group":
                return {part: far + 1 if far < _ARRIVED else far for part, far in state.items()}
            case "ptx_wait_group":
                newest = call.args[0]
                least = newest.value if isinstance(newest, IntImm) else _ARRIVED
                return {
                    part: _ARRIVED if least <= far < _ARRIVED and far >= 0 else far
                    for part, far in state.items()
                }
        return state

    def _branches(self, s: IfThenElse, state: _State) -> _State:
        holds = evaluate(s.condition, {v: np.asarray(k) for v, k in self._values.items()})
        ways = []
        if holds is None or holds:
            with self._touched.where(s.condition):
                ways.append(self.after(s.then_case, state))
        if holds is None or not holds:
            ways.append(state if s.else_case is None else self.after(s.else_case, state))
        return ways[0] if len(ways) == 1 else _least(*ways)

    def _is_counted(self, s: For) -> bool:
        """Whether a loop commits groups and has a known, small number of iterations."""
        known = isinstance(s.min, IntImm) and isinstance(s.extent, IntImm)
        few = known and s.extent.value <= _MOST  # type: ignore[attr-defined]  # it is an IntImm
        return few and any(_calls(each, "ptx_commit_group") for each in stmts(s.body))

    def _counted(self, s: For, state: _State) -> _State:
        """The state after all iterations; equal iterations from equal states are computed once."""
        assert isinstance(s.min, IntImm) and isinstance(s.extent, IntImm)
        numbers = np.arange(s.min.value, s.min.value + s.extent.value)
        known: dict[tuple[bytes, frozenset[tuple[Bytes, int]]], _State] = {}
        for number, kind in zip(numbers, self._kinds(s, numbers), strict=True):
            key = kind, frozenset(state.items())
            if key not in known:
                self._values[s.loop_var] = int(number)
                known[key] = self.after(s.body, state)
            state = known[key]
        self._values.pop(s.loop_var, None)
        return state

    def _kinds(self, s: For, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[bytes]:
        """A key for each iteration: iterations with equal keys have the same effect."""
        counted = frozenset((*self._values, s.loop_var))
        env = {v: np.asarray(k, np.int64) for v, k in self._values.items()}
        env[s.loop_var] = numbers
        columns = []
        for e in dict.fromkeys(self._deciding(s.body, counted)):
            if s.loop_var in free_vars(e):
                found = evaluate(e, env)
                columns.append(numbers if found is None else found.astype(np.int64))
        rows = np.stack(columns, axis=1) if columns else np.zeros((len(numbers), 1), np.int64)
        return [row.tobytes() for row in rows]

    def _deciding(self, s: Stmt, counted: frozenset[Var]) -> Iterator[Expr]:
        """The conditions and index terms in `s` that depend on enumerated loops.

        Expressions that depend on a nested enumerated loop are included; that loop has no value
        yet.
        """
        if isinstance(s, IfThenElse) and free_vars(s.condition) <= counted:
            yield s.condition
        yield from self._touched.deciding(s, counted)
        inner = counted | {s.loop_var} if isinstance(s, For) and self._is_counted(s) else counted
        for child in child_stmts(s):
            yield from self._deciding(child, inner)


def _least(a: _State, b: _State) -> _State:
    return {part: min(a.get(part, _SEEN), b.get(part, _SEEN)) for part in {**a, **b}}
