"""Whether what is copied asynchronously is waited for before it is read, on every way.

A copy belongs to the group that its thread commits next. It has arrived after a wait for all but n
groups when at least n more were committed since, and other threads see it after the barrier that
follows. Memory is looked at buffer by buffer: of one whose parts are filled in turns, as in a
pipeline, nothing is proved here.
"""

from __future__ import annotations

from collections.abc import Mapping

from autosched.tir.expr import BufferLoad, Call, IntImm, Var
from autosched.tir.stmt import (
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
)
from autosched.tir.walk import child_stmts, direct_exprs, pre_order
from autosched.transform.device.thread_access import is_barrier

_STARTED, _ARRIVED, _SEEN = -1, 1 << 20, 1 << 21
"""How far a copy is: started, committed (so many groups ago), arrived, seen by all threads."""
_State = Mapping[Var, int]


def early_reads(kernel: AttrStmt) -> list[Stmt]:
    """The statements that may touch what is still being copied; none when all is waited for."""
    finder = _Finder()
    finder.after(kernel, {})
    return list(finder.early)


def copies(kernel: Stmt) -> bool:
    """Whether a kernel copies asynchronously."""
    return any(
        isinstance(e, Call) and e.op == "ptx_cp_async"
        for root in direct_exprs(kernel)
        for e in pre_order(root)
    ) or any(map(copies, child_stmts(kernel)))


class _Finder:
    def __init__(self) -> None:
        self.early: dict[Stmt, None] = {}

    def after(self, s: Stmt, state: _State) -> _State:
        """The least that is known of each buffer's copies after `s`."""
        for root in direct_exprs(s):
            for e in pre_order(root):
                if isinstance(e, BufferLoad) and state.get(e.buffer.data, _SEEN) < _SEEN:
                    self.early[s] = None
        match s:
            case SeqStmt():
                for part in s.stmts:
                    state = self.after(part, state)
                return state
            case Evaluate(Call() as call):
                return self._call(s, call, state)
            case BufferStore() if state.get(s.buffer.data, _SEEN) < _SEEN:
                self.early[s] = None
            case IfThenElse():
                other = state if s.else_case is None else self.after(s.else_case, state)
                return _least(self.after(s.then_case, state), other)
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
            return {data: _SEEN if far == _ARRIVED else far for data, far in state.items()}
        match call.op:
            case "ptx_cp_async" if isinstance(call.args[0], Var):
                return {**state, call.args[0]: _STARTED}
            case "ptx_commit_group":
                return {data: far + 1 if far < _ARRIVED else far for data, far in state.items()}
            case "ptx_wait_group":
                newest = call.args[0]
                least = newest.value if isinstance(newest, IntImm) else _ARRIVED
                return {
                    data: _ARRIVED if least <= far < _ARRIVED and far >= 0 else far
                    for data, far in state.items()
                }
        for e in pre_order(call):  # a pointer through which it may be read
            if isinstance(e, Var) and state.get(e, _SEEN) < _SEEN:
                self.early[s] = None
        return state


def _least(a: _State, b: _State) -> _State:
    return {data: min(a.get(data, _SEEN), b.get(data, _SEEN)) for data in {**a, **b}}
