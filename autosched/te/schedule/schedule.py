"""Schedules: the stages of a tensor program, and the primitives that involve several stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.arguments import found
from autosched.errors import ScheduleError
from autosched.te.bounds.reads import unguarded_reads_of
from autosched.te.operations.graph import post_order_ops, read_graph, replace_inputs
from autosched.te.operations.operation import ComputeOp, Operation, ScanOp
from autosched.te.operations.other_names import OF_SCHEDULES, OtherNames
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType
from autosched.te.schedule import auto_inline, cache, groups
from autosched.te.schedule import matrix_tiles as matrix
from autosched.te.schedule import normalize as normalization
from autosched.te.schedule import rfactor as factoring
from autosched.te.schedule import use_instruction as instructions
from autosched.te.schedule.refusal import check_tensor, refusal
from autosched.te.schedule.stage import Stage

__all__ = ["Schedule", "Stage", "create_schedule"]


class Schedule(OtherNames):
    """A schedule of the operations that `outputs` need, with a Stage for each, producers first.

    `stage_map` maps operations to stages: those given at creation as well as those that replaced
    them. `groups` are the stage groups.
    """

    __slots__ = ("groups", "outputs", "stage_map", "stages")
    other_names = OF_SCHEDULES

    def __init__(self) -> None:
        self.outputs: list[Operation] = []
        self.stages: list[Stage] = []
        self.groups: list[Stage] = []
        self.stage_map: dict[Operation, Stage] = {}

    def __getitem__(self, key: Tensor | Operation) -> Stage:
        op = key.op if isinstance(key, Tensor) else key
        stage = self.stage_map.get(op) if isinstance(op, Operation) else None
        if stage is None:
            known = ", ".join(s.op.name for s in self.stages)
            raise ScheduleError(f"{key!r} is not in this schedule; its stages are {known}")
        return stage

    cache_read = cache.cache_read
    matrix_tiles = matrix.matrix_tiles
    cache_write = cache.cache_write
    rfactor = factoring.rfactor
    use_instruction = instructions.use_instruction
    create_group = groups.create_group
    auto_inline_elementwise = auto_inline.auto_inline_elementwise
    auto_inline_broadcast = auto_inline.auto_inline_broadcast
    auto_inline_injective = auto_inline.auto_inline_injective
    normalize = normalization.normalize
    normalize_for_feature_extraction = normalization.normalize_for_feature_extraction

    def copy(self) -> Schedule:
        """An independent schedule of the same operations; axes and operations are shared."""
        new = Schedule()
        table: dict[Stage, Stage] = {old: old.copy() for old in (*self.stages, *self.groups)}
        new.outputs = self.outputs.copy()
        new.stages = [table[old] for old in self.stages]
        new.groups = [table[old] for old in self.groups]
        new.stage_map = {op: table[stage] for op, stage in self.stage_map.items()}
        for stage in table.values():
            if stage.attach_stage is not None:
                stage.attach_stage = _own(table, stage)
            if stage.group is not None:
                stage.group = table[stage.group]
        return new

    def current_tensor(self, tensor: Tensor) -> Tensor:
        """The tensor that has replaced `tensor`, once primitives have rewritten its operation."""
        check_tensor("current_tensor", tensor)
        return self[tensor].op.outputs[tensor.value_index]

    def insert_stage(self, position: int, op: Operation, group: Stage | None) -> Stage:
        """Insert a new stage for `op` at `position`, as a member of `group`, and return it."""
        stage = Stage(op)
        stage.group = group
        if group is not None:
            group.num_child_stages += 1
        self.stages.insert(position, stage)
        self.stage_map[op] = stage
        return stage

    def replace_ops(self, table: Mapping[Operation, Operation]) -> None:
        """Replace the operations in `table`, and all operations that read their outputs.

        The loops of the stages stay; a replacement must therefore keep the axes it has loops for.
        """
        tensors: dict[Tensor, Tensor] = {}
        for stage in self.stages:
            old = stage.op
            new = replace_inputs(table.get(old, old), tensors)
            if new is not old:
                tensors.update(zip(old.outputs, new.outputs, strict=True))
                stage.op = new
                self.stage_map[new] = stage
        self.outputs = [self.stage_map[op].op for op in self.outputs]


def _own(table: Mapping[Stage, Stage], stage: Stage) -> Stage:
    """The copy in `table` of the stage that `stage` is attached to; ScheduleError without one."""
    around = stage.attach_stage
    assert around is not None
    if around not in table:
        why = f"stage {around.name}, which it is computed at, belongs to another schedule"
        raise refusal("compute_at", stage, stage.attach_ivar, f"{why}; give that of this schedule")
    return table[around]


def create_schedule(ops: Operation | Tensor | Sequence[Operation | Tensor]) -> Schedule:
    """The schedule that computes `ops` (and all they need) in order, every loop as declared.

    Stages are in post-order of a depth-first search from each output, the inputs of an operation
    in order of first appearance in its body. Raises ScheduleError where an operation reads out of
    bounds outside of any branch.
    """
    given = ops if isinstance(ops, Sequence) else [ops]
    for op in given:
        if not isinstance(op, Operation | Tensor):
            raise ScheduleError(
                "create_schedule: expected tensors or operations to compute, "
                f"e.g. te.create_schedule(C.op), {found(op)}"
            )
    outputs = list(dict.fromkeys(op.op if isinstance(op, Tensor) else op for op in given))
    if not outputs:
        raise ScheduleError("create_schedule: no operation given")
    schedule = Schedule()
    schedule.outputs = outputs
    every = post_order_ops(outputs)
    _check_reads(every)
    for op in every:
        stage = schedule.insert_stage(len(schedule.stages), op, None)
        stage.is_output = op in outputs
    for op in list(schedule.stage_map):
        if isinstance(op, ScanOp):
            _attach_scan(schedule, op)
    return schedule


def _check_reads(ops: Sequence[Operation]) -> None:
    """ScheduleError for reads that are known to be out of bounds; else set `reads_inside`.

    Operations of a scan's step are not checked: their time axis starts later than declared. Reads
    in branches are accepted, as by TVM's te: a producer stage may compute more than its shape.
    """
    in_scans = read_graph([op for op in ops if isinstance(op, ScanOp)])
    unknown = [op for op in ops if isinstance(op, ComputeOp) and not op.reads_inside]
    for read in unguarded_reads_of([op for op in unknown if op not in in_scans]):
        if why := read.refusal():
            raise ScheduleError(f"create_schedule: {why}")
    for op in unknown:
        op.reads_inside = op not in in_scans


def _attach_scan(schedule: Schedule, scan: ScanOp) -> None:
    """Group the operations of a step of the scan, and attach group and updates to the scan."""
    stage = schedule[scan]
    given = (*scan.state, *scan.inputs_list)
    read = [tensor for tensor in given if tensor.op in schedule.stage_map]
    group = schedule.create_group(scan.update, read)
    updates = [schedule[tensor] for tensor in scan.update]
    for member in (group, *updates):
        member.attach_type = AttachType.SCAN_UPDATE
        member.attach_ivar = scan.scan_axis
        member.attach_stage = stage
