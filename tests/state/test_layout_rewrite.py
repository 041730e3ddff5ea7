"""Layout rewrite: the new shapes, the new steps, and the same results as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import ConfigError
from autosched.layout import LayoutOption
from autosched.state.dag import ComputeDAG
from autosched.state.layout_rewrite import rewrite_layout
from autosched.state.steps import steps_from_json, steps_to_json
from autosched.workloads.evaluate import evaluate
from autosched.workloads.workload import random_inputs, shape_of

STEPS = steps_from_json(
    [
        ["SP", 2, 0, 16, [4], 1],
        ["SP", 2, 2, 32, [8], 1],
        ["SP", 2, 4, 8, [2], 1],
        ["RE", 2, [0, 2, 4, 1, 3, 5]],
        ["FU", 2, [0, 1]],
        ["AN", 2, 0, 3],
    ]
)


def matmul(size: int = 32) -> ComputeDAG:
    A, B = te.placeholder((16, 8), name="A"), te.placeholder((8, size), name="B")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute(
        (16, size),
        lambda i, j: te.sum(A[i, k] * B[k, j], axis=k),
        name="C",
        attrs={"layout_free_placeholders": [B]},
    )
    return ComputeDAG([A, B, te.compute((16, size), lambda i, j: C[i, j] + 1.0, name="D")])


def test_pre_transformed() -> None:
    dag = matmul()
    rewritten = rewrite_layout(dag, STEPS, LayoutOption.FOR_PRE_TRANSFORMED)
    (change,) = rewritten.changes
    assert (change.original_layout, change.new_layout) == ("8k32j", "4j4k8j2k")
    assert [shape_of(t) for t in rewritten.dag.tensors] == [(16, 8), (4, 4, 8, 2), (16, 32)]
    assert rewritten.steps == STEPS
    assert rewritten.dag.ops[2].attrs["new_placeholder_layout"] == "4j4k8j2k"
    a, b = random_inputs(dag.tensors[:2])
    expected = evaluate(dag.tensors, [a, b])
    found = evaluate(rewritten.dag.tensors, [a, change.transform(b)])
    np.testing.assert_allclose(found[0], expected[0])
    rewritten.dag.infer_bound_of(rewritten.steps)


@pytest.mark.parametrize("option", [LayoutOption(1), LayoutOption(2)], ids=lambda o: o.text)
def test_an_input_that_is_copied_for_one_of_its_readers(option: LayoutOption) -> None:
    """C reads a copy of B, D reads B itself: no transform stage can come before the copy."""
    A, B = te.placeholder((16, 8), name="A"), te.placeholder((8, 32), name="B")
    k, r = (te.reduce_axis((0, 8), name=name) for name in "kr")
    C = te.compute((16, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    attrs = {"layout_free_placeholders": [B]}
    D = te.compute((32,), lambda j: te.sum(B[r, j], axis=r), name="D", attrs=attrs)
    dag = ComputeDAG([A, B, C, D])
    copied = steps_from_json([["CHR", 0, "global", [2]], ["CHR", 2, "global", [3]]])
    assert [op.name for op in dag.replayed(copied).ops][2:4] == ["B", "B.global"]
    rewritten = rewrite_layout(dag, copied, option)
    assert len(rewritten.changes) == option - 1
    rewritten.dag.infer_bound_of(rewritten.steps)
    other = rewrite_layout(dag, copied[:1], option)  # A is copied, and not layout-free
    assert len(other.changes) == 1
    other.dag.infer_bound_of(other.steps)


def test_inserted_stage() -> None:
    dag = matmul()
    rewritten = rewrite_layout(dag, STEPS, LayoutOption.INSERT_TRANSFORM_STAGE)
    assert [op.name for op in rewritten.dag.ops] == [
        "A",
        "B",
        "auto_scheduler_layout_transform",
        "C",
        "D",
    ]
    added = [["FU", 2, [0, 1]], ["AN", 2, 0, 3]]
    assert steps_to_json(rewritten.steps)[-2:] == added
    assert {step.stage_id for step in rewritten.steps[:-2]} == {3}
    inputs = random_inputs(dag.tensors[:2])
    expected = evaluate(dag.tensors, inputs)
    np.testing.assert_allclose(evaluate(rewritten.dag.tensors, inputs)[0], expected[0])
    text = rewritten.dag.infer_bound_of(rewritten.steps).to_str()
    assert "parallel ax0@ax1@ (0,16)" in text


def test_loops_of_the_stage_around_count() -> None:
    steps = steps_from_json(
        [
            ["SP", 2, 0, 16, [4], 1],
            ["SP", 2, 2, 32, [8], 1],
            ["RE", 2, [0, 2, 1, 3, 4]],
            ["FSP", 3, 0, 0, 1],
            ["FSP", 3, 2, 1, 1],
            ["RE", 3, [0, 2, 1, 3]],
            ["CA", 2, 3, 1],
        ]
    )
    (change,) = rewrite_layout(matmul(), steps, LayoutOption.FOR_PRE_TRANSFORMED).changes
    assert change.new_layout == "4j1j8j8k"


def test_cache_stages_shift_the_inserted_stage() -> None:
    steps = steps_from_json([["CHR", 0, "shared", [2]]])
    dag = matmul()
    rewritten = rewrite_layout(dag, steps, LayoutOption.INSERT_TRANSFORM_STAGE)
    assert steps_to_json(rewritten.steps)[0] == ["CHR", 0, "shared", [3]]
    assert rewritten.steps[-1].stage_id == 3
    state = rewritten.dag.infer_bound_of(rewritten.steps)
    assert state.stages[3].name == "auto_scheduler_layout_transform"


def test_nothing_to_do() -> None:
    dag = matmul()
    unmarked = ComputeDAG([te.compute((4,), lambda i: i + 1, name="E")])
    for rewritten in (
        rewrite_layout(dag, STEPS, LayoutOption.NO_REWRITE),
        rewrite_layout(dag, (), LayoutOption.FOR_PRE_TRANSFORMED),
    ):
        assert rewritten.dag is dag
    assert not rewrite_layout(unmarked, (), LayoutOption.FOR_PRE_TRANSFORMED).changes
    option: Any = "pre-transformed"
    with pytest.raises(ConfigError, match=r"layout: expected a LayoutOption, .*'pre-transformed'"):
        rewrite_layout(dag, STEPS, option)


@pytest.mark.parametrize("option", [1, 2])
def test_a_split_that_does_not_divide_keeps_the_layout(option: int) -> None:
    dag = matmul(30)
    rewritten = rewrite_layout(dag, STEPS, LayoutOption(option))
    assert rewritten.dag is dag
    assert rewritten.steps == STEPS


@pytest.mark.parametrize(
    ("cuts", "fused"),
    [(0, None), (1, [0, 1]), (2, [0, 1]), (3, [0, 1, 2])],
)
def test_the_transform_runs_in_parallel_over_fused_loops(
    cuts: int, fused: list[int] | None
) -> None:
    """`cuts` splits of j give B 2 + cuts dimensions."""
    split = [["SP", 2, 1, 32, [2] * cuts, 1]] if cuts else [["AN", 2, 2, 1]]
    steps = rewrite_layout(
        matmul(), steps_from_json(split), LayoutOption.INSERT_TRANSFORM_STAGE
    ).steps
    fuse = [["FU", 2, fused]] if fused else []
    assert steps_to_json(steps)[1:] == [*fuse, ["AN", 2, 0, 3]]


def test_targets_of_compute_at_are_shifted_too() -> None:
    steps = steps_from_json([["CA", 2, 3, 0]])
    rewritten = rewrite_layout(matmul(), steps, LayoutOption.INSERT_TRANSFORM_STAGE)
    assert steps_to_json(rewritten.steps)[0] == ["CA", 3, 4, 0]


def test_texts_do_not_tell_that_a_cache_computes() -> None:
    """Ansor's attributes for this candidate: `j.c`, the cache's own axis, is j."""
    steps = steps_from_json(
        [
            ["CHW", 2, "local"],
            ["SP", 2, 0, 16, [1, 4, 1], 1],
            ["SP", 2, 4, 32, [4, 4, 1], 1],
            ["SP", 2, 8, 8, [4], 1],
            ["RE", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]],
            ["FSP", 3, 0, 1, 2],
            ["FSP", 3, 3, 2, 2],
            ["RE", 3, [0, 3, 1, 4, 2, 5]],
            ["CA", 2, 3, 3],
        ]
    )
    rewritten = rewrite_layout(matmul(), steps, LayoutOption.FOR_PRE_TRANSFORMED)
    attrs = rewritten.dag.ops[2].attrs
    assert attrs["ori_placeholder_layout"] == "8k32j"
    assert attrs["new_placeholder_layout"] == "2j4j1j1j2k4j4k1j"
    assert rewritten.changes[0].text == "B: 8k32j -> 2j4j1j1j2k4j4k1j"


def test_an_axis_of_one_element_is_no_dimension() -> None:
    """Read at the constant 0 it has no loop; Ansor stores B so, too."""
    dag = with_bias_row(1, 16)
    steps = steps_from_json([["SP", 2, 1, 16, [4, 2], 1], ["RE", 2, [1, 0, 2, 3]]])
    rewritten = rewrite_layout(dag, steps, LayoutOption.FOR_PRE_TRANSFORMED)
    assert rewritten.changes[0].text == "B: 1IntImm16j -> 2j4j2j"
    assert shape_of(rewritten.dag.tensors[1]) == (2, 4, 2)
    a, b = random_inputs(dag.tensors[:2])
    expected = evaluate(dag.tensors, [a, b])
    found = evaluate(rewritten.dag.tensors, [a, rewritten.changes[0].transform(b)])
    np.testing.assert_allclose(found[0], expected[0])


def test_what_is_read_at_constants_alone_keeps_its_layout() -> None:
    steps = steps_from_json([["SP", 2, 1, 16, [4], 1]])
    for option in LayoutOption:
        assert not rewrite_layout(with_bias_row(1, 16, column=True), steps, option).changes


def with_bias_row(rows: int, columns: int, column: bool = False) -> ComputeDAG:
    """C[i,j] = A[i,j] + B[0,j], or + B[0]."""
    A = te.placeholder((8, columns), name="A")
    B = te.placeholder((rows,) if column else (rows, columns), name="B")
    C = te.compute(
        (8, columns),
        lambda i, j: A[i, j] + (B[0] if column else B[0, j]),
        name="C",
        attrs={"layout_free_placeholders": [B]},
    )
    return ComputeDAG([A, B, C])
