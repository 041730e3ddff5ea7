"""Dot-product instructions on vector registers, which add K products to each 32-bit lane of C.

C[n] += sum(A[k] * B[n * K + k])      n is a lane, k one of the K products of a lane

C[0:16] = vpdpbusd(C[0:16], broadcast(reinterpret(A[0:4], int32), 16), reinterpret(B[0:64]))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autosched.te.intrin.instruction import Instruction, Operand
from autosched.te.intrin.interleave import declare_interleave
from autosched.te.intrin.turn import WORDS, declare_turns
from autosched.te.operations.compute import compute, placeholder, reduce_axis
from autosched.te.operations.reduction import sum as sum_over
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Broadcast, BufferLoad, Call, Expr, IntImm, Ramp, StringImm
from autosched.tir.op import const
from autosched.tir.stmt import BufferStore, Stmt

_OFFSET = -0x7F7F7F80
"""A word with 128 in each byte: the bits 0x80808080."""


def dot_operands(
    a: str, b: str, c: str, lanes: int, wide: str = ""
) -> tuple[Operand, Operand, Operand]:
    """The operands A, B and C of a dot product with `lanes` accumulators of 32 bits.

    `a`, `b` and `c` are their types. Packing converts A and B to `wide`, unless they have that type
    or `wide` is empty.
    """
    k = 32 // DType(wide or a).bits
    to_a, to_b = (DType(wide) if wide not in ("", each) else None for each in (a, b))
    return (
        Operand(DType(a), (("k", k),), wide=to_a),
        Operand(DType(b), (("n", lanes), ("k", k)), wide=to_b),
        Operand(DType(c), (("n", lanes),), "local"),
    )


def declare_vector_dot(it: Instruction) -> Mapping[str, TensorIntrin]:
    """The statements of an instruction that computes C[n] += A[k] * B[n * K + k].

    vpdpbusd multiplies unsigned by signed bytes. A signed A is packed with 128 added to each
    element; the statement "excess" computes the sum of 128 * B[n * K + k], by which the result is
    then too large, with the same instruction.
    """
    lanes, k = it.extent("n"), it.extent("k")
    a = placeholder((k,), it.a.held.name, "a")
    b = placeholder((lanes * k,), it.b.dtype.name, "b")
    c = description(a, b, it.c.dtype.name, lanes, k)
    zero = Broadcast(const(0, it.c.dtype), lanes)
    at = (vector(lanes),)

    def dot(total: Expr, first: Expr, second: Expr) -> Expr:
        args = (StringImm(it.calls[0]), total, first, second)
        return Call(it.c.dtype.with_lanes(lanes), "call_llvm_pure_intrin", args)

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        row: Expr = Broadcast(words(BufferLoad(ins[0], (vector(k),))), lanes)
        columns = words(BufferLoad(ins[1], (vector(lanes * k),)))
        if it.triple == "aarch64":
            row, columns = _as_bytes(row), _as_bytes(columns)
        return started(outs[0], at, zero, lambda total: dot(total, row, columns))

    pack = declare_interleave(f"{it.name}.pack_b", it.b.dtype, k, lanes)
    found = {"compute": decl_tensor_intrin(c.op, statements, it.name), "pack_b": pack}
    if lanes == WORDS:
        found |= declare_turns(it.name, it.b.dtype, it.b.wide)
    if it.offset:
        found["excess"] = _declare_excess(it, b, dot)
    return found


def _declare_excess(
    it: Instruction, b: Tensor, dot: Callable[[Expr, Expr, Expr], Expr]
) -> TensorIntrin:
    """The intrinsic for E[n] += offset * B[n * K + k]."""
    lanes, k = it.extent("n"), it.extent("k")
    zero = Broadcast(const(0, it.c.dtype), lanes)
    offset = Broadcast(const(_OFFSET, "int32"), lanes)
    e = excess(b, it.c.dtype.name, lanes, k, it.offset)

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        columns = words(BufferLoad(ins[0], (vector(lanes * k),)))
        return started(outs[0], (vector(lanes),), zero, lambda total: dot(total, offset, columns))

    return decl_tensor_intrin(e.op, statements, f"{it.name}.excess")


def started(
    out: Buffer, at: tuple[Expr], zero: Expr, plus_product: Callable[[Expr], Expr]
) -> tuple[Stmt, Stmt, Stmt]:
    """The statements of a sum in `out`: its first step, its initialisation, a further step."""
    values = plus_product(zero), zero, plus_product(BufferLoad(out, at))
    first, start, more = (BufferStore(out, value, at) for value in values)
    return first, start, more


def description(a: Tensor, b: Tensor, dtype: str, lanes: int, k: int) -> Tensor:
    """The tensor C[n] = sum(A[k] * B[n * K + k]), computed in `dtype`."""
    axis = reduce_axis((0, k), "k")
    c: Tensor = compute(
        (lanes,),
        lambda n: sum_over(a[axis].astype(dtype) * b[n * k + axis].astype(dtype), axis=axis),
        "c",
    )
    return c


def excess(b: Tensor, dtype: str, lanes: int, k: int, offset: int) -> Tensor:
    """The tensor E[n] = sum(offset * B[n * K + k]), computed in `dtype`."""
    axis = reduce_axis((0, k), "k")
    e: Tensor = compute(
        (lanes,),
        lambda n: sum_over(b[n * k + axis].astype(dtype) * offset, axis=axis),
        "e",
    )
    return e


def vector(lanes: int) -> Expr:
    """The vector of indices 0 to lanes - 1."""
    return Ramp(IntImm(0), IntImm(1), lanes)


def declare_matrix_dot(it: Instruction) -> Mapping[str, TensorIntrin]:
    """The statements of C[m * 2 + n] += A[m * K + k] * B[n * K + k], where m and n are 0 or 1.

    Each vector holds two rows of its matrix.

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

        def plus_product(total: Expr) -> Expr:
            name = StringImm(it.calls[0])
            return Call(it.c.dtype.with_lanes(4), "call_llvm_pure_intrin", (name, total, *args))

        return started(outs[0], at, zero, plus_product)

    return {"compute": decl_tensor_intrin(c.op, statements, it.name)}


def _as_bytes(e: Expr) -> Expr:
    lanes = e.dtype.value_bytes
    return Call(DType("int8").with_lanes(lanes), "reinterpret", (e,))


def words(e: Expr) -> Expr:
    """The bits of the vector `e`, reinterpreted as int32 lanes."""
    lanes = e.dtype.lanes * e.dtype.bits // 32
    return Call(DType("int32").with_lanes(lanes), "reinterpret", (e,))
