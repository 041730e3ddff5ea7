"""Matrix products on the tensor cores of a GPU: the stages that feed and drain them.

`matrix_tiles` makes of one reduction the stages

| stage | where | what |
|---|---|---|
| C.a, C.b | shared memory | the operands' tiles of a block, zeros beyond the edges |
| C.a.frag, C.b.frag | fragments | what a warp multiplies at once, loaded by ldmatrix |
| C.acc | fragments | the sums, added up by mma.sync |
| C.tile | shared memory | the block's result, in rows |
| C, or what reads it | as before | copied from C.tile, with the rest of its expression |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autosched.te.bounds.infer_bound import WHOLE_TILES
from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.registry import instruction, statements
from autosched.te.operations.compute import compute, reduce_axis, thread_axis
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.te.operations.reduction import sum as sum_over
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType
from autosched.te.schedule.matrix_view import (
    MatrixView,
    matrix_view,
    number_of,
    total,
    values_at,
)
from autosched.te.schedule.refusal import refuse
from autosched.tir.expr import Expr, Var, IterVar
from autosched.tir.op import all_, const, floordiv, floormod, if_then_else, lt
from autosched.tir.swizzle import swizzle_for
from autosched.tir.walk import substitute

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule
    from autosched.te.schedule.stage import Stage

_PIECE = 16
_WARP = 32
_BANKS = 32


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """The sizes of a tensor-core product.

    A block computes `block_m` x `block_n` elements in steps of `block_k` terms, each of its warps
    `warp_m` x `warp_n`. `stages` is how many tiles of the operands shared memory holds at once
    (1: no copies ahead); `swizzle` exchanges their elements so that no bank is met twice.
    """

    block_m: int
    block_n: int
    block_k: int
    warp_m: int
    warp_n: int
    stages: int = 3
    swizzle: bool = True

    @property
    def warps(self) -> int:
        """The warps of a block."""
        return self.block_m // self.warp_m * (self.block_n // self.warp_n)

    def problem(self, it: Instruction) -> str:
        """Why the sizes do not go together, or an empty text."""
        for name, block, warp, least in (
            ("m", self.block_m, self.warp_m, it.extent("m")),
            ("n", self.block_n, self.warp_n, _PIECE),
        ):
            if warp < 1 or warp % least or block < 1 or block % warp:
                return (
                    f"warp_{name} must be a multiple of {least} and divide block_{name}, found "
                    f"{warp} and {block}"
                )
        if self.block_k < 1 or self.block_k % it.extent("k"):
            return f"block_k must be a multiple of {it.extent('k')}, found {self.block_k}"
        if not 1 <= self.warps <= _WARP:
            return f"a block has at most {_WARP} warps, found {self.warps}"
        return "" if 1 <= self.stages <= 8 else f"stages must be 1 to 8, found {self.stages}"


def matrix_tiles(
    schedule: Schedule,
    tensor: Tensor | Operation,
    tile: MatrixTile,
    instruction_name: str,
    writer: Tensor | Operation | None = None,
) -> list[Tensor]:
    """Compute the matrix product `tensor` by the tensor instruction, a warp at a time.

    Batches are blocks of their own. Sizes need not divide: tiles end in zeros, and what lies
    beyond the edges is not stored. `writer` is an operation that reads `tensor` alone element by
    element (bias, activation): the product is inlined into it and never stored. Returns the new
    tensors: C.a, C.b, C.a.frag, C.b.frag, C.acc, C.tile. ScheduleError when the operation is no
    such product, has loops that were changed, or the sizes do not go together.
    """
    stage = schedule[tensor]
    last = stage if writer is None else schedule[writer]
    it = instruction(instruction_name)
    view = matrix_view(stage.op, it)
    if isinstance(view, str):
        raise refuse("matrix_tiles", stage, None, f"{view}; {it.name} multiplies matrices")
    problem = tile.problem(it)
    if problem:
        raise refuse("matrix_tiles", stage, None, problem)
    for each in (stage, last):
        if each.relations or each.attach_type is not AttachType.GROUP_ROOT:
            raise refuse("matrix_tiles", each, None, "its loops were changed before")
    if last is not stage:
        _check_writer(stage, last)
    assert isinstance(stage.op, ComputeOp)
    tensors, result = _operations(stage.op, view, it, tile)
    made: list[Stage] = []
    scopes = ("shared", "shared", it.a.scope, it.b.scope, it.c.scope, "shared")
    for new, scope in zip(tensors, scopes, strict=True):
        made.append(schedule.insert_stage(schedule.stages.index(stage), new.op, stage.group))
        made[-1].scope = scope
    positions = [stage.op.axis.index(iv) for iv in (*view.batch, *view.m, *view.n)]
    schedule.replace_ops({stage.op: result})
    stage.reset_loops(result)
    if last is not stage:
        stage.compute_inline()
    _Scheduler(made, last, view, it, tile).run(positions)
    return tensors


def _check_writer(stage: Stage, writer: Stage) -> None:
    op, source = writer.op, stage.op
    same = isinstance(op, ComputeOp) and isinstance(source, ComputeOp) and not op.reduce_axis
    if not same or op.output(0).shape != source.output(0).shape:
        raise refuse(
            "matrix_tiles", writer, None, f"it does not read {source.name} element by element"
        )


def _operations(
    op: ComputeOp, view: MatrixView, it: Instruction, tile: MatrixTile
) -> tuple[list[Tensor], ComputeOp]:
    """The new operations, and what the product's own operation becomes."""
    rows, columns, terms = view.sizes()
    m, n, k = (
        -(-size // block) * block
        for size, block in zip(
            (rows, columns, terms), (tile.block_m, tile.block_n, tile.block_k), strict=True
        )
    )
    size_m, size_n, step = it.extent("m"), it.extent("n"), it.extent("k")
    lead = [total((iv,)) for iv in view.batch]
    count = len(lead)

    def operand(name: str, e: Expr, layout: str, width: int) -> Tensor:
        """A tile of an operand, zero where there is none."""
        axes = {"m": view.m, "n": view.n, "k": view.k}
        sizes = {"m": (rows, m), "n": (columns, n), "k": (terms, k)}

        def element(*indices: Expr) -> Expr:
            table: dict[Var, Expr] = {
                iv.var: at for iv, at in zip(view.batch, indices, strict=False)
            }
            inside: list[Expr] = []
            for place, (letter, at) in enumerate(zip(layout, indices[count:], strict=True)):
                table |= values_at(axes[letter], at)
                size, padded = sizes[letter]
                # Together for as many elements as are copied at once.
                unit = width if place == 1 else 1
                if padded > size:
                    inside.append(lt(floordiv(at, unit), size // unit))
            value = substitute(e, table)
            return if_then_else(all_(*inside), value, const(0, value.dtype)) if inside else value

        shape = (*lead, *(sizes[letter][1] for letter in layout))
        names = [*(f"b{d}" for d in range(count)), *layout]
        made: Tensor = compute(shape, element, name, axis_names=names)
        return made

    a = operand(f"{op.name}.a", view.a, view.layout_a, view.width_a)
    b = operand(f"{op.name}.b", view.b, view.layout_b, view.width_b)

    def piece_of_a(*i: Expr) -> Expr:
        *batch, mo, ko, mi, ki = i
        at = {"m": mo * size_m + mi, "k": ko * step + ki}
        return a[(*batch, *(at[letter] for letter in view.layout_a))]

    def piece_of_b(*i: Expr) -> Expr:
        *batch, ko, no, ki, ni = i
        at = {"n": no * size_n + ni, "k": ko * step + ki}
        return b[(*batch, *(at[letter] for letter in view.layout_b))]

    batch = [f"b{d}" for d in range(count)]
    shape_a = (*lead, m // size_m, k // step, size_m, step)
    shape_b = (*lead, k // step, n // size_n, step, size_n)
    a_names, b_names = [*batch, "mo", "ko", "mi", "ki"], [*batch, "ko", "no", "ki", "ni"]
    frag_a: Tensor = compute(shape_a, piece_of_a, f"{op.name}.a.frag", axis_names=a_names)
    frag_b: Tensor = compute(shape_b, piece_of_b, f"{op.name}.b.frag", axis_names=b_names)
    ko, ki = reduce_axis((0, k // step), "ko"), reduce_axis((0, step), "ki")
    dtype = it.c.dtype.name

    def product(*i: Expr) -> Expr:
        *rest, mo, no, mi, ni = i
        left, right = frag_a[(*rest, mo, ko, mi, ki)], frag_b[(*rest, ko, no, ki, ni)]
        made: Expr = sum_over(left.astype(dtype) * right.astype(dtype), axis=[ko, ki])
        return made

    shape_c = (*lead, m // size_m, n // size_n, size_m, size_n)
    c_names = [*batch, "mo", "no", "mi", "ni"]
    acc: Tensor = compute(shape_c, product, f"{op.name}.acc", axis_names=c_names)

    def in_rows(*i: Expr) -> Expr:
        *rest, row, column = i
        place = (floordiv(row, size_m), floordiv(column, size_n))
        return acc[(*rest, *place, floormod(row, size_m), floormod(column, size_n))]

    whole = {WHOLE_TILES: (*(1 for _ in lead), tile.block_m, tile.block_n)}
    names = [*batch, "m", "n"]
    shape = (*lead, m, n)
    rows_of_c: Tensor = compute(shape, in_rows, f"{op.name}.tile", attrs=whole, axis_names=names)
    place = (*(iv.var for iv in view.batch), number_of(view.m), number_of(view.n))
    result = ComputeOp(op.name, op.axis, [rows_of_c[place]], op.tag, op.attrs)
    return [a, b, frag_a, frag_b, acc, rows_of_c], result


class _Scheduler:
    """The loops of the stages: blocks, warps, fragments."""

    def __init__(
        self,
        made: Sequence[Stage],
        writer: Stage,
        view: MatrixView,
        it: Instruction,
        tile: MatrixTile,
    ) -> None:
        self.a, self.b, self.frag_a, self.frag_b, self.acc, self.rows = made
        self.writer = writer
        self.view = view
        self.it = it
        self.tile = tile
        self.body = statements(it.name)

    def run(self, positions: Sequence[int]) -> None:
        """Schedules all; `positions` are the writer's axes in the order batch, m, n."""
        block = self._blocks(positions)
        warp = self._warps(block)
        outer, inner = self._sums(warp)
        self._fragments(inner)
        for stage, layout, width in (
            (self.a, self.view.layout_a, self.view.width_a),
            (self.b, self.view.layout_b, self.view.width_b),
        ):
            stage.compute_at(self.acc, outer)
            first = self._together(stage, stage.op.root_iter_vars, width)
            sizes = {"m": self.tile.block_m, "n": self.tile.block_n, "k": self.tile.block_k}
            swizzle = swizzle_for(sizes[layout[1]], self.it.a.dtype.bytes)
            if self.tile.swizzle and swizzle is not None:
                stage.pragma(first, "swizzle", str(swizzle))
        if self.tile.stages > 1:
            self.acc.pragma(outer, "software_pipeline", self.tile.stages)

    def _blocks(self, positions: Sequence[int]) -> IterVar:
        """A block for each tile of the result, all of whose threads store it."""
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
        for axis, tag in zip((block_n, block_m, *batch), "xyz", strict=False):
            stage.bind(axis, thread_axis(f"blockIdx.{tag}"))
        width = self._width_of_rows(axes[middle:])
        self._together(stage, (m, n), width)
        return block_n

    def _width_of_rows(self, axes: Sequence[IterVar]) -> int:
        """So many elements of a row of the result are stored at once."""
        size = total(axes[-1:])
        return next(width for width in (4, 2, 1) if size % width == 0)

    def _fused(self, stage: Stage, axes: Sequence[IterVar]) -> IterVar:
        first, *rest = axes
        for axis in rest:
            first = stage.fuse(first, axis)
        return first

    def _together(self, stage: Stage, axes: Sequence[IterVar], width: int) -> IterVar:
        """The axes for all threads of the block, `width` elements each; the loop that is left."""
        flat = self._fused(stage, axes)
        flat, vector = stage.split(flat, factor=width)
        flat, lane = stage.split(flat, factor=_WARP)
        flat, warp = stage.split(flat, factor=self.tile.warps)
        stage.bind(warp, thread_axis("threadIdx.y"))
        stage.bind(lane, thread_axis("threadIdx.x"))
        if width > 1:
            stage.vectorize(vector)
        return flat

    def _warps(self, block: IterVar) -> IterVar:
        """Each warp stores its part of the tile by rows."""
        stage, tile, it = self.rows, self.tile, self.it
        stage.compute_at(self.writer, block)
        assert isinstance(stage.op, ComputeOp)
        *batch, m, n = stage.op.axis
        stage.storage_align(m, _BANKS, 8)  # pairs of four rows meet all banks
        warp_m, m = stage.split(m, factor=tile.warp_m)
        m, row = stage.split(m, factor=it.extent("m"))
        warp_n, n = stage.split(n, factor=tile.warp_n)
        n, column = stage.split(n, factor=it.extent("n"))
        stage.reorder(*batch, warp_m, warp_n, m, n, row, column)
        warp = stage.fuse(warp_m, warp_n)
        stage.bind(warp, thread_axis("threadIdx.y"))
        stage.tensorize(row, self.body["store"])
        return warp

    def _sums(self, warp: IterVar) -> tuple[IterVar, IterVar]:
        """Tiles of terms, and steps of the instruction in them."""
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
        view = self.view
        for stage in (self.frag_a, self.frag_b):
            stage.compute_at(self.acc, inner)
        assert isinstance(self.frag_a.op, ComputeOp) and isinstance(self.frag_b.op, ComputeOp)
        *_, mi, _ = self.frag_a.op.axis
        self.frag_a.tensorize(mi, self.body[f"load:{view.layout_a}"])
        *_, no, _, _ = self.frag_b.op.axis
        _, pair = self.frag_b.split(no, factor=_PIECE // self.it.extent("n"))
        self.frag_b.tensorize(pair, self.body[f"load:{view.layout_b}"])
