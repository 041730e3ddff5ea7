"""Schedules the loops of a matrix product on tensor cores: blocks, warps, fragments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.registry import statements
from autosched.te.operations.compute import thread_axis
from autosched.te.operations.operation import ComputeOp
from autosched.te.schedule.matrix_stages import MatrixTile
from autosched.te.schedule.matrix_view import MatrixView, total
from autosched.tir.expr import IterVar
from autosched.tir.gpu import BANKS, MOST_BLOCKS, SECTOR, WARP
from autosched.tir.swizzle import swizzle_for

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

_PIECE = 16


class TileLoops:
    """Schedules the stages that `matrix_stages` makes.

    `made` are the new stages, `writer` is the stage that stores the result.
    """

    def __init__(
        self,
        made: Sequence[Stage],
        writer: Stage,
        view: MatrixView,
        it: Instruction,
        tile: MatrixTile,
    ) -> None:
        self.a, self.b, *self.fragments, self.acc, self.rows = made
        self.writer = writer
        self.view = view
        self.it = it
        self.tile = tile
        self.body = statements(it.name)

    def run(self, positions: Sequence[int]) -> None:
        """Schedule all stages; `positions` are those of the batch, m and n axes in the writer."""
        block = self._blocks(positions)
        warp = self._warps(block)
        outer, inner = self._sums(warp)
        self._fragments(inner)
        view = self.view
        for stage, layout, width, turned in (
            (self.a, view.layout_a, view.width_a, view.turned_a),
            (self.b, view.layout_b, view.width_b, view.turned_b),
        ):
            stage.compute_at(self.acc, outer)
            sizes = {"m": self.tile.block_m, "n": self.tile.block_n, "k": self.tile.block_k}
            if turned:
                first = self._turned(stage, width, sizes[layout[0]])
            else:
                first = self._together(stage, stage.op.root_iter_vars, width)
            swizzle = self._swizzle(sizes[layout[1]])
            if self.tile.swizzle and swizzle:
                stage.pragma(first, "swizzle", swizzle)
        if self.tile.stages > 1:
            self.acc.pragma(outer, "software_pipeline", self.tile.stages)

    def _swizzle(self, row: int) -> str:
        """The swizzle of a tile with rows of `row` elements, as a pragma value; "" for none."""
        found = swizzle_for(row, self.it.a.dtype.bytes)
        return "" if found is None else str(found)

    def _blocks(self, positions: Sequence[int]) -> IterVar:
        """Bind the writer's loops: a block for each tile of the result, stored by all its threads.

        Blocks along x are columns, along y rows, along z batches. All are along x where rows or
        batches exceed the limit of a launch along y or z. Returns the innermost block loop.
        """
        stage, view = self.writer, self.view
        assert isinstance(stage.op, ComputeOp)
        axes = [stage.op.axis[k] for k in positions]
        stage.reorder(*axes)
        count, middle = len(view.batch), len(view.batch) + len(view.m)
        batch = [self._fused(stage, axes[:count])] if count else []
        m, n = self._fused(stage, axes[count:middle]), self._fused(stage, axes[middle:])
        block_m, m = stage.split(m, factor=self.tile.block_m)
        block_n, n = stage.split(n, factor=self.tile.block_n)
        stage.reorder(*batch, block_m, block_n, m, n)
        blocks = [block_n, block_m, *batch]
        rows = -(-total(view.m) // self.tile.block_m)
        if max(rows, total(view.batch)) > MOST_BLOCKS:
            blocks = [self._fused(stage, blocks[::-1])]
        for axis, tag in zip(blocks, "xyz", strict=False):
            stage.bind(axis, thread_axis(f"blockIdx.{tag}"))
        width = self._width_of_rows(axes[middle:])
        self._together(stage, (m, n), width)
        return blocks[0]

    def _width_of_rows(self, axes: Sequence[IterVar]) -> int:
        """The number of elements of a row of the result that are stored at once: 4, 2 or 1."""
        size = total(axes[-1:])
        return next(width for width in (4, 2, 1) if size % width == 0)

    def _fused(self, stage: Stage, axes: Sequence[IterVar]) -> IterVar:
        first, *rest = axes
        for axis in rest:
            first = stage.fuse(first, axis)
        return first

    def _together(self, stage: Stage, axes: Sequence[IterVar], width: int) -> IterVar:
        """Distribute the axes over all threads of the block, `width` elements at once.

        Returns the loop that remains in each thread.
        """
        flat = self._fused(stage, axes)
        flat, vector = stage.split(flat, factor=width)
        flat, lane = stage.split(flat, factor=WARP)
        flat, warp_n = stage.split(flat, factor=self.tile.block_n // self.tile.warp_n)
        flat, warp_m = stage.split(flat, factor=self.tile.block_m // self.tile.warp_m)
        for axis, tag in ((warp_m, "z"), (warp_n, "y"), (lane, "x")):
            stage.bind(axis, thread_axis(f"threadIdx.{tag}"))
        if width > 1:
            stage.vectorize(vector)
        return flat

    def _turned(self, stage: Stage, width: int, block: int) -> IterVar:
        """Distribute a transposing copy: lanes run along rows of the source, columns of the tile.

        A warp reads a whole sector of each row, of as many rows as it has lanes for. Each lane
        stores `width` elements of its column at once. The tile has `block` columns. Returns the
        loop that remains in each thread.
        """
        *batch, column, k = stage.op.root_iter_vars
        columns = math.gcd(block, SECTOR // self.it.a.dtype.bytes)
        k, piece = stage.split(k, factor=width)
        k, row = stage.split(k, factor=WARP // columns)
        outer, column = stage.split(column, factor=columns)
        stage.reorder(*batch, k, outer, row, column, piece)
        if width > 1:
            stage.vectorize(piece)
        return self._together(stage, (*batch, k, outer, row, column), 1)

    def _warps(self, block: IterVar) -> IterVar:
        """Schedule C.tile, whose parts warps store in rows; return the loop over warps along n."""
        stage, tile, it = self.rows, self.tile, self.it
        stage.compute_at(self.writer, block)
        assert isinstance(stage.op, ComputeOp)
        *batch, m, n = stage.op.axis
        # Rows start 8 banks apart, so that the pairs stored to four rows cover all banks.
        stage.storage_align(m, BANKS, 8)
        warp_m, m = stage.split(m, factor=tile.warp_m)
        m, row = stage.split(m, factor=it.extent("m"))
        warp_n, n = stage.split(n, factor=tile.warp_n)
        n, column = stage.split(n, factor=it.extent("n"))
        stage.reorder(*batch, warp_m, warp_n, m, n, row, column)
        stage.bind(warp_m, thread_axis("threadIdx.z"))
        stage.bind(warp_n, thread_axis("threadIdx.y"))
        stage.tensorize(row, self.body["store"])
        return warp_n

    def _sums(self, warp: IterVar) -> tuple[IterVar, IterVar]:
        """Schedule C.acc; return its loop over operand tiles, and that over calls within one."""
        stage = self.acc
        stage.compute_at(self.rows, warp)
        assert isinstance(stage.op, ComputeOp)
        *batch, mo, no, mi, ni = stage.op.axis
        ko, ki = stage.op.reduce_axis
        outer, inner = stage.split(ko, factor=self.tile.block_k // self.it.extent("k"))
        stage.reorder(*batch, outer, inner, mo, no, mi, ni, ki)
        stage.tensorize(mi, self.body["compute"])
        return outer, inner

    def _fragments(self, inner: IterVar) -> None:
        a, b = self.fragments
        for stage in (a, b):
            stage.compute_at(self.acc, inner)
        assert isinstance(a.op, ComputeOp) and isinstance(b.op, ComputeOp)
        *_, mi, _ = a.op.axis
        a.tensorize(mi, self.body[f"load:{self.view.layout_a}"])
        *_, no, _, _ = b.op.axis
        _, pair = b.split(no, factor=_PIECE // self.it.extent("n"))
        b.tensorize(pair, self.body[f"load:{self.view.layout_b}"])
