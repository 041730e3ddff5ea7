"""The graph of operations: orders, readers, sub-graphs, replacement."""

from autosched import te
from autosched.te.operations.graph import (
    feed_graph,
    post_order_ops,
    read_graph,
    replace_inputs,
    sub_graph,
)
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Reduce
from kit.te import compute_of


def _diamond() -> tuple[Tensor, ...]:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: A[i] * 2.0, name="C")
    D = te.compute((8,), lambda i: C[i] + B[i] + A[i], name="D")
    return A, B, C, D


def test_post_order_follows_first_appearance() -> None:
    A, B, C, D = _diamond()
    assert post_order_ops([D.op]) == [A.op, C.op, B.op, D.op]
    assert post_order_ops([B.op, D.op]) == [A.op, B.op, C.op, D.op]
    assert D.op.inputs == (C, B, A)


def test_what_an_index_reads_comes_first() -> None:
    """As in TVM 0.17, which prints these orders; records name stages by them."""
    A, D = te.placeholder((9,), name="A"), te.placeholder((9,), name="D")
    I, J = (te.placeholder((9,), "int32", name=name) for name in "IJ")
    B = te.placeholder((9, 9), name="B")
    k = te.reduce_axis((0, 9), name="k")
    for expected, body in {
        "IA": lambda i: A[I[i]],
        "DIJBA": lambda i: D[i] + B[I[i], J[i]] * A[i],
        "JIBA": lambda i: B[I[J[i]], i] + A[i],
        "IJAD": lambda i: te.if_then_else(I[i] > 0, A[J[i]], D[i]),
        "IAJ": lambda _: te.sum(A[I[k]], axis=k, where=J[k] > 0),
        "ADJ": lambda i: te.sum(A[k], axis=k, where=J[k] > 0, init=D[i]),
    }.items():
        C = te.compute((9,), body, name="C")
        assert [tensor.name for tensor in C.op.inputs] == list(expected)
        assert [op.name for op in post_order_ops([C.op])] == [*expected, "C"]


def test_read_and_feed_graph() -> None:
    A, B, C, D = _diamond()
    assert read_graph([D.op]) == {D.op: (C, B, A), C.op: (A,), B.op: (A,), A.op: ()}
    assert feed_graph([B.op, C.op, D.op])[A] == [B.op, C.op, D.op]


def test_sub_graph_with_and_without_its_inputs() -> None:
    A, B, C, D = _diamond()
    assert sub_graph([D], [A], include_inputs=False) == [C.op, B.op, D.op]
    assert sub_graph([D], [B], include_inputs=True) == [B.op, D.op]
    assert sub_graph([B], [C], include_inputs=False) == []


def test_replace_inputs_keeps_axes_and_leaves_others_alone() -> None:
    A, B, _, D = _diamond()
    E = te.placeholder((8,), name="E")
    new = replace_inputs(B.op, {A: E})
    assert new is not B.op and isinstance(new, ComputeOp)
    assert (new.axis, new.inputs) == (compute_of(B).axis, (E,))
    assert new.outputs[0] is not B
    assert replace_inputs(D.op, {E: A}) is D.op


def test_replace_inputs_of_several_outputs_keeps_one_reduction() -> None:
    A = te.placeholder((8, 4), name="A")
    E = te.placeholder((8, 4), name="E")
    k = te.reduce_axis((0, 4), "k")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])),
        lambda t, u: (te.const(0, t), te.min_value(u)),
    )
    B, _ = te.compute((8,), lambda i: both((A[i, k], A[i, k]), axis=k))
    new = replace_inputs(B.op, {A: E})
    assert isinstance(new, ComputeOp)
    first, second = new.body
    assert isinstance(first, Reduce) and isinstance(second, Reduce)
    assert first.source == second.source
    assert new.inputs == (E,)
