"""The text of DAGs: operators, types, reducers, the simple form."""

from __future__ import annotations

import pytest

from autosched import te
from autosched.state.dag import ComputeDAG
from autosched.state.dag_text import dag_text, expr_text
from autosched.tir import op
from autosched.tir.expr import Expr, Var

i, j, x = Var("i"), Var("j"), Var("x", "float32")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (i * 2 + j, "((i*2) + j)"),
        (op.truncdiv(i, 2) - op.truncmod(j, 3), "((i/2) - (j % 3))"),
        (i // 2 % 3, "floormod(floordiv(i, 2), 3)"),
        (op.and_(i < 1, op.or_(j >= 2, op.ne(i, j))), "((i < 1) && ((j >= 2) || (i != j)))"),
        (op.not_(op.eq(i, j)), "!(i == j)"),
        (op.max_(x, 0.0), "max(x, 0f)"),
        (op.min_(x, op.const(1e-5)), "min(x, 1e-05f)"),
        (op.cast("float64", x) * 0.5, "(float64(x)*0.5)"),
        (op.cast("float16", x) + 1.0, "(float16(x) + 1h)"),
        (op.const(0.1, "float16"), "0.1h"),  # 0.0999756 in its type
        (op.const(0.001, "float16"), "0.001h"),
        (op.const(0.015625, "float16"), "0.015625h"),
        (op.const(65504.0, "float16"), "65504h"),
        (op.const(0.1, "bfloat16"), "0.1h"),
        (op.const(0.1, "float64"), "0.1"),
        (op.cast("int64", i) + 1, "(int64(i) + (int64)1)"),
        (op.select(i < 1, x, x + 1.0), "select((i < 1), x, (x + 1f))"),
        (op.call("sqrt", x), "tir.sqrt(x)"),
    ],
)
def test_expressions(expr: Expr, text: str) -> None:
    assert expr_text(expr) == text


def test_operations() -> None:
    A = te.placeholder((4, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((4,), lambda i: op.call("exp", B[i]), name="C")
    ops = [t.op for t in (A, B, C)]
    assert dag_text(ops) == "A = PLACEHOLDER [4, 4]\nB(i) += A[i, k]\nC(i) = tir.exp(B[i])\n"
    assert dag_text(ops, simple=True) == "A = PLACEHOLDER \nB(i) += A[i, k]\nC(i) = Op(tir.exp)\n"


def test_reducers() -> None:
    A = te.placeholder((4, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
    )
    low = te.compute((4,), lambda i: te.min(A[i, k], axis=k), name="low")
    index, _ = te.compute((4,), lambda i: argmax((k.var, A[i, k]), axis=k), name="best")
    product = te.compute((4,), lambda i: te.prod(A[i, k], axis=k), name="product")
    assert dag_text([low.op]) == "low(i) min= A[i, k]\n"
    first, second = dag_text([index.op]).splitlines()
    assert first == "best(i).v0 select((x_1 >= y_1), x_0, y_0)= (k,A[i, k])"
    assert second.startswith("best(i).v1 select(")
    assert dag_text([product.op]) == "product(i)reduce(x*y)\n"  # without what it reduces


def test_a_chosen_maximum_is_a_reduction_of_any_kind() -> None:
    A, at = te.placeholder((4, 6), name="A"), te.placeholder((4, 6), name="at", dtype="int32")
    argmax = te.comm_reducer(
        lambda x, y: tuple(te.if_then_else(x[1] >= y[1], x[n], y[n]) for n in (0, 1)),
        lambda t0, t1: (te.min_value(t0), te.min_value(t1)),
    )
    k = te.reduce_axis((0, 6), name="k")
    best = te.compute((4,), lambda i: argmax((at[i, k], A[i, k]), axis=k), name="T")
    assert dag_text([best[0].op]) == (
        "T(i).v0reducetir.if_then_else((x_1 >= y_1), x_0, y_0)\n"
        "T(i).v1reducetir.if_then_else((x_1 >= y_1), x_1, y_1)\n"
    )
    assert ComputeDAG([at, A, *best]).hash_key() == (
        '["3b1619ba09bc7a08667accb742bf13d9", [4, 6], [4, 6], [4], [4]]'
    )


def test_reads_of_several_outputs_say_which() -> None:
    A = te.placeholder((4, 6), name="A")
    P = te.compute((4, 6), lambda i, j: (A[i, j] + 1.0, A[i, j] * 2.0), name="P")
    D = te.compute((4, 6), lambda i, j: P[0][i, j] + P[1][i, j], name="D")
    dag = ComputeDAG([A, D])
    assert dag.print_dag().splitlines()[-1] == "D(i, j) = (P.v0[i, j] + P.v1[i, j])"
    assert dag.hash_key() == '["99a3a3a557ac617387a358b1393d5f7e", [4, 6], [4, 6]]'
