"""ScheduleOps: lowers a normalised schedule and its bounds to one statement.

Stages are visited from the last to the first. The statement of each is inserted where the stage is
attached, before the statements that are there already, inside the realization of its storage.

docs/semantics/bounds.md has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.te.bounds.attach_path import scans_of_inits
from autosched.te.bounds.bound_check import BoundFacts
from autosched.te.lowering.buffer_binding import bind_scope, whole
from autosched.te.lowering.compute_stmt import make_compute_stmt
from autosched.te.lowering.intrin_calls import make_intrin_calls
from autosched.te.lowering.loop_nest import Building, Domains
from autosched.te.lowering.post_process import original_tensors, post_process
from autosched.te.lowering.scan_barriers import order_steps
from autosched.te.lowering.scan_stmt import make_scan_stmt
from autosched.te.lowering.stage_memory import check_global, realized_scope
from autosched.te.lowering.thread_lengths import check_thread_lengths
from autosched.te.operations.operation import ComputeOp, ExternOp, PlaceholderOp, ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_compute import TensorComputeOp
from autosched.te.relations import AttachType
from autosched.tir.dtype import handle
from autosched.tir.expr import Call, IntImm, IterVar, Range
from autosched.tir.op import add, const
from autosched.tir.stmt import TRUE, AttrStmt, ProducerRealize, Stmt, is_nop, nop, seq

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule
    from autosched.te.schedule.stage import Stage


def schedule_ops(sch: Schedule, bounds: Domains) -> Stmt:
    """The statement over tensors that computes the normalised `sch` with `bounds` of infer_bound.

    Outputs are realized, too. Raises ScheduleError for annotations that do not fit the domains, for
    iterations on different threads that would fill memory which each thread has for itself, and for
    loops of one kernel that bind one thread axis with different lengths.
    """
    scans = scans_of_inits(sch.stages)
    building = Building(bounds, BoundFacts(bounds), scans)
    body: Stmt = nop()
    for stage in reversed(sch.stages):
        if stage.attach_type is AttachType.INLINED or isinstance(stage.op, PlaceholderOp):
            continue
        spec = stage.attach_spec()
        if stage.op in scans:
            key: object = (scans[stage.op].op, "init")
        elif spec.attach_type is AttachType.SCAN_UPDATE:
            assert spec.attach_stage is not None
            key = (spec.attach_stage.op, "update")
        elif spec.attach_type is AttachType.SCOPE:
            key = spec.attach_ivar
        else:
            body = _pipeline(stage, body, building)
            continue
        marker = building.markers.get(key)
        if marker is None:
            raise _no_marker(stage, spec)
        marker.body = _pipeline(stage, marker.body, building)
    done = post_process(body, sch, building.values)
    check_thread_lengths(done, sch, bounds)
    return order_steps(done, _conditional(sch)) if scans else done


def _conditional(sch: Schedule) -> list[Tensor]:
    """The tensors whose stores have a user's predicate, so that elements may stay unstored."""
    original = original_tensors(sch)
    stages = [stage for stage in sch.stages if stage.store_predicate is not None]
    return [original.get(tensor, tensor) for stage in stages for tensor in stage.op.outputs]


def _no_marker(stage: Stage, spec: Stage) -> ScheduleError:
    axis = spec.attach_ivar
    around = spec.attach_stage
    return ScheduleError(
        f"schedule_ops: stage {stage.op.name} is attached at "
        f"{axis.var.name if axis else '?'} of {around.op.name if around else '?'}, for which no "
        "loop has been made"
    )


def _pipeline(stage: Stage, consumer: Stmt, building: Building) -> Stmt:
    """The statement of `stage`, then `consumer`, both inside the realization of its outputs."""
    body = _provide(stage, building)
    if stage.is_double_buffered:
        body = AttrStmt(stage.op, "double_buffer_scope", IntImm(1), body)
    if not is_nop(consumer):
        body = seq(body, consumer)
    if stage.op in building.scans or stage.attach_type is AttachType.SCAN_UPDATE:
        return body  # init and update stages store into the scan's tensors, realized by the scan
    check_global(stage, building.scans)
    return _realize(stage, body, building)


def _provide(stage: Stage, building: Building) -> Stmt:
    op = stage.op
    if isinstance(op, ComputeOp):
        return make_compute_stmt(stage, op, building)
    if isinstance(op, ScanOp):
        return make_scan_stmt(stage, building)
    if isinstance(op, TensorComputeOp):
        return make_intrin_calls(stage, op, building)
    assert isinstance(op, ExternOp)
    tensors = (*op.input_tensors, *op.outputs)
    buffers = (*op.input_buffers, *op.output_buffers)
    body = op.body
    for tensor, buffer in zip(tensors, buffers, strict=True):
        body = bind_scope(buffer, tensor, whole(tensor), body)
    return body


def _realize(stage: Stage, body: Stmt, building: Building) -> Stmt:
    op, domains = stage.op, building.domains
    axis = 0
    regions: list[tuple[Tensor, tuple[Range, ...]]] = []
    for tensor in op.outputs:
        if isinstance(op, ComputeOp):
            bounds = tuple(domains[iv] for iv in op.axis)
        elif isinstance(op, ScanOp):
            time = domains[op.scan_axis]
            steps = Range(const(0, time.min.dtype), add(time.extent, time.min))
            rest = op.spatial_axis[axis : axis + len(tensor.shape) - 1]
            axis += len(rest)
            bounds = (steps, *(domains[iv] for iv in rest))
        elif isinstance(op, TensorComputeOp):
            bounds = (*(domains[iv] for iv in op.axis), *whole(tensor)[len(op.axis) :])
        else:
            bounds = whole(tensor)
        regions.append((tensor, bounds))
    for tensor, bounds in reversed(regions):
        body = ProducerRealize(tensor, bounds, TRUE, body, realized_scope(stage, building.scans))
        if isinstance(op, ComputeOp | TensorComputeOp):
            body = _align(stage, op.axis, tensor, body)
    return body


def _align(stage: Stage, axes: Sequence[IterVar], tensor: Tensor, body: Stmt) -> Stmt:
    for dim, iv in enumerate(axes):
        attr = stage.iter_var_attrs.get(iv)
        if attr is not None and attr.dim_align_factor != 0:
            wanted = (dim, attr.dim_align_factor, attr.dim_align_offset)
            value = Call(handle, "tuple", tuple(map(IntImm, wanted)))
            body = AttrStmt(tensor, "buffer_dim_align", value, body)
    return body
