"""Matrix products of a warp on NVIDIA GPUs from sm_80 on: mma.sync, and ldmatrix that feeds it.

C[16, 8] += A[16, k] * B[k, 8]      held by the 32 lanes of a warp (`tir/warp_matrix.py`)

A, B and C are fragments: storage of scope wmma.matrix_a, wmma.matrix_b and wmma.accumulator, of
which each lane holds 1/32. Operands are loaded from shared memory, in one of the layouts mk or km
for A and kn or nk for B, the second letter being the contiguous axis. One load of B fills two
fragments, 16 columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.te.intrin.instruction import Instruction, Operand
from autosched.te.operations.compute import compute, placeholder, reduce_axis
from autosched.te.operations.reduction import sum as sum_over
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType, int32
from autosched.tir.expr import Call, Expr, IntImm, StringImm, Var
from autosched.tir.gpu import WARP
from autosched.tir.op import add, const, floordiv, floormod, mul
from autosched.tir.stmt import Evaluate, Stmt, seq
from autosched.tir.warp_matrix import ATOMS, short_names

TF32 = "tf32"
"""The feature of a target whose user allows rounding float32 factors to TF32 (`Target.tf32`)."""


def _instruction(shape: str, a: str, b: str) -> Instruction:
    atom = ATOMS[shape, a, b]
    return Instruction(
        ".".join(("mma", shape, *short_names(a, b))),
        "cuda",
        "",
        ("sm_80", TF32) if atom.tf32 else ("sm_80",),
        Operand(atom.left, (("m", atom.m), ("k", atom.k)), "wmma.matrix_a", atom.a),
        Operand(atom.right, (("k", atom.k), ("n", atom.n)), "wmma.matrix_b", atom.b),
        Operand(atom.result, (("m", atom.m), ("n", atom.n)), "wmma.accumulator", atom.c),
        ("ptx_mma", shape, a, b),
        255,
        declare_mma,
    )


def layouts(it: Instruction) -> tuple[str, ...]:
    """The layouts of A and B that ldmatrix can load; only 16-bit elements can be transposed."""
    return ("mk", "km", "kn", "nk") if it.a.dtype.bits == 16 else ("mk", "nk")


def declare_mma(it: Instruction) -> Mapping[str, TensorIntrin]:
    """The statements "compute", "store", and "load:LAYOUT" for each shared-memory layout."""
    loads = {f"load:{layout}": _load(it, layout) for layout in layouts(it)}
    return {"compute": _compute(it), "store": store_result(it), **loads}


def _lane_offset(buffer: Buffer) -> Expr:
    """The position of a fragment's first element within the storage of one lane."""
    assert buffer.elem_offset is not None
    return floordiv(buffer.elem_offset, WARP)


def _fragment(tensor: Tensor, operand: Operand) -> Buffer:
    offset = Var(f"{tensor.name}_offset")
    return decl_buffer(
        tensor.shape, tensor.dtype.name, tensor.name, elem_offset=offset, scope=operand.scope
    )


def _shared(tensor: Tensor) -> Buffer:
    return decl_buffer(
        tensor.shape,
        tensor.dtype.name,
        tensor.name,
        strides=[Var(f"{tensor.name}_stride"), IntImm(1)],
        elem_offset=Var(f"{tensor.name}_offset"),
        scope="shared",
    )


