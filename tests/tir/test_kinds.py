"""Which kinds of nodes and types occur: against walks over everything."""

from __future__ import annotations

import pytest

from autosched.tir.dtype import DType
from autosched.tir.expr import Add, BufferLoad, Call, Div, Expr, FloorMod, Select, Var
from autosched.tir.kinds import (
    POINTER,
    bits_of,
    exprs_with,
    kinds,
    kinds_in,
    loads_in,
    nodes_with,
    pointers_in,
    stored_in,
)
from autosched.tir.parser import parse_func
from autosched.tir.stmt import BufferStore
from autosched.tir.walk import all_exprs, direct_exprs, distinct, stmts, unique_exprs

PROGRAM = """
def main(A: Buffer((64,), float32), B: Buffer((64,), float32), P: pointer(float32)):
    T = allocate((4,), float16, "local")
    for i in range(16):
        if i % 3 < 2:
            B[i * 4:i * 4 + 4] = A[i * 4:i * 4 + 4] + broadcast(A[i], 4) / broadcast(2.0, 4)
        B[i] = exp(A[i] + A[i % 4])
    call_extern("f", P, dtype=int32)
"""
CLASSES: list[type[Expr] | DType] = [
    *(Add, BufferLoad, Call, Div, FloorMod, Select, Var),
    *map(DType, ("float32", "float32x4", "float64", "float16", "int32")),
]


@pytest.mark.parametrize("kind", CLASSES)
def test_bits_tell_what_occurs(kind: type[Expr] | DType) -> None:
    body = parse_func(PROGRAM).body
    nodes = list(all_exprs(body))
    found = any(type(e) is kind or e.dtype is kind for e in nodes)
    assert bool(kinds_in(body) & bits_of(kind)) == (found or kind is DType("float16"))
    for e in nodes:
        inside = any(type(c) is kind or c.dtype is kind for c in _below(e))
        assert bool(kinds(e) & bits_of(kind)) == inside


@pytest.mark.parametrize("wanted", [bits_of(BufferLoad), bits_of(Call, Div), POINTER])
def test_a_walk_leaves_out_what_holds_none_and_keeps_the_order(wanted: int) -> None:
    body = parse_func(PROGRAM).body
    expected = [e for e in unique_exprs(body) if kinds(e) & wanted]
    assert list(exprs_with(body, wanted)) == expected
    assert expected


@pytest.mark.parametrize("wanted", [bits_of(BufferLoad), bits_of(Call, Div), POINTER])
def test_so_does_a_walk_over_one_expression(wanted: int) -> None:
    roots = {e for e in all_exprs(parse_func(PROGRAM).body) if kinds(e) & wanted}
    assert roots
    for root in roots:
        expected = [e for e in distinct(root) if kinds(e) & wanted]
        assert list(nodes_with(root, wanted)) == expected


def test_loads_of_a_value_in_order() -> None:
    stores = [s for s in stmts(parse_func(PROGRAM).body) if isinstance(s, BufferStore)]
    found = [[str(load) for load in loads_in(s.value)] for s in stores]
    assert found == [["A[i * 4:i * 4 + 4]", "A[i]"], ["A[i]", "A[i % 4]"]]
    assert not list(loads_in(stores[0].indices[0]))


def _below(e: Expr) -> list[Expr]:
    return [e, *(d for c in e.children() for d in _below(c))]


def test_pointers_that_are_stored_to_or_used_other_than_for_loads() -> None:
    func = parse_func(
        "def main(A: Buffer((4,), float32), B: Buffer((4,), float32), P: pointer(float32)):\n"
        "    B[0] = A[1]\n"
        '    call_extern("f", P, address_of(A[2], dtype=handle), B[3], dtype=int32)\n'
    )
    A, B, P = (*(b.data for b in func.buffers), func.params[2])
    assert stored_in(func.body) == {B}
    assert stored_in() == set()
    assert [[*pointers_in(e)] for s in stmts(func.body) for e in direct_exprs(s)] == [
        [],
        [],
        [P, A],
    ]
