"""Matrix products on the tensor cores of a GPU: the stages that feed and drain them.

`matrix_tiles` replaces one reduction by the stages

| stage | where | contents |
|---|---|---|
| C.a, C.b | shared memory | the operand tiles of a block, zeros beyond the edges |
| C.a.frag, C.b.frag | fragments | the operands of one instruction, loaded by ldmatrix |
| C.acc | fragments | the sums, accumulated by mma.sync |
| C.tile | shared memory | the block's result, in rows |
| C, or its reader | as before | copied from C.tile, with the rest of its expression |

`wgmma` multiplies directly from shared memory: there are no C.a.frag and C.b.frag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.arguments import found
from autosched.te.intrin.registry import instruction
from autosched.te.intrin.warpgroup import is_of_warpgroup
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType
from autosched.te.schedule.matrix_stages import MatrixTile, matrix_stages
from autosched.te.schedule.matrix_view import matrix_view
from autosched.te.schedule.refusal import refusal
from autosched.te.schedule.tile_loops import TileLoops
from autosched.te.schedule.warpgroup_loops import WarpgroupLoops
from autosched.te.schedule.warpgroup_stages import warpgroup_stages

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule
    from autosched.te.schedule.stage import Stage


def matrix_tiles(
    schedule: Schedule,
    tensor: Tensor | Operation,
    tile: MatrixTile,
    instruction_name: str,
    writer: Tensor | Operation | None = None,
) -> list[Tensor]:
    """Compute the matrix product `tensor` by the tensor instruction `instruction_name`.

    The instruction is executed by one warp, or by four together (wgmma). Each batch has blocks of
    its own. Tile sizes need not divide the matrices: tiles are padded with zeros, and elements
    beyond the edges are not stored. `writer` is an operation that reads `tensor` element by element
    (bias, activation): the product is inlined into it and not stored. Returns the new tensors: C.a,
    C.b, C.a.frag, C.b.frag (neither with wgmma), C.acc, C.tile. ScheduleError when the operation is
    not a matrix product, its loops were changed before, or the sizes do not fit.
    """
    stage = schedule[tensor]
    last = stage if writer is None else schedule[writer]
    it = instruction(instruction_name)
    view = matrix_view(stage.op, it)
    if isinstance(view, str):
        raise refusal("matrix_tiles", stage, None, f"{view}; {it.name} multiplies matrices")
    expected = isinstance(tile, MatrixTile)
    problem = tile.problem(it) if expected else f"tile: expected a te.MatrixTile, {found(tile)}"
    if problem:
        raise refusal("matrix_tiles", stage, None, problem)
    for each in (stage, last):
        if each.relations or each.attach_type is not AttachType.GROUP_ROOT:
            raise refusal("matrix_tiles", each, None, "its loops were changed before")
    if last is not stage:
        _check_writer(stage, last)
    assert isinstance(stage.op, ComputeOp)
    of_warpgroup = is_of_warpgroup(it)
    make, loops = (warpgroup_stages, WarpgroupLoops) if of_warpgroup else (matrix_stages, TileLoops)
    tensors, result = make(stage.op, view, it, tile)
    made: list[Stage] = []
    fragments = () if of_warpgroup else (it.a.scope, it.b.scope)
    scopes = ("shared", "shared", *fragments, it.c.scope, "shared")
    for new, scope in zip(tensors, scopes, strict=True):
        made.append(schedule.insert_stage(schedule.stages.index(stage), new.op, stage.group))
        made[-1].scope = scope
    positions = [stage.op.axis.index(iv) for iv in (*view.batch, *view.m, *view.n)]
    schedule.replace_ops({stage.op: result})
    stage.reset_loops(result)
    if last is not stage:
        stage.compute_inline()
    loops(made, last, view, it, tile).run(positions)
    return tensors


def _check_writer(stage: Stage, writer: Stage) -> None:
    op, source = writer.op, stage.op
    same = isinstance(op, ComputeOp) and isinstance(source, ComputeOp) and not op.reduce_axis
    if not same or op.output(0).shape != source.output(0).shape:
        raise refusal(
            "matrix_tiles", writer, None, f"it does not read {source.name} element by element"
        )
