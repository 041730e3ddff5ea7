"""Matrix products of four warps on NVIDIA's sm_90: wgmma, which reads operands from shared memory.

C[64, n] += A[64, k] * B[k, n]      each of the four warps has 16 rows of A and C

The statements describe the part of one warp (`tir/warpgroup_matrix.py`). C is an accumulator, of
which each lane holds 1/32; A and B are tiles in shared memory with swizzled rows of 128 bytes. No
operand fragments are loaded, and the products run asynchronously.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.te.intrin.instruction import Instruction, Operand
from autosched.te.intrin.nvidia import layouts, store_result
from autosched.te.operations.compute import compute, placeholder, reduce_axis
from autosched.te.operations.reduction import sum as sum_over
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import Call, Expr, IntImm, StringImm, Var
from autosched.tir.gpu import WARP
from autosched.tir.op import const, floordiv
from autosched.tir.stmt import Evaluate, Stmt, seq
from autosched.tir.warp_matrix import RESULT, short_names
from autosched.tir.warpgroup_matrix import (
    IN_SLAB,
    KINDS,
    LAYOUTS_A,
    LAYOUTS_B,
    MOST_COLUMNS,
    RESULT_COLUMNS,
    ROWS_OF_WARP,
    SLAB,
    result_of,
    row_of,
)

PREFIX = "wgmma."
COLUMNS = range(SLAB, MOST_COLUMNS + 1, SLAB)


def _instruction(left: str, right: str) -> Instruction:
    first, second = KINDS[left], KINDS[right]
    row, total = row_of(first), result_of(first)
    return Instruction(
        ".".join((f"{PREFIX}m64k{row}", *short_names(left, right))),
        "cuda",
        "",
        ("sm_90a",),
        Operand(first, (("m", ROWS_OF_WARP), ("k", row)), "shared"),
        Operand(second, (("k", row), ("n", RESULT_COLUMNS)), "shared"),
        Operand(total, (("m", ROWS_OF_WARP), ("n", RESULT_COLUMNS)), "wmma.accumulator", RESULT),
        ("ptx_wgmma", left, right),
        255,
        declare_wgmma,
    )


def is_of_warpgroup(it: Instruction) -> bool:
    """Whether `it` is a wgmma, which four warps execute together."""
    return it.name.startswith(PREFIX)


def compute_name(layout_a: str, layout_b: str, columns: int) -> str:
    """The name of the statement that multiplies tiles of these layouts into `columns` columns."""
    return f"compute:{layout_a}:{layout_b}:{columns}"


def declare_wgmma(it: Instruction) -> Mapping[str, TensorIntrin]:
    """The statements "store", and "compute:A:B:COLUMNS" for all layouts and numbers of columns."""
    known = layouts(it)
    products = {
        compute_name(a, b, n): _compute(it, a, b, n)
        for a in LAYOUTS_A
        for b in LAYOUTS_B
        for n in COLUMNS
        if a in known and b in known
    }
    return {"store": store_result(it), **products}


def _rows(tensor: Tensor, slabs: bool = False) -> Buffer:
    """A buffer for a tile with rows of 128 bytes; `slabs` adds an outer axis of any stride."""
    first = (Var(f"{tensor.name}_slab"),) if slabs else ()
    return decl_buffer(
        tensor.shape,
        tensor.dtype.name,
        tensor.name,
        strides=[*first, IntImm(row_of(tensor.dtype)), IntImm(1)],
        elem_offset=Var(f"{tensor.name}_offset"),
        scope="shared",
    )


def _compute(it: Instruction, layout_a: str, layout_b: str, columns: int) -> TensorIntrin:
    left_type, right_type, total = (dtype.name for dtype in it.types)
    by_rows, by_columns = layout_a == "mk", layout_b == "kn"
    row = it.extent("k")
    a = placeholder((ROWS_OF_WARP, row) if by_rows else (row, ROWS_OF_WARP), left_type, "a")
    in_slabs, in_rows = (columns // SLAB, row, SLAB), (columns, row)
    b = placeholder(in_slabs if by_columns else in_rows, right_type, "b")
    k = reduce_axis((0, row), "k")

    def element(slab: Expr, piece: Expr, i: Expr, j: Expr) -> Expr:
        left = a[i, k] if by_rows else a[k, i]
        column = piece * RESULT_COLUMNS + j
        right = b[slab, k, column] if by_columns else b[slab * SLAB + column, k]
        added: Expr = sum_over(left.astype(total) * right.astype(total), axis=k)
        return added

    shape = (columns // SLAB, IN_SLAB, ROWS_OF_WARP, RESULT_COLUMNS)
    c: Tensor = compute(shape, element, "c")

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        left, right, (result,) = ins[0], ins[1], outs
        assert left.elem_offset is not None and right.elem_offset is not None
        assert result.elem_offset is not None
        place = (result.data, floordiv(result.elem_offset, WARP))
        words = [StringImm(word) for word in (*it.calls[1:], layout_a, layout_b)]
        slab = right.strides[0] if by_columns else const(0)
        operands = (left.data, left.elem_offset, right.data, right.elem_offset)
        args = (IntImm(columns), *words, *place, *operands, slab, IntImm(0), IntImm(0))
        product = Evaluate(Call(it.c.dtype, "ptx_wgmma", args))
        values = const(ROWS_OF_WARP * columns // WARP)
        clear = Evaluate(Call(it.c.dtype, "ptx_mma_fill", (values, *place)))
        return seq(clear, product), clear, product

    offset = Var("c_offset")
    held = decl_buffer(c.shape, total, "c", elem_offset=offset, scope=it.c.scope)
    binds = {a: _rows(a), b: _rows(b, slabs=by_columns), c: held}
    return decl_tensor_intrin(c.op, statements, f"{it.name}.{layout_a}.{layout_b}", binds)


_PAIRS = (
    *(("fp16", "fp16"), ("bf16", "bf16")),
    *((a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")),
)
WARPGROUP: tuple[Instruction, ...] = tuple(_instruction(*pair) for pair in _PAIRS)
