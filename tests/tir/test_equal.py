"""Structural equality ignores names and the identity of what is bound inside."""

from __future__ import annotations

from typing import Any

import pytest

from autosched import te
from autosched.tir import op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import float32
from autosched.tir.equal import structural_equal, structural_hash
from autosched.tir.expr import CommReducer, IntImm, IterVar, Let, Range, Reduce, Var, pointer
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from kit.programs import Programs


def program(
    tir: type[Programs],
    extent: int = 8,
    name: str = "A",
    swap: bool = False,
    scope: str = "local",
    kind: ForKind = ForKind.SERIAL,
    value: float = 1.0,
) -> PrimFunc:
    """A function with every kind of binding, fresh at each call."""
    A, B = decl_buffer((8, 8), name=name), decl_buffer((64,), name="B")
    n, i, j, t = Var("n"), Var(f"{name}_i"), Var("j"), Var("t")
    local = decl_buffer((8, 8), name="L", scope=scope)
    data = pointer("p", float32, "global")
    flat = Buffer(data, float32, (IntImm(64),))
    axis = tir.thread("threadIdx.x")
    indices = (j, i) if swap else (i, j)
    body = seq(
        BufferStore(local, A[indices] + value, (i, j)),
        IfThenElse(op.lt(i, n), BufferStore(flat, local[i, j], (i * 8 + j,))),
        LetStmt(t, i * 8, BufferStore(B, flat[t], (t + axis.var,))),
    )
    body = tir.loop(i, extent, tir.loop(j, 8, body), kind)
    body = BufferRealize(local, (Range.of(8), Range.of(8)), TRUE, body)
    body = Allocate(data, float32, (IntImm(64),), TRUE, tir.launch(body, (axis, 8)))
    return tir.func([A, B], body, [n])


def test_programs_that_differ_in_names_are_equal(tir: type[Programs]) -> None:
    a, b = program(tir), program(tir, name="Z")
    assert structural_equal(a, b)
    assert structural_hash(a) == structural_hash(b)
    assert structural_equal(IRModule({"f": a}), IRModule({"f": b}))


@pytest.mark.parametrize(
    "change",
    [
        {"extent": 7},
        {"swap": True},
        {"scope": "shared"},
        {"kind": ForKind.UNROLLED},
        {"value": 2.0},
    ],
    ids=lambda c: next(iter(c)),
)
def test_what_makes_a_difference(tir: type[Programs], change: dict[str, Any]) -> None:
    a, b = program(tir), program(tir, **change)
    assert not structural_equal(a, b)
    assert structural_hash(a) != structural_hash(b)


def test_free_variables_must_be_the_same_objects() -> None:
    i, j, k = Var("i"), Var("i"), Var("k")
    assert structural_equal(i + k, i + k)
    assert not structural_equal(i + k, j + k)
    assert structural_equal(i + k, j + k, map_free_vars=True)
    assert not structural_equal(i + i, i + j, map_free_vars=True)
    assert not structural_equal(i + j, i + i, map_free_vars=True)


def test_a_variable_bound_twice_in_a_row(tir: type[Programs]) -> None:
    i, j = Var("i"), Var("j")
    A = decl_buffer((8,), name="A")

    def twice(first: Var, second: Var) -> Stmt:
        parts = [tir.loop(v, 8, BufferStore(A, op.const(0.0), (v,))) for v in (first, second)]
        return seq(*parts)

    assert structural_equal(twice(i, i), twice(i, j))


def test_a_thread_axis_may_be_that_of_several_stages() -> None:
    A = decl_buffer((8,), name="A")

    def twice(first: IterVar, second: IterVar) -> Stmt:
        stores = [(iv, BufferStore(A, op.const(0.0), (iv.var,))) for iv in (first, second)]
        return seq(*(AttrStmt(iv, "thread_extent", IntImm(8), body) for iv, body in stores))

    one, other = (te.thread_axis((0, 8), "threadIdx.x") for _ in range(2))
    assert structural_equal(twice(one, one), twice(one, other))


def test_alignment_names_a_buffer_before_it_is_realized() -> None:
    text = """\
def main(A: Buffer((8,), float32)):
    attr(T, "buffer_dim_align", tuple(0, 32, 8))
    realize(T[0:8], float32, "shared")
    T[0] = A[0]
"""
    assert structural_equal(parse_func(text), parse_func(text))
    assert not structural_equal(parse_func(text), parse_func(text.replace("32, 8", "32, 4")))


def test_a_pragma_names_a_loop_variable_before_its_loop() -> None:
    text = """\
def main(A: Buffer((8,), float32)):
    pragma(var(i), "loop_partition_hint", 1)
    pragma(var(i), "unroll", 1)
    for i in range(8):
        A[i] = 0.0
"""
    assert structural_equal(parse_func(text), parse_func(text))
    assert not structural_equal(parse_func(text), parse_func(text.replace('hint", 1', 'hint", 2')))


def test_bound_and_free_are_not_confused(tir: type[Programs]) -> None:
    i, j, outer = Var("i"), Var("j"), Var("outer")
    A = decl_buffer((8,), name="A")
    a = tir.loop(i, 8, BufferStore(A, op.const(0.0), (i,)))
    b = tir.loop(j, 8, BufferStore(A, op.const(0.0), (outer,)))
    assert not structural_equal(a, b)


def test_expressions_with_bindings() -> None:
    def total(name: str) -> Reduce:
        x, y, k = Var(name), Var("y"), Var("k")
        reducer = CommReducer((x,), (y,), (x + y,), (IntImm(0),))
        return Reduce(reducer, (k * 2,), (IterVar(Range.of(4), k, "reduce"),))

    assert structural_equal(total("x"), total("z"))
    a, b, v = Var("a"), Var("b"), Var("v")
    assert structural_equal(Let(a, v, a + 1), Let(b, v, b + 1))
    assert not structural_equal(Let(a, v, a + 1), Let(b, v, v + 1))


def test_symbolic_shapes_are_bound_by_parameters(tir: type[Programs]) -> None:
    def copy() -> PrimFunc:
        n, i = Var("n"), Var("i")
        A, B = decl_buffer((n,), name="A"), decl_buffer((n,), name="B")
        return tir.func([A, B], tir.loop(i, 4, BufferStore(B, A[i], (i,))))

    assert structural_equal(copy(), copy())


def test_a_buffer_declared_in_two_places_is_two_buffers() -> None:
    """One object or two: each declaration makes a buffer of its own."""
    data = pointer("A", float32)
    index = IntImm(0)

    def declared(buffer: Buffer) -> Stmt:
        return DeclBuffer(buffer, BufferStore(buffer, op.const(1.0), (index,)))

    first, second = (Buffer(data, float32, (IntImm(4),), name=name) for name in ("v", "w"))
    once, twice = seq(declared(first), declared(first)), seq(declared(first), declared(second))
    assert structural_equal(once, twice)
    assert structural_hash(once) == structural_hash(twice)
    crossed = DeclBuffer(first, DeclBuffer(second, BufferStore(first, op.const(1.0), (index,))))
    assert not structural_equal(
        crossed, DeclBuffer(first, DeclBuffer(second, BufferStore(second, op.const(1.0), (index,))))
    )
