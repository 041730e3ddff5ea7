"""Vector products by a multiply and an add; packing widens operands that are narrower.

C[n] += A[2 k] * B[n, 2 k] + A[2 k + 1] * B[n, 2 k + 1]          int16 in int32, two k at a time
C[n] += A[k] * B[n, k]                                           float32, one k at a time

C[0:8] = C[0:8] + pmadd.wd(broadcast(A[0:2], 8), B[0:16])
C[0:8] = fma(broadcast(A[0], 8), B[0:8], C[0:8])

Packing converts narrower elements: bytes to int16, 16-bit floats to float32. The loop over k then
has no conversions, and every load feeds a multiplication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.interleave import declare_interleave
from autosched.te.intrin.turn import WORDS, declare_turns
from autosched.te.intrin.vector_dot import description, started, vector, words
from autosched.te.operations.compute import placeholder
from autosched.te.operations.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Broadcast, BufferLoad, Call, Expr, StringImm
from autosched.tir.op import add, const
from autosched.tir.stmt import Stmt

PlusProduct = Callable[[Expr, Sequence[Buffer]], Expr]


def declare_pair_dot(it: Instruction) -> Mapping[str, TensorIntrin]:
    """The statements of C[n] += A[k] * B[n * 2 + k] by a pairwise multiply-add and an addition.

    The sum of a pair overflows only where all four factors are -2**15: 2**31 wraps, as every int32
    sum does. Signed and unsigned bytes fit int16 exactly.
    """
    lanes = it.extent("n")

    def plus_product(total: Expr, ins: Sequence[Buffer]) -> Expr:
        row = Broadcast(words(BufferLoad(ins[0], (vector(2),))), lanes)
        columns = BufferLoad(ins[1], (vector(2 * lanes),))
        pairs = Call(columns.dtype, "reinterpret", (row,))
        args = (StringImm(it.calls[0]), pairs, columns)
        return add(total, Call(total.dtype, "call_llvm_pure_intrin", args))

    pack = declare_interleave(f"{it.name}.pack_b", it.b.dtype, 2, lanes, it.b.wide)
    return {"compute": _compute(it, plus_product), "pack_b": pack, **_turns(it)}


def declare_multiply_add(it: Instruction) -> Mapping[str, TensorIntrin]:
    """The statements of C[n] += A[0] * B[n] by a fused multiply-add, which rounds once."""
    lanes = it.extent("n")

    def plus_product(total: Expr, ins: Sequence[Buffer]) -> Expr:
        row = Broadcast(BufferLoad(ins[0], (const(0),)), lanes)
        args = (StringImm(it.calls[0]), row, BufferLoad(ins[1], (vector(lanes),)), total)
        return Call(total.dtype, "call_llvm_pure_intrin", args)

    return {"compute": _compute(it, plus_product), **_turns(it)}


def _turns(it: Instruction) -> Mapping[str, TensorIntrin]:
    """The statements that pack a B whose rows run along k; empty unless a vector has 16 words."""
    return declare_turns(it.name, it.b.dtype, it.b.wide) if it.extent("n") == WORDS else {}


def _compute(it: Instruction, plus_product: PlusProduct) -> TensorIntrin:
    lanes, k = it.extent("n"), it.extent("k")
    a = placeholder((k,), it.a.held.name, "a")
    b = placeholder((lanes * k,), it.b.held.name, "b")
    c = description(a, b, it.c.dtype.name, lanes, k)

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        at = (vector(lanes),)
        zero = Broadcast(const(0, it.c.dtype), lanes)
        return started(outs[0], at, zero, lambda total: plus_product(total, ins))

    return decl_tensor_intrin(c.op, statements, it.name)
