"""What verify refuses, by its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from autosched.tir import op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import float32
from autosched.tir.expr import (
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    FloorDiv,
    IntImm,
    Let,
    Mul,
    Ramp,
    Range,
    Select,
    Sub,
    Var,
)
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    ProducerStore,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from autosched.tir.verify import VerifyError, verify
from kit.programs import Programs

I = Var("i")
N = Var("n", "int64")
A = decl_buffer((8, 8), name="A")
L = decl_buffer((8,), name="L", scope="local")
ONE = op.const(1.0)


class Producer:
    name, dtype = "T", float32


def good(tir: type[Programs]) -> For:
    body = seq(BufferStore(L, A[I, 0], (I,)), BufferStore(A, L[I], (I, IntImm(1))))
    return tir.loop(I, 8, BufferRealize(L, (Range.of(8),), TRUE, body))


BAD: dict[str, Callable[[type[Programs]], Stmt]] = {
    "variable i is used outside of its binding": lambda t: BufferStore(A, ONE, (I, I)),
    "bound inside its own scope": lambda t: t.loop(I, 8, t.loop(I, 8, good(t))),
    "L is accessed outside of its allocation": lambda t: BufferStore(L, ONE, (IntImm(0),)),
    "A has 2 dimensions, accessed with 1": lambda t: BufferStore(A, ONE, (IntImm(0),)),
    "value of type int32 is stored": lambda t: BufferStore(A, IntImm(1), (IntImm(0),) * 2),
    "operands of different types, int32 and float32": lambda t: Evaluate(Add(IntImm(1), ONE)),
    "operands of different types, int32x4 and int32": lambda t: t.loop(
        I, 8, Evaluate(Mul(Ramp(I, IntImm(1), 4), I))
    ),
    "Sub of truth values": lambda t: Evaluate(Sub(TRUE, TRUE)),
    "FloorDiv of truth values": lambda t: Evaluate(FloorDiv(TRUE, TRUE)),
    "and of int32": lambda t: Evaluate(And(IntImm(1), IntImm(1))),
    "Select of int32, float32 and float32": lambda t: Evaluate(Select(IntImm(1), ONE, ONE)),
    "A is indexed by float32": lambda t: BufferStore(A, ONE, (IntImm(0), ONE)),
    "only the last index may be a vector": lambda t: Evaluate(
        BufferLoad(A, (Broadcast(IntImm(0), 4), Ramp(IntImm(0), IntImm(1), 4)))
    ),
    "ProducerStore of T": lambda t: ProducerStore(Producer, ONE, (IntImm(0),)),
    "unknown intrinsic frobnicate": lambda t: Evaluate(Call(float32, "frobnicate", (ONE,))),
    "the condition 1 is int32": lambda t: IfThenElse(IntImm(1), Evaluate(IntImm(0)), None),
    "the condition 2 is int32": lambda t: While(IntImm(2), Evaluate(IntImm(0))),
    "loop variable x is float32, no integer": lambda t: t.loop(
        Var("x", "float32"), 8, good(t)
    ).with_(min=ONE, extent=ONE),
    "M is allocated with a negative size": lambda t: Allocate(
        Var("M", "handle"), float32, (IntImm(-4),), TRUE, Evaluate(IntImm(0))
    ),
    "one statement or another sequence": lambda t: SeqStmt((good(t),)),
    "is int32, its value float32": lambda t: LetStmt(I, ONE, good(t)),
    "For.body: expected Stmt, found None": lambda t: good(t).with_(body=None),
    "For.extent: expected Expr, found 4": lambda t: t.loop(I, 2, good(t).with_(extent=4)),
    "expected an expression, found 0": lambda t: Evaluate(BufferLoad(A, (cast(Any, 0), IntImm(0)))),
    "expected an expression, found 'x'": lambda t: Evaluate(
        Call(float32, "exp", cast(Any, ("x",)))
    ),
    "Call.dtype: expected a DType, found 'float32'": lambda t: Evaluate(
        Call(cast(Any, "float32"), "exp", (ONE,))
    ),
    "IntImm.dtype: expected a DType, found 9": lambda t: Evaluate(
        Call(float32, "exp", (IntImm(0, cast(Any, 9)),))
    ),
    "its extent int64": lambda t: type(good(t))(
        I, IntImm(0), op.const(8, "int64"), good(t).kind, Evaluate(IntImm(0))
    ),
}


def test_a_good_function_passes(tir: type[Programs]) -> None:
    verify(tir.func([A], seq(good(tir), good(tir))))


@pytest.mark.parametrize("message", BAD)
def test_refused(tir: type[Programs], message: str) -> None:
    func = tir.func([A], BAD[message](tir))
    with pytest.raises(VerifyError, match=message) as info:
        verify(func)
    assert "in the statement" in info.value.__notes__[0]


def test_a_parameter_of_negative_size(tir: type[Programs]) -> None:
    buffer = decl_buffer((-8,), name="N")
    with pytest.raises(VerifyError, match="buffer N has a negative size"):
        verify(tir.func([buffer], Evaluate(IntImm(0))))


def test_a_function_without_a_body(tir: type[Programs]) -> None:
    with pytest.raises(VerifyError, match="expected a statement, found None"):
        verify(tir.func([A], cast(Any, None)))


def test_the_scope_of_an_expression_ends(tir: type[Programs]) -> None:
    x = Var("x")
    index = Let(x, IntImm(1), x + 1)
    verify(tir.func([A], BufferStore(A, ONE, (index, index))))
    with pytest.raises(VerifyError, match="variable x"):
        verify(tir.func([A], BufferStore(A, ONE, (index, x))))


def test_an_allocation_ends(tir: type[Programs]) -> None:
    inside = Allocate(L.data, float32, (IntImm(8),), TRUE, BufferStore(L, ONE, (IntImm(0),)))
    verify(tir.func([A], inside))
    with pytest.raises(VerifyError, match="outside of its allocation"):
        verify(tir.func([A], seq(inside, BufferStore(L, ONE, (IntImm(0),)))))


def test_a_declared_buffer_needs_memory_and_sizes(tir: type[Programs]) -> None:
    n = Var("n")
    view = Buffer(L.data, float32, (n,), name="view")
    store = DeclBuffer(view, BufferStore(view, ONE, (IntImm(0),)))
    with pytest.raises(VerifyError, match="view is declared over memory that nothing allocates"):
        verify(tir.func([A], store))
    inside = Allocate(L.data, float32, (IntImm(8),), TRUE, store)
    with pytest.raises(VerifyError, match="variable n is used outside"):
        verify(tir.func([A], inside))
    verify(tir.func([A], LetStmt(n, IntImm(4), inside)))


def test_sizes_inside_dimensions_of_parameters_are_known(tir: type[Programs]) -> None:
    n = Var("n")
    B = decl_buffer((n + 2,), name="B")
    store = BufferStore(B, ONE, (n,))
    verify(tir.func([B], store))
    with pytest.raises(VerifyError, match="variable n is used outside"):
        verify(tir.func([A], store))
