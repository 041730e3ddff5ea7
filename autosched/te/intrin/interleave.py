"""Packing of B for dot products: interleaves k rows, so that the k of a column are adjacent.

P[l] = B[l % k, l // k]

P[0:64] = shuffle([B[0], B[1], B[2], B[3]], [0, 16, 32, 48, 1, ...])      k = 4, 16 columns

Where P has a wider type than B, the shuffled elements are converted.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.te.operations.compute import compute, placeholder, var
from autosched.te.operations.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, Cast, Expr, IntImm, Ramp, Shuffle
from autosched.tir.stmt import BufferStore, Stmt


def declare_interleave(
    name: str, dtype: DType, k: int, lanes: int, wide: DType | None = None
) -> TensorIntrin:
    """The intrinsic that packs P[l] = B[l % k, l // k] for `lanes` columns.

    P has the type `wide`, or that of B (`dtype`) where `wide` is None.
    """
    b = placeholder((k, lanes), dtype.name, "b")
    to = (wide or dtype).name
    packed = compute((lanes * k,), lambda i: b[i % k, i // k].astype(to), "p")
    rows = decl_buffer(
        b.shape,
        dtype,
        "b",
        strides=(var("pitch"), 1),
        elem_offset=var("b_offset"),
        data_alignment=1,
    )

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        bits = DType(f"uint{dtype.bits}").with_lanes(lanes)
        at = Ramp(IntImm(0), IntImm(1), lanes)
        parts = tuple(_as(bits, BufferLoad(ins[0], (IntImm(row), at))) for row in range(k))
        order = tuple(IntImm(row * lanes + lane) for lane in range(lanes) for row in range(k))
        value = _as(dtype.with_lanes(lanes * k), Shuffle(parts, order))
        if wide is not None:
            value = Cast(wide.with_lanes(lanes * k), value)
        return BufferStore(outs[0], value, (Ramp(IntImm(0), IntImm(1), lanes * k),))

    return decl_tensor_intrin(packed.op, statements, name, binds={b: rows})


def _as(dtype: DType, e: Expr) -> Expr:
    return e if e.dtype is dtype else Call(dtype, "reinterpret", (e,))
