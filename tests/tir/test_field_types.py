"""Fields of statements of a wrong type, as rewriters leave them that forget a `return`."""

from __future__ import annotations

from typing import Any

import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.field_types import wrong_field
from autosched.tir.op import const
from autosched.tir.stmt import BufferStore, Evaluate, For, ForKind, IfThenElse, SeqStmt, nop

ANY: Any = None
ZERO = IntImm(0)
A = decl_buffer((4,), name="A")
LOOP = For(Var("i"), ZERO, IntImm(4), ForKind.SERIAL, nop())
STORE = BufferStore(A, const(1, "float32"), (ZERO,))
TEXT: Any = "serial"


@pytest.mark.parametrize(
    "stmt",
    [LOOP, STORE, STORE.with_(predicate=ZERO), IfThenElse(ZERO, LOOP), SeqStmt((LOOP, STORE))],
)
def test_what_fits(stmt: Any) -> None:
    assert wrong_field(stmt) == ""


@pytest.mark.parametrize(
    ("stmt", "message"),
    [
        (LOOP.with_(body=None), "For.body: expected Stmt, found None"),
        (LOOP.with_(extent=4), "For.extent: expected Expr, found 4 (int)"),
        (LOOP.with_(kind=TEXT), "For.kind: expected ForKind, found 'serial' (str)"),
        (LOOP.with_(annotations=None), "For.annotations: expected dict, found None"),
        (
            LOOP.with_(thread_binding=3),
            "For.thread_binding: expected IterVar or None, found 3 (int)",
        ),
        (IfThenElse(ZERO, ANY), "IfThenElse.then_case: expected Stmt, found None"),
        (
            STORE.with_(indices=(0,)),
            "BufferStore.indices: expected a tuple of Expr, found 0 (int) in it",
        ),
        (
            STORE.with_(indices=[ZERO]),
            "BufferStore.indices: expected a tuple of Expr, found [0] (list)",
        ),
        (SeqStmt((LOOP, ANY)), "SeqStmt.stmts: expected a tuple of Stmt, found None in it"),
        (Evaluate(ANY), "Evaluate.value: expected Expr, found None"),
    ],
)
def test_what_does_not(stmt: Any, message: str) -> None:
    assert wrong_field(stmt) == message
