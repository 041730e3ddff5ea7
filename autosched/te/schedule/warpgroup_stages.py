"""The operations that replace a matrix product whose operands wgmma reads from shared memory.

The instruction requires tiles of A and B with rows of 128 bytes: the contiguous axis is cut into
pieces of that size. The axes of the sums are chosen so that each factor's piece and row are plain
axes, without divisions in indices.
"""

from __future__ import annotations

from autosched.te.bounds.infer_bound import WHOLE_TILES
from autosched.te.intrin.instruction import Instruction
from autosched.te.operations.compute import compute, reduce_axis
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.reduction import sum as sum_over
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.matrix_stages import MatrixTile, operand_tile
from autosched.te.schedule.matrix_view import MatrixView, number_of, total
from autosched.tir.expr import Expr
from autosched.tir.op import floordiv, floormod
from autosched.tir.warpgroup_matrix import GROUP, IN_SLAB, RESULT_COLUMNS, ROWS_OF_WARP, SLAB

_ROWS = GROUP * ROWS_OF_WARP


def warpgroup_stages(
    op: ComputeOp, view: MatrixView, it: Instruction, tile: MatrixTile
) -> tuple[list[Tensor], ComputeOp]:
    """The new tensors C.a, C.b, C.acc and C.tile, and the replacement of `op`.

    The replacement copies C.tile to the result.
    """
    plain, terms = view.sizes(), it.extent("k")
    blocks = (tile.block_m, tile.block_n, tile.block_k)
    m, n, k = (-(-size // block) * block for size, block in zip(plain, blocks, strict=True))
    lead = [total((iv,)) for iv in view.batch]
    batch = [f"b{d}" for d in range(len(lead))]
    sizes = dict(zip("mnk", zip(plain, (m, n, k), strict=True), strict=True))
    a = operand_tile(f"{op.name}.a", view, view.a, view.layout_a, view.width_a, sizes, terms)
    b = operand_tile(f"{op.name}.b", view, view.b, view.layout_b, view.width_b, sizes, terms)
    ko, ki = reduce_axis((0, k // terms), "ko"), reduce_axis((0, terms), "ki")
    dtype = it.c.dtype.name

    def product(*i: Expr) -> Expr:
        *rest, group, warp, slab, piece, mi, ni = i
        row, column = warp * ROWS_OF_WARP + mi, piece * RESULT_COLUMNS + ni
        by_rows, by_columns = view.layout_a == "mk", view.layout_b == "kn"
        of_a = (ko, group * _ROWS + row, ki) if by_rows else (group, ko * terms + ki, row)
        of_b = (slab, ko * terms + ki, column) if by_columns else (ko, slab * SLAB + column, ki)
        left, right = a[(*rest, *of_a)], b[(*rest, *of_b)]
        added: Expr = sum_over(left.astype(dtype) * right.astype(dtype), axis=[ko, ki])
        return added

    shape = (*lead, m // _ROWS, GROUP, n // SLAB, IN_SLAB, ROWS_OF_WARP, RESULT_COLUMNS)
    names = [*batch, "group", "warp", "slab", "piece", "mi", "ni"]
    acc: Tensor = compute(shape, product, f"{op.name}.acc", axis_names=names)

    def in_rows(*i: Expr) -> Expr:
        *rest, row, column = i
        of_m = (floordiv(row, _ROWS), floormod(floordiv(row, ROWS_OF_WARP), GROUP))
        of_n = (floordiv(column, SLAB), floormod(floordiv(column, RESULT_COLUMNS), IN_SLAB))
        element = (floormod(row, ROWS_OF_WARP), floormod(column, RESULT_COLUMNS))
        return acc[(*rest, *of_m, *of_n, *element)]

    whole = {WHOLE_TILES: (*(1 for _ in lead), tile.block_m, tile.block_n)}
    rows: Tensor = compute(
        (*lead, m, n), in_rows, f"{op.name}.tile", attrs=whole, axis_names=[*batch, "m", "n"]
    )
    place = (*(iv.var for iv in view.batch), number_of(view.m), number_of(view.n))
    result = ComputeOp(op.name, op.axis, [rows[place]], op.tag, op.attrs)
    return [a, b, acc, rows], result
