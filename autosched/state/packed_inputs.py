"""Take constant inputs in the form in which a tensor instruction packs them, and drop the packing.

Schedule.use_instruction packs B in a stage of its own. Where B is a layout-free input whose sizes
divide, a candidate for pre-transformed inputs takes the output of that stage as its argument
instead:

before:                                       after:
    B.pack[no, ko, nt, l] = B[.., ..]             C.tile[...] += A[...] * B[no, ko, nt, l]
    C.tile[...] += A[...] * B.pack[no, ko, nt, l]
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase

from autosched.layout import LayoutChange
from autosched.state.dag import ComputeDAG
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp, PlaceholderOp
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.instruction_stages import PACKED
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import IntImm
from autosched.tir.op import const


class PackedDAG(ComputeDAG):
    """A computation whose schedules take packed inputs; `packed` describes how each is stored."""

    def __init__(self, dag: ComputeDAG, packed: Sequence[LayoutChange]) -> None:
        super().__init__(dag.tensors, dag.ops)
        self.packed = tuple(packed)

    def arguments_of(self, schedule: Schedule) -> list[Tensor]:
        """The argument tensors, after the packing is taken out of `schedule`."""
        tensors = super().arguments_of(schedule)
        for change in self.packed:
            given = tensors[change.position]
            tensors[change.position] = _as_argument(schedule, given, change)
        return tensors


def _as_argument(schedule: Schedule, given: Tensor, change: LayoutChange) -> Tensor:
    """Replace the stage that packs `given` by an input; return the input."""
    stage = next(s for s in schedule.stages if PACKED in s.op.attrs and given in s.op.inputs)
    stored = PlaceholderOp(given.op.name, tuple(map(const, change.new_shape)), given.dtype)
    stage.compute_root()
    schedule.replace_ops({stage.op: stored})
    stage.reset_loops(stored)
    stage.origin_op = stored  # the input is not derived from the stage that packed it
    plain = schedule[given]
    schedule.stages.remove(plain)
    schedule.stage_map = {op: s for op, s in schedule.stage_map.items() if s is not plain}
    return stored.output(0)


def packed_input(state: State, tensor: Tensor) -> LayoutChange | None:
    """The packing of `tensor` by the only stage that reads it; None if there is no such stage."""
    readers = [s.op for s in state.stages if isinstance(s.op, ComputeOp) and tensor in s.op.inputs]
    if len(readers) != 1 or PACKED not in readers[0].attrs:
        return None
    op = readers[0]
    dims: list[tuple[int, int]] = [(int(axis), int(size)) for axis, size in op.attrs[PACKED]]
    shape = [extent.value if isinstance(extent, IntImm) else -1 for extent in tensor.shape]
    names, position = ascii_lowercase[: len(shape)], state.dag.tensors.index(tensor)
    return LayoutChange.of_axes(tensor.op.name, position, names, shape, dims, joined=2)
