"""Interning, types and rebuilding of expressions."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType, bool_, float32, int32
from autosched.tir.expr import (
    EQ,
    Add,
    BinaryExpr,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    Expr,
    FloatImm,
    IntImm,
    IterKind,
    IterVar,
    Let,
    Mul,
    Not,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    Sub,
    Var,
)
from autosched.tir.expr_core import _refs
from autosched.tir.walk import combine

I, J = Var("i"), Var("j")


def test_equal_parts_make_the_same_object() -> None:
    assert I + J is I + J
    assert Add(I, J) is Add(I, J)
    assert Add(I, J) is not Add(J, I)
    other: Expr = Sub(I, J)
    assert Add(I, J) is not other
    assert IntImm(1) is not IntImm(1, DType("int64"))
    assert FloatImm(0.0) is not FloatImm(-0.0)
    assert Select(I < J, I, J) is Select(I < J, I, J)


def test_variables_are_unique_by_identity() -> None:
    assert Var("i") is not I
    assert Var("i") + J is not I + J


def test_dead_nodes_leave_the_table() -> None:
    a, b = Var("a"), Var("b")

    def entries() -> list[tuple[type[BinaryExpr], Var, Var]]:
        return [key for key in list(_refs) if any(part is a or part is b for part in key)]

    total = Mul(Add(a, b), Sub(a, b))
    assert len(entries()) == 2  # the sum and the difference; the product holds those two
    del total
    gc.collect()
    assert entries() == []


def test_truth_of_a_symbolic_expression_is_refused() -> None:
    with pytest.raises(TypeError, match="truth value"):
        bool(I < J)


def test_result_types() -> None:
    assert EQ(I, J).dtype is bool_
    assert EQ(Ramp(I, IntImm(1), 4), Broadcast(J, 4)).dtype.name == "boolx4"
    assert Ramp(I, IntImm(1), 8).dtype.name == "int32x8"
    vectors = (Ramp(I, IntImm(1), 4),)
    assert Shuffle(vectors, (IntImm(3), IntImm(0))).dtype.name == "int32x2"
    buffer = decl_buffer((16,), "float32x4")
    assert BufferLoad(buffer, (Ramp(I, IntImm(1), 2),)).dtype.name == "float32x8"


def nodes() -> list[Expr]:
    load = decl_buffer((4, 4), name="A")[I, J]
    x, y = Var("x", "float32"), Var("y", "float32")
    reducer = CommReducer((x,), (y,), (x + y,), (FloatImm(0.0),), "sum")
    axis = IterVar(Range.of(4), Var("k"), IterKind.REDUCE)
    return [
        I + J,
        I < J,
        Not(I < J),
        Cast(float32, I),
        Select(I < J, I, J),
        load,
        Let(J, I, J * 2),
        Call(int32, "shift_left", (I, J)),
        Ramp(I, J, 4),
        Broadcast(I, 4),
        Shuffle((Ramp(I, J, 4),), (IntImm(1),)),
        Reduce(reducer, (load,), (axis,), I < 3),
    ]


@pytest.mark.parametrize("node", nodes(), ids=lambda e: type(e).__name__)
def test_rebuilding_over_the_same_children_gives_the_node(node: Expr) -> None:
    assert node.with_children(node.children()) is node


def test_rebuilding_folds() -> None:
    assert (I + J).with_children((I, IntImm(0))) is I
    assert Cast(float32, I).with_children((Ramp(I, IntImm(1), 4),)).dtype.name == "float32x4"


def test_iteration_variables_stand_for_their_variable() -> None:
    iv = IterVar(Range.of(8), I, IterKind.DATA_PAR)
    assert iv * 2 + 1 is I * 2 + 1
    assert 3 - iv is 3 - I
    assert iv // 2 is I // 2
    assert iv % 2 is I % 2
    assert (iv < 3) is (I < 3)
    assert decl_buffer((8,), name="A")[iv].indices == (I,)


def test_ranges_unify_their_ends() -> None:
    r = Range.of(4, Var("n", "int64"))
    assert r.extent is IntImm(4, DType("int64"))


def test_reducers_combine() -> None:
    x, y = Var("x"), Var("y")
    reducer = CommReducer((x,), (y,), (op.max_(x, y),), (op.min_value("int32"),))
    assert combine(reducer, (I,), (J,)) == (op.max_(I, J),)


def test_types_are_interned() -> None:
    assert DType("float32x4") is DType("float32x4")
    assert DType("float32x4").element is float32
    assert float32.with_lanes(4).with_lanes(1) is float32
    assert pickle.loads(pickle.dumps(bool_)) is bool_
    assert copy.deepcopy(int32) is int32
    with pytest.raises(ValueError, match="float33"):
        DType("float33")


@pytest.mark.parametrize(
    ("name", "low", "high", "size"),
    [
        ("int8", -128, 127, 1),
        ("uint16", 0, 65535, 2),
        ("bool", 0, 1, 1),
        ("int64", -(2**63), 2**63 - 1, 8),
    ],
)
def test_integer_types(name: str, low: int, high: int, size: int) -> None:
    dtype = DType(name)
    assert (dtype.min_value, dtype.max_value, dtype.bytes) == (low, high, size)
