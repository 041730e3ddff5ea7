"""Checks user-given store predicates (set_store_predicate): their variables must be in scope."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.tir.expr import IterVar, Var
from autosched.tir.stmt import AttrStmt, For, IfThenElse, Stmt
from autosched.tir.walk import child_stmts, free_vars

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule
    from autosched.te.schedule.stage import Stage


def check_store_predicates(body: Stmt, sch: Schedule, known: Iterable[Var]) -> None:
    """ScheduleError where a store predicate uses a thread or loop that is not around the store.

    `body` is the statement of `sch`; `known` are the variables defined by the function's arguments.
    """
    used: dict[Var, Stage] = {}
    for stage in sch.stages:
        if stage.store_predicate is not None:
            used.update(dict.fromkeys(free_vars(stage.store_predicate), stage))
    if used:
        _check(body, used, frozenset(known))


def _check(s: Stmt, used: dict[Var, Stage], bound: frozenset[Var]) -> None:
    match s:
        case For():
            bound |= {s.loop_var}
        case AttrStmt(node=IterVar() as axis):
            bound |= {axis.var}
        case IfThenElse():
            for var in sorted((free_vars(s.condition) & used.keys()) - bound, key=_name):
                raise ScheduleError(
                    f"set_store_predicate: stage {used[var].name}: {var.name} is neither an axis "
                    "of its tensor nor around its store; use the te.thread_axis that its own loop, "
                    "or one around the stage, is bound to"
                )
    for child in child_stmts(s):
        _check(child, used, bound)


def _name(var: Var) -> str:
    return var.name
