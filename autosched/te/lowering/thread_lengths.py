"""Checks that all loops of a kernel bound to one thread axis have the launch's one length.

    launch(blockIdx.x, 4)
    with launch(threadIdx.x, 64):        # C, whose loop of 64 is bound
        C[...] = ...
    launch(threadIdx.x_1, 32)            # D, whose loop of 32 is bound: refused

Separate kernels are separate launches and may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.te.bounds.thread_scope import is_virtual_thread
from autosched.te.lowering.loop_nest import Domains
from autosched.tir.expr import IntImm, IterVar
from autosched.tir.stmt import AttrStmt, Stmt
from autosched.tir.walk import child_stmts, stmts
from autosched.words import count

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule
    from autosched.te.schedule.stage import Stage

Bound = tuple["Stage", IterVar, IterVar, int]
"""A stage, one of its loops, the thread axis that runs the loop, and the loop's extent."""


def check_thread_lengths(body: Stmt, sch: Schedule, bounds: Domains) -> None:
    """Raise ScheduleError where loops of one kernel bound to one axis have different lengths.

    `body` is the statement of the normalised `sch`, `bounds` the result of infer_bound.
    """
    bound = [found for stage in sch.stages for found in _loops_on_threads(stage, bounds)]
    lengths = {(thread.thread_tag, length) for _, _, thread, length in bound}
    # Only if a tag has two lengths anywhere (rarely) do the kernels need to be told apart.
    if len(lengths) > len({tag for tag, _ in lengths}):
        _check_kernels(body, bound)


def _loops_on_threads(stage: Stage, bounds: Domains) -> Iterator[Bound]:
    """The loops of `stage` that real threads run, if their extent is constant."""
    loops = [*stage.env_thread_axes, *stage.leaf_iter_vars]
    for iv in loops:
        attr = stage.iter_var_attrs.get(iv)
        thread = iv if attr is None or attr.bind_thread is None else attr.bind_thread
        if not thread.thread_tag or is_virtual_thread(thread.thread_tag) or iv not in bounds:
            continue
        extent = bounds[iv].extent
        if isinstance(extent, IntImm):
            yield stage, iv, thread, extent.value


def _check_kernels(s: Stmt, bound: Sequence[Bound]) -> None:
    if not _is_launch(s):
        for child in child_stmts(s):
            _check_kernels(child, bound)
        return
    launched = {part.node for part in stmts(s) if isinstance(part, AttrStmt) and _is_launch(part)}
    first: dict[str, Bound] = {}
    for stage, iv, thread, length in bound:
        if thread not in launched:
            continue
        tag = thread.thread_tag
        other, axis, _, known = first.setdefault(tag, (stage, iv, thread, length))
        if known != length:
            raise ScheduleError(
                f"schedule_ops: {_named(stage, iv)} bound to {tag}: it has "
                f"{count(length, 'iteration')}, but {_named(other, axis)} in the same kernel has "
                f"{known}; loops on one thread axis must have the same length: split both by the "
                "same factor, or bind one of them to another thread axis"
            )


def _named(stage: Stage, iv: IterVar) -> str:
    axis = "env_threads" if iv in stage.env_thread_axes else f"axis {iv.var.name}"
    return f"stage {stage.op.name}, {axis}"


def _is_launch(s: Stmt) -> bool:
    return isinstance(s, AttrStmt) and s.key == "thread_extent"