def _compute(it: Instruction) -> TensorIntrin:
    m, n, k = (it.extent(axis) for axis in "mnk")
    a = placeholder((m, k), it.a.dtype.name, "a")
    b = placeholder((k, n), it.b.dtype.name, "b")
    axis, dtype = reduce_axis((0, k), "k"), it.c.dtype.name
    c: Tensor = compute(
        (m, n),
        lambda i, j: sum_over(a[i, axis].astype(dtype) * b[axis, j].astype(dtype), axis=axis),
        "c",
    )

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        _, shape, *kinds = it.calls
        places = [x for buffer in (*ins, *outs) for x in (buffer.data, _lane_offset(buffer))]
        total = "int32" if it.c.dtype.is_integral else "fp32"
        words = [StringImm(word) for word in (shape, "row", "col", *kinds, total)]
        product = Evaluate(Call(it.c.dtype, "ptx_mma", (*words, *places, IntImm(0))))
        values = const(m * n // WARP)
        clear = Evaluate(Call(it.c.dtype, "ptx_mma_fill", (values, *places[4:])))
        return seq(clear, product), clear, product

    binds = {a: _fragment(a, it.a), b: _fragment(b, it.b), c: _fragment(c, it.c)}
    return decl_tensor_intrin(c.op, statements, it.name, binds)


def store_result(it: Instruction) -> TensorIntrin:
    """The intrinsic that stores a warp's 16 x 8 accumulators to rows of shared memory."""
    m, n = it.extent("m"), it.extent("n")
    c = placeholder((m, n), it.c.dtype.name, "c")
    d: Tensor = compute((m, n), lambda i, j: c[i, j], "d")

    def statement(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        (source,), (target,) = ins, outs
        assert target.elem_offset is not None
        place = (target.data, target.elem_offset, target.strides[0])
        args = (*place, source.data, _lane_offset(source))
        return Evaluate(Call(it.c.dtype, "ptx_mma_store", args))

    binds = {c: _fragment(c, it.c), d: _shared(d)}
    return decl_tensor_intrin(d.op, statement, f"{it.name}.store", binds)


def _load(it: Instruction, layout: str) -> TensorIntrin:
    """The intrinsic that loads a fragment from shared memory of `layout` by one ldmatrix.x4.

    The instruction loads four matrices of 8 rows of 16 bytes; each lane gives the address of one
    row, so that the matrices arrive in the order of the lanes' values in the fragment.
    """
    k, n = it.extent("k"), it.extent("n")
    operand = it.a if "m" in layout else it.b
    dtype, piece = operand.dtype.name, 16 // operand.dtype.bytes
    lane = Call(int32, "ptx_lane_id", ())
    first, second = floormod(lane, 16), floordiv(lane, 16)
    in_eight, odd = floormod(lane, 8), floormod(floordiv(lane, 8), 2)
    if "m" in layout:
        rows_of_m = layout == "mk"
        s = placeholder((16, k) if rows_of_m else (k, 16), dtype, "s")
        o: Tensor = compute((16, k), lambda i, j: s[i, j] if rows_of_m else s[j, i], "o")
        row = first if rows_of_m else add(in_eight, mul(second, 8))
        column = mul(second, piece) if rows_of_m else mul(odd, 8)
        turned = not rows_of_m
    else:
        rows_of_k = layout == "kn"
        s = placeholder((k, 2 * n) if rows_of_k else (2 * n, k), dtype, "s")
        o = compute(
            (2, k, n),
            lambda b, i, j: s[i, b * n + j] if rows_of_k else s[b * n + j, i],
            "o",
        )
        row = first if rows_of_k else add(in_eight, mul(second, 8))
        column = mul(second, 8) if rows_of_k else mul(odd, piece)
        turned = rows_of_k

    def statement(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        (source,), (target,) = ins, outs
        assert source.elem_offset is not None
        place = add(add(source.elem_offset, mul(row, source.strides[0])), column)
        args = (
            *(IntImm(int(turned)), IntImm(4), StringImm(".b16")),
            *(target.data, _lane_offset(target), source.data, place),
        )
        return Evaluate(Call(DType(dtype), "ptx_ldmatrix", args))

    binds = {s: _shared(s), o: _fragment(o, operand)}
    return decl_tensor_intrin(o.op, statement, f"{it.name}.load:{layout}", binds)


NVIDIA: tuple[Instruction, ...] = tuple(_instruction(*key) for key in ATOMS)
