"""Reductions of several values at once."""

import numpy as np

from autosched import te
from autosched.te.lowering.reduction_update import assignments, split_point
from autosched.te.operations.tensor import Tensor
from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, Reduce, Var
from autosched.tir.stmt import LetStmt, SeqStmt
from kit.te import compute_of, reduction_of
from kit.types import Array, Check


def arg_max(index_first: bool) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    A = te.placeholder((5, 10), name="A")
    k = te.reduce_axis((0, 10), "k")

    def combine(x: tuple[Var, Var], y: tuple[Var, Var]) -> tuple[Expr, Expr]:
        index, value = (0, 1) if index_first else (1, 0)
        keep = op.ge(x[value], y[value])
        best = op.select(keep, x[index], y[index])
        top = op.select(keep, x[value], y[value])
        return (best, top) if index_first else (top, best)

    def identity(a: DType, b: DType) -> tuple[Expr, Expr]:
        low, none = te.min_value("float32"), te.const(-1, "int32")
        return (none, low) if index_first else (low, none)

    reducer = te.comm_reducer(combine, identity, name="argmax")

    def element(i: Var) -> tuple[Reduce, Reduce]:
        pair = (k.var, A[i, k]) if index_first else (A[i, k], k.var)
        result: tuple[Reduce, Reduce] = reducer(pair, axis=k)
        return result

    return A, te.compute((5,), element, name="M")


def test_updates_in_sequence_when_that_is_right() -> None:
    _, outputs = arg_max(index_first=True)

    found = assignments(compute_of(outputs[0]), reduction_of(outputs[0]))
    assert isinstance(found, SeqStmt)


def test_values_first_when_a_later_one_reads_what_was_overwritten() -> None:
    _, outputs = arg_max(index_first=False)

    found = assignments(compute_of(outputs[0]), reduction_of(outputs[0]))
    assert isinstance(found, LetStmt)


def test_both_orders_compute_the_same(check: Check) -> None:
    for index_first in (True, False):
        A, outputs = arg_max(index_first)
        s = te.create_schedule(outputs[0].op)
        s[outputs[0]].split(compute_of(outputs[0]).reduce_axis[0], factor=4)

        def reference(a: Array, index_first: bool = index_first) -> tuple[Array, Array]:
            best = a.argmax(1).astype(np.int32), a.max(1)
            return best if index_first else best[::-1]

        check(s, [A, *outputs], reference)


def test_split_point() -> None:
    A = te.placeholder((8, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], factor=2)
    ko, ki = s[C].split(k, factor=2)
    s[C].reorder(io, ko, ii, ki)
    common, reducing = split_point(s[C], C.op)
    assert common == 1
    assert reducing == {k, ko, ki}
