"""The operations that replace a matrix product on tensor cores, and the sizes of their tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral

from autosched.arguments import found
from autosched.te.bounds.infer_bound import WHOLE_TILES
from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.warpgroup import is_of_warpgroup
from autosched.te.operations.compute import compute, reduce_axis
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.reduction import sum as sum_over
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.matrix_view import MatrixView, number_of, total, values_at
from autosched.tir.expr import Expr, Var
from autosched.tir.op import all_, const, floordiv, floormod, if_then_else, lt
from autosched.tir.walk import substitute
from autosched.tir.warpgroup_matrix import GROUP, MOST_COLUMNS, ROWS_OF_WARP, SLAB

_PIECE = 16
_MOST_WARPS = 32


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """The tile sizes of a tensor-core product.

    A block computes `block_m` x `block_n` elements in steps of `block_k` terms; each of its warps
    computes `warp_m` x `warp_n` of them. `stages` is the number of operand tiles that shared memory
    holds at once (with 1, none is copied ahead). `swizzle` permutes the elements of the tiles so
    that shared-memory accesses have no bank conflicts.
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
        """The number of warps of a block."""
        return self.block_m // self.warp_m * (self.block_n // self.warp_n)

    def problem(self, it: Instruction) -> str:
        """Why the sizes do not fit each other or the instruction; empty if they do."""
        for name in ("block_m", "block_n", "block_k", "warp_m", "warp_n", "stages"):
            if not isinstance(size := getattr(self, name), Integral):
                return f"{name} must be a whole number, {found(size)}"
        return self._problem_of_warpgroup(it) if is_of_warpgroup(it) else self._problem(it)

    def _problem_of_warpgroup(self, it: Instruction) -> str:
        """`problem` for wgmma, where four warps, one below the other, share a tile of B."""
        if (self.warp_m, self.warp_n) != (ROWS_OF_WARP, self.block_n):
            return (
                f"warps of a warpgroup compute {ROWS_OF_WARP} whole rows of the block, found "
                f"{self.warp_m} x {self.warp_n} of {self.block_n} columns"
            )
        for name, size, unit in (
            ("block_m", self.block_m, GROUP * ROWS_OF_WARP),
            ("block_n", self.block_n, SLAB),
            ("block_k", self.block_k, it.extent("k")),
        ):
            if size < 1 or size % unit:
                return f"{name} must be a multiple of {unit}, found {size}"
        if self.block_n > MOST_COLUMNS:
            return f"block_n is at most {MOST_COLUMNS}, found {self.block_n}"
        if not self.swizzle:
            return "tiles that a warpgroup reads are swizzled"
        if self.warps > _MOST_WARPS:
            return f"a block has at most {_MOST_WARPS} warps, found {self.warps}"
        return self._problem_of_stages()

    def _problem_of_stages(self) -> str:
        return "" if 1 <= self.stages <= 8 else f"stages must be 1 to 8, found {self.stages}"

    def _problem(self, it: Instruction) -> str:
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
        if not 1 <= self.warps <= _MOST_WARPS:
            return f"a block has at most {_MOST_WARPS} warps, found {self.warps}"
        return self._problem_of_stages()


def operand_tile(
    name: str,
    view: MatrixView,
    e: Expr,
    layout: str,
    width: int,
    sizes: Mapping[str, tuple[int, int]],
    row: int = 0,
) -> Tensor:
    """The operand `e` as a matrix in `layout`, padded with zeros.

    Its axes are the batch axes and the two letters of `layout`, each flattened from the axes of
    `view`. `sizes` maps each letter to its (plain, padded) size. `width` is the number of elements
    that are copied at once. With `row` the rows are cut into pieces of `row` elements: the axes
    are then piece, first letter, element within the piece.
    """
    axes = {"m": view.m, "n": view.n, "k": view.k}
    count = len(view.batch)

    def element(*indices: Expr) -> Expr:
        table: dict[Var, Expr] = {iv.var: at for iv, at in zip(view.batch, indices, strict=False)}
        inside: list[Expr] = []
        own = indices[count:]
        if row:
            piece, first, last = own
            own = (first, piece * row + last)
        for place, (letter, at) in enumerate(zip(layout, own, strict=True)):
            table.update(values_at(axes[letter], at))
            size, padded = sizes[letter]
            # One check for all elements that are copied at once.
            unit = width if place == 1 else 1
            if padded > size:
                inside.append(lt(floordiv(at, unit), size // unit))
        value = substitute(e, table)
        return if_then_else(all_(*inside), value, const(0, value.dtype)) if inside else value

    first, last = (sizes[letter][1] for letter in layout)
    own_shape = (last // row, first, row) if row else (first, last)
    own_names = ("piece", *layout) if row else tuple(layout)
    shape = (*(total((iv,)) for iv in view.batch), *own_shape)
    names = [*(f"b{d}" for d in range(count)), *own_names]
    made: Tensor = compute(shape, element, name, axis_names=names)
    return made


def matrix_stages(
    op: ComputeOp, view: MatrixView, it: Instruction, tile: MatrixTile
) -> tuple[list[Tensor], ComputeOp]:
    """The new tensors (C.a, C.b, C.a.frag, C.b.frag, C.acc, C.tile), and the replacement of `op`.

    The replacement copies C.tile to the result.
    """
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

    sizes = {"m": (rows, m), "n": (columns, n), "k": (terms, k)}
    a = operand_tile(f"{op.name}.a", view, view.a, view.layout_a, view.width_a, sizes)
    b = operand_tile(f"{op.name}.b", view, view.b, view.layout_b, view.width_b, sizes)

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
        added: Expr = sum_over(left.astype(dtype) * right.astype(dtype), axis=[ko, ki])
        return added

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
