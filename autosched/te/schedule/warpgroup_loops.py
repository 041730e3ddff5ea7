"""Schedules the loops of a matrix product that wgmma computes from shared memory."""

from __future__ import annotations

from autosched.te.intrin.warpgroup import compute_name
from autosched.te.operations.operation import ComputeOp
from autosched.te.schedule.tile_loops import TileLoops
from autosched.tir.expr import IterVar
from autosched.tir.warpgroup_matrix import wgmma_swizzle


class WarpgroupLoops(TileLoops):
    """Schedules the stages that `warpgroup_stages` makes."""

    def _sums(self, warp: IterVar) -> tuple[IterVar, IterVar]:
        """Schedule C.acc; return its loop over operand tiles, and that over statements in one."""
        stage, tile, view = self.acc, self.tile, self.view
        stage.compute_at(self.rows, warp)
        assert isinstance(stage.op, ComputeOp)
        *batch, group, of_group, slab, piece, mi, ni = stage.op.axis
        ko, ki = stage.op.reduce_axis
        outer, inner = stage.split(ko, factor=tile.block_k // self.it.extent("k"))
        stage.reorder(*batch, outer, inner, group, of_group, slab, piece, mi, ni, ki)
        name = compute_name(view.layout_a, view.layout_b, tile.block_n)
        stage.tensorize(slab, self.body[name])
        return outer, inner

    def _fragments(self, inner: IterVar) -> None:
        """Do nothing: wgmma has no operand fragments."""

    def _swizzle(self, row: int) -> str:
        return str(wgmma_swizzle(self.it.a.dtype))
