"""Access analysis: simple accesses, inlining, tiling, common axes, element-wise chains."""

from __future__ import annotations

import pytest

from autosched import te, workloads
from autosched.state import queries
from autosched.state.access import AccessAnalyzer, const_shift_equal, simple_access
from autosched.state.dag import ComputeDAG
from autosched.task import Task
from autosched.tir.expr import Var

BIG = {"M": 64, "N": 64, "K": 64, "B": 4, "S": 16, "H": 2, "D": 16}


def analyse(name: str, **args: int) -> tuple[AccessAnalyzer, dict[str, int]]:
    needed = workloads.get(name).args
    dag = ComputeDAG(workloads.get(name).tensors(**{k: args.get(k, BIG.get(k)) for k in needed}))
    return dag.access, {op.name: k for k, op in enumerate(dag.ops)}


def test_const_shift() -> None:
    v, w = Var("v"), Var("w")
    assert all(const_shift_equal(v, e) for e in (v, v + 2, 2 + v, v - 1))
    assert not any(const_shift_equal(v, e) for e in (w, v * 2, v + w, 1 - v))


def test_simple_access_of_axes() -> None:
    B = te.compute((4, 4), lambda i, j: i + j, name="B")
    op = B.op
    i, j = (axis.var for axis in op.axis)
    plain = simple_access(op, (i, j + 1))
    assert plain is not None
    assert plain.is_elementwise
    swapped = simple_access(op, (j, i))
    assert swapped is not None
    assert not swapped.same_order
    twice = simple_access(op, (i, i))
    assert twice is not None
    assert (twice.axis_missing, twice.axis_duplicated) == (True, True)
    assert simple_access(op, (i * 2, j)) is None


def test_matmul_needs_tiling_and_is_output() -> None:
    access, at = analyse("matmul")
    assert access.needs_multi_level_tiling == [False, False, True]
    assert access.is_output == [False, False, True]
    assert not access.is_strictly_inlineable[at["C"]]
    assert access.num_common_outer_iterators(at["A"], at["C"]) == 1
    assert access.num_common_outer_iterators(at["C"], at["B"]) == 0


def test_epilogue_is_an_elementwise_chain() -> None:
    access, at = analyse("dense_bias_relu")
    assert access.is_strictly_inlineable[at["U"]]
    assert access.elementwise_match(at["T"], at["relu"])
    assert not access.elementwise_match(at["bias"], at["relu"])
    assert access.common_outer_iterators_to(at["T"], at["relu"]) == 2
    assert access.common_outer_iterators_to(at["relu"], at["T"]) == 0


def test_softmax() -> None:
    access, at = analyse("softmax")
    assert not access.is_strictly_inlineable[at["exp"]], "exp is too dear to repeat"
    assert not any(access.needs_multi_level_tiling)
    assert access.common_outer_iterators_to(at["maxelem"], at["norm"]) == 1
    assert not access.elementwise_match(at["exp"], at["norm"]), "two readers"


def test_branches_and_constants() -> None:
    args = {"N": 1, "H": 8, "W": 8, "C": 4, "K": 3, "stride": 1, "padding": 1}
    access, at = analyse("depthwise_conv2d_nhwc", **args)
    assert access.is_simple_access[at["pad"]]
    assert not access.is_strictly_inlineable[at["pad"]]
    one = te.compute((4,), lambda i: te.if_then_else(i < 2, 1.0, 2.0), name="one")
    two = te.compute((4,), lambda i: one[i] * 2.0, name="two")
    assert ComputeDAG([two]).access.is_strictly_inlineable[0]


@pytest.mark.parametrize(("n", "expected"), [(1, False), (4, True)])
def test_axes_of_length_one_are_no_reuse(n: int, expected: bool) -> None:
    access, at = analyse("matmul", M=n, N=n)
    assert access.needs_multi_level_tiling[at["C"]] is expected


@pytest.mark.parametrize(
    ("expr", "shapes", "apart"),
    [
        ("C[i, j] = sum(k, A[i, k] * A[j, k])", {"A": [4, 5]}, True),
        ("C[i, j] = sum(k, A[i, k] * A[k, j])", {"A": [5, 5]}, True),
        ("C[i, j] = a[i] * a[j]", {"a": [4]}, True),
        ("C[i, j] = sum(k, A[i, k] * B[k, j])", {"A": [4, 5], "B": [5, 4]}, False),  # as it is
        ("C[i] = sum(k, A[i, k] * A[i, k])", {"A": [4, 5]}, False),
        ("C[i, j] = A[i, j] * w[0] + A[i, j + 1] * w[1]", {"A": [4, 5], "w": [2]}, False),
        ("C[i, j] = a[i] + a[i + 1] + A[i, j]", {"a": [5], "A": [5, 4]}, False),
    ],
)
def test_a_tensor_in_two_roles_is_used_again(
    expr: str, shapes: dict[str, list[int]], apart: bool
) -> None:
    """Ansor sees no reuse where the reads of one tensor have all axes together."""
    dag = Task.from_expression(expr, shapes).dag
    assert (dag.reading_apart is not dag) is apart
    if apart:
        assert not any(dag.access.needs_multi_level_tiling)
        assert dag.reading_apart.access.needs_multi_level_tiling == [False, True]
        cached = dag.reading_apart.init_state.cache_write(1, "local")[0]
        assert queries.needs_multi_level_tiling(cached, 1)


def test_const_tensor_attribute_forbids_tiling() -> None:
    A = te.placeholder((8, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute(
        (8, 8),
        lambda i, j: te.sum(A[i, k] * A[k, j], axis=k),
        name="C",
        attrs={"auto_scheduler_simplify_const_tensor_indices": ["k"]},
    )
    assert not ComputeDAG([A, C]).access.needs_multi_level_tiling[1]
