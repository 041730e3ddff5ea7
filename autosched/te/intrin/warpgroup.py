"""Matrix products of four warps on NVIDIA's sm_90: wgmma, which reads shared memory by itself.

C[64, n] += A[64, 64] * B[64, n]      16 rows of A and C for each of the four warps

What a warp does is described (`tir/warpgroup_matrix.py`): C is an accumulator, of which each lane
holds the 32nd part, A and B are tiles in shared memory whose rows have 128 bytes and are swizzled.
No fragments of operands are loaded, and the products run while the warps go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.te.intrin.instruction import Instruction, Operand
from autosched.te.intrin.nvidia import store_result
from autosched.te.operations.compute import compute, placeholder, reduce_axis
from autosched.te.operations.reduction import sum as sum_over
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Call, Expr, IntImm, StringImm, Var
from autosched.tir.op import const, floordiv
from autosched.tir.stmt import Evaluate, Stmt, seq
from autosched.tir.warp_matrix import RESULT, WARP
from autosched.tir.warpgroup_matrix import (
    KINDS,
    LAYOUTS_A,
    LAYOUTS_B,
    MOST_COLUMNS,
    RESULT_COLUMNS,
    ROW,
    ROWS_OF_WARP,
)

PREFIX = "wgmma."
_IN_ROW = ROW // RESULT_COLUMNS
"""Results of 8 columns side by side for each row of B."""
COLUMNS = range(ROW, MOST_COLUMNS + 1, ROW)


def _instruction(kind: str, dtype: DType) -> Instruction:
    floats = DType("float32")
    return Instruction(
        f"{PREFIX}m64k64.{kind.replace('fp', 'f')}",
        "cuda",
        "",
        ("sm_90a",),
        Operand(dtype, (("m", ROWS_OF_WARP), ("k", ROW)), "shared"),
        Operand(dtype, (("k", ROW), ("n", RESULT_COLUMNS)), "shared"),
        Operand(floats, (("m", ROWS_OF_WARP), ("n", RESULT_COLUMNS)), "wmma.accumulator", RESULT),
        ("ptx_wgmma", kind),
        255,
        declare_wgmma,
    )


def is_of_warpgroup(it: Instruction) -> bool:
    """Whether four warps compute together, straight from shared memory."""
    return it.name.startswith(PREFIX)


def compute_name(layout_a: str, layout_b: str, columns: int) -> str:
    """The statement that multiplies tiles of these layouts."""
    return f"compute:{layout_a}:{layout_b}:{columns}"


def declare_wgmma(it: Instruction) -> Mapping[str, TensorIntrin]:
    """store, and compute:A:B:COLUMNS for each pair of layouts and number of columns."""
    products = {
        compute_name(a, b, n): _compute(it, a, b, n)
        for a in LAYOUTS_A
        for b in LAYOUTS_B
        for n in COLUMNS
    }
    return {"store": store_result(it), **products}


def _rows(tensor: Tensor, slabs: bool = False) -> Buffer:
    """A tile in rows of 128 bytes, several of them `slab` elements apart."""
    first = (Var(f"{tensor.name}_slab"),) if slabs else ()
    return decl_buffer(
        tensor.shape,
        tensor.dtype.name,
        tensor.name,
        strides=[*first, IntImm(ROW), IntImm(1)],
        elem_offset=Var(f"{tensor.name}_offset"),
        scope="shared",
    )


def _compute(it: Instruction, layout_a: str, layout_b: str, columns: int) -> TensorIntrin:
    dtype, total = it.a.dtype.name, it.c.dtype.name
    by_rows, by_columns = layout_a == "mk", layout_b == "kn"
    a = placeholder((ROWS_OF_WARP, ROW) if by_rows else (ROW, ROWS_OF_WARP), dtype, "a")
    b = placeholder((columns // ROW, ROW, ROW) if by_columns else (columns, ROW), dtype, "b")
    k = reduce_axis((0, ROW), "k")

    def element(slab: Expr, piece: Expr, i: Expr, j: Expr) -> Expr:
        left = a[i, k] if by_rows else a[k, i]
        column = piece * RESULT_COLUMNS + j
        right = b[slab, k, column] if by_columns else b[slab * ROW + column, k]
        added: Expr = sum_over(left.astype(total) * right.astype(total), axis=k)
        return added

    c: Tensor = compute((columns // ROW, _IN_ROW, ROWS_OF_WARP, RESULT_COLUMNS), element, "c")

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        left, right, (result,) = ins[0], ins[1], outs
        assert left.elem_offset is not None and right.elem_offset is not None
        assert result.elem_offset is not None
        place = (result.data, floordiv(result.elem_offset, WARP))
        words = [StringImm(word) for word in (it.calls[1], layout_a, layout_b)]
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


WARPGROUP: tuple[Instruction, ...] = tuple(_instruction(*kind) for kind in KINDS.items())
