"""Updates of one element by many threads of a kernel at once, which no barrier can mend."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.errors import ScheduleError
from autosched.tir.constants import is_one
from autosched.tir.expr import BufferLoad, Expr, Var
from autosched.tir.stmt import AttrStmt, BufferStore, For, IfThenElse, LetStmt, Stmt, While
from autosched.tir.walk import child_stmts, pre_order, stmts
from autosched.transform.device.thread_index import is_uniform

Axes = Mapping[str, frozenset[Var]]
"""By the tag of a thread axis what depends on it: its variables, and what is made of them."""


def check_updates(region: AttrStmt, scope: str, function: str) -> None:
    """Raise ScheduleError where all threads along an axis add to the same element of `scope`.

    A reduction in shared memory no loop of which is bound to threadIdx is one, and one in global
    memory beside a stage that is bound to more axes. Where an index, or something around the
    statement, depends on the axis, its threads do not all meet; an element that they all can read
    is the same for all. Blocks meet in global memory only; each warp has memory of scope warp for
    itself, where all axes together are looked at.
    """
    axes: dict[str, frozenset[Var]] = {}
    for s in stmts(region):
        if isinstance(s, AttrStmt) and s.key == "thread_extent" and not is_one(s.value):
            tag = s.node.thread_tag or s.node.var.name
            if scope == "global" or tag.startswith("threadIdx"):
                axes[tag] = axes.get(tag, frozenset()) | {s.node.var}
    if scope == "warp" and axes:
        axes = {" and ".join(sorted(axes)): frozenset[Var]().union(*axes.values())}
    _check(region, scope, function, axes)


def _check(s: Stmt, scope: str, function: str, axes: Axes) -> None:
    """`axes` are those along which all threads come to `s` alike."""
    match s:
        case AttrStmt(key="hand_threaded"):
            return
        case LetStmt():
            same = _uniform(axes, s.value)
            axes = {tag: v if tag in same else v | {s.var} for tag, v in axes.items()}
        case For():
            axes = _uniform(axes, s.min, s.extent)
        case IfThenElse() | While():
            axes = _uniform(axes, s.condition)
        case BufferStore() if s.buffer.scope == scope and _updates(s):
            predicate = () if s.predicate is None else (s.predicate,)
            missed = " and ".join(sorted(_uniform(axes, *s.indices, *predicate)))
            if missed:
                raise ScheduleError(
                    f"ThreadSync: {function}: all threads along {missed} add to the same element "
                    f"of {s.buffer.name} in {scope} memory; bind a loop of its stage to {missed}"
                )
    if not axes:
        return
    for child in child_stmts(s):
        _check(child, scope, function, axes)


def _uniform(axes: Axes, *exprs: Expr) -> Axes:
    """Those of `axes` along which each of `exprs` has one value for all threads."""
    return {tag: v for tag, v in axes.items() if all(is_uniform(e, v, _common(tag)) for e in exprs)}


def _common(tag: str) -> tuple[str, ...]:
    """The scopes of memory that all threads along the axis share."""
    if tag.startswith("blockIdx"):
        return ("global",)
    return ("global", "shared", "shared.dyn")


def _updates(s: BufferStore) -> bool:
    return any(
        isinstance(e, BufferLoad) and e.buffer.data is s.buffer.data and e.indices == s.indices
        for e in pre_order(s.value)
    )
