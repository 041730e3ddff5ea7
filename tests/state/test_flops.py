"""Counted operations against counts by hand."""

from __future__ import annotations

import pytest

from autosched import te, workloads
from autosched.state.flops import count_flops
from autosched.te.operations.operation import Operation
from autosched.te.operations.tensor import Tensor


def ops(*tensors: Tensor) -> list[Operation]:
    return [tensor.op for tensor in tensors]


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("matmul", {"M": 4, "N": 5, "K": 6}, 2 * 4 * 5 * 6),
        ("dense_bias_relu", {"M": 4, "N": 5, "K": 6}, 2 * 4 * 5 * 6 + 2 * 4 * 5),
        ("norm_bmn", {"B": 2, "M": 3, "N": 4}, 2 * 2 * 3 * 4),
        ("softmax", {"M": 2, "N": 8}, 4 * 2 * 8),
    ],
)
def test_workloads(name: str, args: dict[str, int], expected: float) -> None:
    from autosched.state.dag import ComputeDAG

    assert ComputeDAG(workloads.get(name).tensors(**args)).flop_count == expected


def test_select_counts_the_dearer_branch_and_casts_are_free() -> None:
    A = te.placeholder((4,), name="A")
    x = te.compute((4,), lambda i: te.select(i < 2, A[i] * 2.0 + 1.0, A[i]), name="x")
    assert count_flops(ops(A, x)) == 4 * 2, "the comparison of indices is not a float operation"
    y = te.compute((4,), lambda i: te.cast("int32", A[i]) + 1, name="y")
    assert count_flops(ops(A, y)) == 4


def test_truth_values_are_unsigned_integers() -> None:
    A = te.placeholder((4,), "uint8", name="A")
    B = te.placeholder((4,), "bool", name="B")
    inside = te.compute(
        (6,),
        lambda i: te.if_then_else(te.all(i >= 1, i < 5), A[i - 1], te.const(0, "uint8")),
        name="inside",
    )
    assert count_flops(ops(A, inside)) == 6, "the conjunction, not the comparisons of indices"
    masks = te.compute((4,), lambda i: te.all(B[i], te.logical_not(B[i]), A[i] < A[3 - i]))
    assert count_flops(ops(A, B, masks)) == 4 * 4


def test_attribute_overrides() -> None:
    A = te.placeholder((4,), name="A")
    x = te.compute((4,), lambda i: A[i] * 2.0, name="x", attrs={"FLOP": 1000})
    assert count_flops(ops(A, x)) == 1000


def test_symbolic_extent_cannot_be_counted() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    x = te.compute((n,), lambda i: A[i] * 2.0, name="x")
    assert count_flops(ops(A, x)) == -1
