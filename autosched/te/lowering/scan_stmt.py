"""Lowering of a scan: its loop over time, and the places for its init and update stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.te.bounds.bound_check import make_bound_check
from autosched.te.bounds.thread_scope import thread_rank
from autosched.te.lowering.loop_nest import (
    Building,
    Level,
    Values,
    guards,
    make_loop_nest,
    wrap,
    wrap_all,
)
from autosched.te.lowering.scan_barriers import STEP
from autosched.te.lowering.stage_memory import real_threads
from autosched.te.operations.operation import PlaceholderOp, ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.dtype import int32
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar, ProducerLoad, Var
from autosched.tir.op import cast, const
from autosched.tir.stmt import AttrStmt, For, ForKind, ProducerStore, Stmt, nop, seq

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage


def make_scan_stmt(stage: Stage, building: Building) -> Stmt:
    """The statement of a scan: environment threads, and inside of them init stages and time loop.

    The places for the init and update stages are recorded in `building.markers` under (operation,
    "init") and (operation, "update"). First steps that are inputs are copied before the time loop;
    if the environment threads include blocks, which cannot wait for each other, by kernels of their
    own.
    """
    op = stage.op
    assert isinstance(op, ScanOp)
    values: Values = {}
    nest = make_loop_nest(stage, building, 0, False, (), values)
    checks = make_bound_check(stage, building.domains, values, False, (), building.facts)
    init = AttrStmt(op, "loop_scope", IntImm(0), nop())
    update = AttrStmt(op, "loop_scope", IntImm(0), nop())
    building.markers[op, "init"], building.markers[op, "update"] = init, update
    threads: Level = []
    for thread in stage.env_thread_axes:
        assert thread.dom is not None
        extent = cast(thread.var.dtype, thread.dom.extent)
        threads.append(AttrStmt(thread, "thread_extent", extent, nop()))
    step = AttrStmt(op, STEP, IntImm(1), update)
    loops = wrap_all([*nest, guards(checks)], step)
    blocks = any(thread_rank(thread.thread_tag) == 0 for thread in stage.env_thread_axes)
    if blocks and not real_threads(stage, building.scans):  # else all blocks would copy everything
        return seq(*_copies(op, "blockIdx.x"), wrap_all([[*threads, init]], loops))
    return wrap_all([[*threads, init]], seq(*_copies(op), loops))


def _copies(op: ScanOp, tag: str = "") -> list[Stmt]:
    """The copies of the first steps of states whose init is an input, not computed by a stage.

    With a thread `tag`, each copy is a kernel of its own, whose second dimension is bound to `tag`.
    """
    return [
        _copy(init, output, tag)
        for init, output in zip(op.init, op.outputs, strict=True)
        if isinstance(init.op, PlaceholderOp)
    ]


def _copy(init: Tensor, output: Tensor, tag: str) -> Stmt:
    loops: Level = []
    indices: list[Expr] = []
    for dim, extent in enumerate(init.shape):
        if tag and dim == 1:
            thread = IterVar(None, Var(tag), IterKind.THREAD, tag)
            loops.insert(0, AttrStmt(thread, "thread_extent", cast(int32, extent), nop()))
            indices.append(cast(extent.dtype, thread.var))
        else:
            var = Var(f"{init.name}.i{dim}", extent.dtype)
            loops.append(For(var, const(0, extent.dtype), extent, ForKind.SERIAL, nop()))
            indices.append(var)
    if tag and len(indices) == 1:
        thread = IterVar(None, Var(tag), IterKind.THREAD, tag)
        loops.insert(0, AttrStmt(thread, "thread_extent", IntImm(1), nop()))
    return wrap(loops, ProducerStore(output, ProducerLoad(init, tuple(indices)), tuple(indices)))
