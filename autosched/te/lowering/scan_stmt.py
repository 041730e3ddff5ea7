"""The loop over time of a scan, into which its init and update stages are put."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.te.bounds.bound_check import make_bound_check
from autosched.te.lowering.loop_nest import (
    Building,
    Level,
    Values,
    guards,
    make_loop_nest,
    wrap_all,
)
from autosched.te.lowering.scan_barriers import STEP
from autosched.te.operations.operation import PlaceholderOp, ScanOp
from autosched.tir.expr import IntImm, ProducerLoad, Var
from autosched.tir.op import cast, const
from autosched.tir.stmt import AttrStmt, For, ForKind, ProducerStore, Stmt, nop, seq

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage


def make_scan_stmt(stage: Stage, building: Building) -> Stmt:
    """Environment threads, the place of the init stages, the time loop, that of the updates.

    The two places are recorded in `building.markers` under (operation, "init" | "update").
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
    return wrap_all([[*threads, init]], seq(*_copies(op), loops))


def _copies(op: ScanOp) -> list[Stmt]:
    """The first steps of states whose init is an input rather than computed by a stage."""
    copies: list[Stmt] = []
    for init, output in zip(op.init, op.outputs, strict=True):
        if isinstance(init.op, PlaceholderOp):
            axes = tuple(
                Var(f"{init.name}.i{dim}", extent.dtype) for dim, extent in enumerate(init.shape)
            )
            body: Stmt = ProducerStore(output, ProducerLoad(init, axes), axes)
            for var, extent in reversed(list(zip(axes, init.shape, strict=True))):
                body = For(var, const(0, extent.dtype), extent, ForKind.SERIAL, body)
            copies.append(body)
    return copies
