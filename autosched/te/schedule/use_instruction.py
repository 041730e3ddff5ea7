"""use_instruction: compute a matrix product tile by tile with a tensor instruction of a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING

from autosched.arguments import found
from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.operand import is_computed
from autosched.te.intrin.product import Product, as_product, extent
from autosched.te.intrin.registry import instruction, statements
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.te.schedule.instruction_stages import INSTRUCTION, InstructionStages, Tile
from autosched.te.schedule.refusal import refusal
from autosched.tir.given import flag

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule


def use_instruction(
    schedule: Schedule,
    tensor: Tensor,
    name: str,
    tile: tuple[int, int],
    pack_a: bool = False,
    over: bool = False,
) -> list[Tensor]:
    """Compute `tensor` tile by tile in registers by the instruction `name`, from packed operands.

    New stages are inserted right before the tensor's, at the root: with `pack_a`, A with k last,
    padded with zeros to whole calls; B, packed tile by tile; the sums of `tile` = (down, across)
    calls, in storage of their own. The tensor's stage becomes a copy of the sums. Returns the new
    tensors in this order. Rows and columns beyond the sizes are computed and dropped.

    With `over` the tiles of a column are steps of the axis before the rows, whose extent must be a
    multiple of the tiles: in a convolution, image rows that are shorter than a tile. It needs
    `pack_a`.

    An instruction with an `offset` needs A packed, which adds the offset. A further stage, between
    those of B and the sums, computes what the offset adds to each column; the tensor's stage
    subtracts it.

    AMX tiles stay in registers: a further stage stores the sums row by row, padded to whole tiles.
    It may be inlined where the tensor consists of whole tiles.

    before:
        for m in range(12):
            for n in range(32):
                C[m, n] = 0
                for k in range(16):
                    C[m, n] = C[m, n] + int32(A[m, k]) * int32(B[k, n])
    after s.use_instruction(C, "vpdpbusd.zmm", (6, 2)):
        realize(B.pack[0:1, 0:4, 0:2, 0:64], int8, "")
        for no, ko, nt, l:
            B.pack[no, ko, nt, l] = B[ko * 4 + l % 4, (no * 2 + nt) * 16 + l // 4]
        realize(C.tile[0:2, 0:1, 0:6, 0:2, 0:16], int32, "local")
        for mo, no, mt, nt, ni:
            C.tile[mo, no, mt, nt, ni] = 0
            for ko, ki:
                C.tile[mo, no, mt, nt, ni] = C.tile[mo, no, mt, nt, ni] +
                    int32(A[mo * 6 + mt, ko * 4 + ki]) * int32(B.pack[no, ko, nt, ni * 4 + ki])
        for m in range(12):
            for n in range(32):
                C[m, n] = C.tile[m // 6, n // 32, m % 6, n // 16 % 2, n % 16]
    """
    pack_a, over = flag("use_instruction: pack_a", pack_a), flag("use_instruction: over", over)
    stage = schedule[tensor]
    it = instruction(name)
    op = stage.op
    if not isinstance(op, ComputeOp) or stage.relations:
        raise refusal(
            "use_instruction",
            stage,
            None,
            "expected a te.compute whose loops have not been changed",
        )
    if not _is_tile(tile):
        why = f"tile: expected two whole numbers of calls, (down, across), {found(tile)}"
        raise refusal("use_instruction", stage, None, why)
    product = as_product(op, it)
    problem = _problem(product, it, tile[0], pack_a, over)
    if product is None or problem:
        raise refusal("use_instruction", stage, None, problem)
    writer = InstructionStages(product, it, Tile(*tile), over)
    new = writer.operations(pack_a)
    position = schedule.stages.index(stage)
    for offset, made in enumerate(new):
        inserted = schedule.insert_stage(position + offset, made, stage.group)
        if offset >= 1 + pack_a + bool(it.offset):
            inserted.scope = "local"
        elif writer.height > 1 and INSTRUCTION not in made.attrs:
            # This packing copies element by element: an unroll limit set on a loop around the
            # sums must not unroll it.
            inserted.pragma(made.axis[-1], "auto_unroll_max_step", 0)
    copy = writer.copy(new)
    schedule.replace_ops({op: copy})
    stage.reset_loops(copy)
    return [made.output(0) for made in new]


def _is_tile(tile: object) -> bool:
    if not isinstance(tile, Sequence) or len(tile) != 2:
        return False
    return all(isinstance(n, Integral) and int(n) > 0 for n in tile)


def _problem(product: Product | None, it: Instruction, rows: int, pack_a: bool, over: bool) -> str:
    """Why the instruction cannot compute the product with these options; empty if it can."""
    if it.mixes_rows:
        return f"rows share the vectors of {it.name}, which can be tensorized by hand only"
    if product is None:
        return f"it is no product of matrices of the types of {it.name}"
    if pack_a and not can_pack(product, it):
        return f"{it.name} needs rows of A that move one of its indices evenly"
    if not pack_a and not reads_in_place(product, it, rows):
        return f"{it.name} cannot read {product.a!r} in place; use pack_a"
    if over and not (pack_a and tiles_over(product, it, rows)):
        return (
            f"over: needs pack_a, rows that fit one tile of {it.name}, and an axis before them "
            f"that moves A by one and that {rows} divides"
        )
    return ""


def reads_in_place(product: Product, it: Instruction, rows: int) -> bool:
    """Whether `it` can read A unpacked: k is contiguous, and k and rows fill whole calls.

    `rows` is the number of calls down a tile. Rows of one call must move an index of A evenly.
    """
    if it.parts > 1 or it.a.wide is not None or is_computed(product.a):
        return False
    whole = extent(product.k) % it.extent("k") == 0
    height = it.extent("m")
    down = height == 1 or (product.rows() and extent(product.m) % (height * rows) == 0)
    return whole and bool(down) and product.k_is_last()


def can_pack(product: Product, it: Instruction) -> bool:
    """Whether A can be packed and padded to whole calls of the instruction."""
    return it.extent("m") == 1 or product.rows() is not None


def tiles_over(product: Product, it: Instruction, rows: int) -> bool:
    """Whether the `rows` tiles of a column can be steps of the axis before m (`Product.over`)."""
    over = product.over()
    fit = it.extent("m") > 1 and extent(product.m) <= it.extent("m")
    return over is not None and fit and extent(over) % rows == 0


def instruction_of(op: Operation) -> TensorIntrin | None:
    """The intrinsic for the innermost loops of `op`; None unless use_instruction made `op`."""
    name, _, part = str(op.attrs.get(INSTRUCTION, "")).partition(":")
    return statements(name)[part] if name else None
