"""Dot products in vector registers: one row of A for all lanes, or A and B of the same lanes.

C[n] += sum(A[k] * B[n * K + k])      n a lane of 32 bits, k one of the K products that it adds

C[0:16] = vpdpbusd(C[0:16], broadcast(reinterpret(A[0:4], int32), 16), reinterpret(B[0:64]))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.te.intrin.instruction import Instruction, Operand
from autosched.te.intrin.interleave import declare_interleave
from autosched.te.operations.compute import compute, placeholder, reduce_axis
from autosched.te.operations.reduction import sum as sum_over
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType, int32
from autosched.tir.expr import Broadcast, BufferLoad, Call, Expr, IntImm, Ramp, StringImm
from autosched.tir.op import const, sub
from autosched.tir.stmt import BufferStore, Stmt

_OFFSET = -0x7F7F7F80
"""The bits 0x80808080: 128 in each byte."""


def dot_operands(
    a: str, b: str, c: str, lanes: int, wide: str = ""
) -> tuple[Operand, Operand, Operand]:
    """A, B and C of a dot product with `lanes` accumulators of 32 bits.

    A and B are converted to `wide` as they are packed, where that is another type.
    """
    k = 32 // DType(wide or a).bits
    to_a, to_b = (DType(wide) if wide not in ("", each) else None for each in (a, b))
    return (
        Operand(DType(a), (("k", k),), wide=to_a),
        Operand(DType(b), (("n", lanes), ("k", k)), wide=to_b),
        Operand(DType(c), (("n", lanes),), "local"),
    )


def declare_vector_dot(it: Instruction) -> Mapping[str, TensorIntrin]:
    """The statements of C[n] += A[k] * B[n * K + k] by one instruction.

    vpdpbusd multiplies unsigned by signed bytes. Signed ones of A become unsigned by 128 more, and
    128 times the sum of B is taken away, by the same instruction, once for all rows of A.
    """
    lanes, k = it.extent("n"), it.extent("k")
    a = placeholder((k,), it.a.dtype.name, "a")
    b = placeholder((lanes * k,), it.b.dtype.name, "b")
    c = description(a, b, it.c.dtype.name, lanes, k)

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        at = (vector(lanes),)
        row = BufferLoad(ins[0], (vector(k),))
        columns = BufferLoad(ins[1], (vector(lanes * k),))
        zero = Broadcast(const(0, it.c.dtype), lanes)

        def plus_product(total: Expr) -> Stmt:
            first, second = Broadcast(words(row), lanes), words(columns)
            if it.triple == "aarch64":
                args = (StringImm(it.calls[0]), total, _as_bytes(first), _as_bytes(second))
            else:
                args = (StringImm(it.calls[0]), total, first, second)
            if _needs_offset(it):
                offset = Broadcast(const(_OFFSET, "int32"), lanes)
                more = Broadcast(Call(int32, "bitwise_xor", (words(row), offset.value)), lanes)
                name = StringImm(it.calls[0])
                kind = it.c.dtype.with_lanes(lanes)
                value = Call(kind, "call_llvm_pure_intrin", (name, total, more, second))
                excess = Call(kind, "call_llvm_pure_intrin", (name, zero, offset, second))
                return BufferStore(outs[0], sub(value, excess), at)
            call = Call(it.c.dtype.with_lanes(lanes), "call_llvm_pure_intrin", args)
            return BufferStore(outs[0], call, at)

        clear = BufferStore(outs[0], zero, at)
        return plus_product(zero), clear, plus_product(BufferLoad(outs[0], at))

    pack = declare_interleave(f"{it.name}.pack_b", it.b.dtype, k, lanes)
    return {"compute": decl_tensor_intrin(c.op, statements, it.name), "pack_b": pack}


def _needs_offset(it: Instruction) -> bool:
    """Whether A is signed where the instruction wants it unsigned."""
    return "vpdpbusd" in it.calls[0] and it.a.dtype.is_int


def description(a: Tensor, b: Tensor, dtype: str, lanes: int, k: int) -> Tensor:
    """C[n] = sum(A[k] * B[n * K + k]) in `dtype`."""
    axis = reduce_axis((0, k), "k")
    c: Tensor = compute(
        (lanes,),
        lambda n: sum_over(a[axis].astype(dtype) * b[n * k + axis].astype(dtype), axis=axis),
        "c",
    )
    return c


def vector(lanes: int) -> Expr:
    """The indices 0 to lanes - 1."""
    return Ramp(IntImm(0), IntImm(1), lanes)


def declare_matrix_dot(it: Instruction) -> Mapping[str, TensorIntrin]:
    """The statements of C[m * 2 + n] += A[m * K + k] * B[n * K + k], two rows of each in a vector.

    C[0:4] = bfmmla(C[0:4], A[0:8], B[0:8])
    """
    k = it.extent("k")
    a = placeholder((2 * k,), it.a.dtype.name, "a")
    b = placeholder((2 * k,), it.b.dtype.name, "b")
    axis = reduce_axis((0, k), "k")
    dtype = it.c.dtype.name
    c = compute(
        (4,),
        lambda i: sum_over(
            a[i // 2 * k + axis].astype(dtype) * b[i % 2 * k + axis].astype(dtype), axis=axis
        ),
        "c",
    )

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        at = (vector(4),)
        bits = DType(f"uint{it.a.dtype.bits}").with_lanes(2 * k)
        args = tuple(Call(bits, "reinterpret", (BufferLoad(x, (vector(2 * k),)),)) for x in ins)
        zero = Broadcast(const(0, it.c.dtype), 4)

        def plus_product(total: Expr) -> Stmt:
            call = Call(
                it.c.dtype.with_lanes(4),
                "call_llvm_pure_intrin",
                (StringImm(it.calls[0]), total, *args),
            )
            return BufferStore(outs[0], call, at)

        return (
            plus_product(zero),
            BufferStore(outs[0], zero, at),
            plus_product(BufferLoad(outs[0], at)),
        )

    return {"compute": decl_tensor_intrin(c.op, statements, it.name)}


def _as_bytes(e: Expr) -> Expr:
    lanes = e.dtype.lanes * e.dtype.bytes
    return Call(DType("int8").with_lanes(lanes), "reinterpret", (e,))


def words(e: Expr) -> Expr:
    """The bits of a vector as integers of 32."""
    lanes = e.dtype.lanes * e.dtype.bits // 32
    return Call(DType("int32").with_lanes(lanes), "reinterpret", (e,))
