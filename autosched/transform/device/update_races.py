"""Updates of shared memory that all threads of a block make at once, which no barrier can mend."""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.tir.expr import BufferLoad, IntImm, Var
from autosched.tir.stmt import AttrStmt, BufferStore, For, IfThenElse, LetStmt, Stmt, While
from autosched.tir.walk import child_stmts, pre_order, stmts
from autosched.transform.device.thread_index import is_uniform


def check_updates(region: AttrStmt, scope: str, function: str) -> None:
    """Raise ScheduleError where each thread of a block adds to the same element of `scope`.

    A reduction in shared memory no loop of which is bound to threadIdx is one. Where an index, or
    something around the statement, depends on the thread, not all threads meet.
    """
    threads = frozenset(
        s.node.var
        for s in stmts(region)
        if isinstance(s, AttrStmt)
        and s.key == "thread_extent"
        and (s.node.thread_tag or s.node.var.name).startswith("threadIdx")
        and not (isinstance(s.value, IntImm) and s.value.value == 1)
    )
    if threads:
        _check(region, scope, function, threads)


def _check(s: Stmt, scope: str, function: str, threads: frozenset[Var]) -> None:
    """`threads` are the axes of more than one thread, and what is made of them around `s`."""
    match s:
        case AttrStmt(key="hand_threaded"):
            return
        case LetStmt() if not is_uniform(s.value, threads):
            threads |= {s.var}
        case For() if not (is_uniform(s.min, threads) and is_uniform(s.extent, threads)):
            return
        case IfThenElse() | While() if not is_uniform(s.condition, threads):
            return
        case BufferStore() if s.buffer.scope == scope and _updates(s):
            if all(is_uniform(index, threads) for index in s.indices):
                raise ScheduleError(
                    f"ThreadSync: {function}: all threads of a block add to the same element of "
                    f"{s.buffer.name} in {scope} memory; bind a loop of its stage to threadIdx"
                )
    for child in child_stmts(s):
        _check(child, scope, function, threads)


def _updates(s: BufferStore) -> bool:
    return any(
        isinstance(e, BufferLoad) and e.buffer.data is s.buffer.data and e.indices == s.indices
        for e in pre_order(s.value)
    )
