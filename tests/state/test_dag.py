"""ComputeDAG: order, key, replayed DAGs, bounds of states, refusals."""

from __future__ import annotations

import hashlib
import json

import pytest

from autosched import te, workloads
from autosched.errors import ConfigError, ScheduleError
from autosched.state.apply_insert import inserting_steps
from autosched.state.dag import ComputeDAG
from autosched.state.steps import FuseStep, RfactorStep, SplitStep, steps_from_json
from autosched.tir.expr import Expr, Var


def dag_of(name: str, **args: int) -> ComputeDAG:
    return ComputeDAG(workloads.get(name).tensors(**args))


def test_order_is_producers_first_in_body_order() -> None:
    dag = dag_of("dense_bias_relu", M=4, N=4, K=4)
    assert [op.name for op in dag.ops] == ["A", "W", "T", "bias", "U", "relu"]
    assert [t.name for t in dag.tensors] == ["A", "W", "bias", "relu"]


def test_several_outputs() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((4,), lambda i: A[i] * 2.0, name="C")
    dag = ComputeDAG([A, B, C])
    assert {op.name for op in dag.outputs} == {"B", "C"}
    assert dag.print_dag().count("\n") == 3


def test_an_input_that_nobody_reads_is_an_argument_and_no_stage() -> None:
    tensors = [te.placeholder((4,), name=name) for name in "UXV"]
    Y = te.compute((4,), lambda i: tensors[1][i] + 1.0, name="Y")
    dag = ComputeDAG([*tensors, Y])
    assert dag.print_dag() == "X = PLACEHOLDER [4]\nY(i) = (X[i] + 1f)\n"  # as Ansor prints it
    assert [tensor.name for tensor in dag.apply_steps([])[1]] == ["U", "X", "V", "Y"]
    assert dag.hash_key() == '["6c23f716c92737c17bb74992a105270e", [4], [4], [4], [4]]'


def test_hash_key_depends_on_the_computation_and_the_shapes() -> None:
    key = dag_of("matmul", M=4, N=5, K=6).hash_key()
    assert json.loads(key)[1:] == [[4, 6], [6, 5], [4, 5]]
    assert key == dag_of("matmul", M=4, N=5, K=6).hash_key()
    assert key != dag_of("matmul", M=4, N=5, K=7).hash_key()


def test_inserting_steps_keep_what_an_rfactor_needs() -> None:
    steps = steps_from_json(
        [
            ["SP", 2, 0, 4, [2], 1],
            ["FU", 1, [1, 2]],
            ["SP", 1, 1, 64, [4], 1],
            ["RF", 1, 2, 1],
            ["CHW", 3, "local"],
            ["AN", 3, 0, 3],
        ]
    )
    kept = inserting_steps(steps)
    assert kept == (steps[1], steps[2], steps[3], steps[4])
    with pytest.raises(ScheduleError, match="must split an iterator of the same stage"):
        inserting_steps((FuseStep(1, (1, 2)), RfactorStep(1, 1, 1)))
    with pytest.raises(ScheduleError, match="must split an iterator of the same stage"):
        inserting_steps((SplitStep(2, 1, 4, (2,)), RfactorStep(1, 1, 1)))


def test_an_rfactor_after_a_split_of_another_iterator_is_refused() -> None:
    dag = dag_of("matmul", M=16, N=16, K=16)
    with pytest.raises(ScheduleError, match="step before it split iterator 1, and 3 is not a"):
        dag.state_of(steps_from_json([["SP", 2, 1, 16, [4], 1], ["RF", 2, 3, 2]]))
    fused = [["FU", 2, [0, 1]], ["SP", 2, 1, 16, [4], 1], ["RF", 2, 2, 2]]
    with pytest.raises(ScheduleError, match="its loops were changed before"):
        dag.state_of(steps_from_json(fused))


def test_replayed_dag_is_shared_between_candidates() -> None:
    dag = dag_of("matmul", M=16, N=16, K=16)
    one = dag.state_of(steps_from_json([["CHW", 2, "local"], ["SP", 2, 0, 16, [4], 1]]))
    two = dag.state_of(steps_from_json([["CHW", 2, "local"], ["SP", 2, 0, 16, [8], 1]]))
    assert one.current_dag is two.current_dag is not None
    assert [op.name for op in one.access_dag.ops] == ["A", "B", "C.local", "C"]
    assert [t.name for t in one.access_dag.tensors] == ["A", "B", "C"]


def test_replaying_goes_on_from_what_states_in_use_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves that as it is: two ways to go on are those of a new computation."""
    monkeypatch.setattr("autosched.state.dag._MAX_REPLAYED", 1)
    first = steps_from_json([["CHW", 2, "local"]])
    second = ["CHR", 1, "shared", [2]]
    each = [[second], [second, ["CHR", 0, "shared", [3]]], [["CHR", 0, "shared", [2]]]]
    ways = [first + steps_from_json(steps) for steps in each]
    dag = dag_of("matmul", M=16, N=16, K=16)
    used = [dag.state_of(first), *map(dag.state_of, ways)]
    for state, steps in zip(used[1:], ways, strict=True):
        new = dag_of("matmul", M=16, N=16, K=16).replayed(steps)
        assert state.access_dag.print_dag() == new.print_dag()
    b_shared = [op for state in used for op in state.access_dag.ops if op.name == "B.shared"]
    assert len(b_shared) == 2 and b_shared[0] is b_shared[1]


def test_infer_bound_fills_attached_stages() -> None:
    dag = dag_of("dense_bias_relu", M=16, N=32, K=8)
    steps = [["CI", 4], ["SP", 5, 0, 16, [4], 1], ["CA", 2, 5, 0]]
    state = dag.infer_bound_of(steps_from_json(steps))
    assert [it.extent for it in state.stages[2].iters] == [4, 32, 8]
    assert "for i (i_outer * 4,4)" in state.to_str()


def test_infer_bound_needs_lengths() -> None:
    dag = dag_of("matmul", M=16, N=16, K=16)
    state, _ = dag.init_state.split(2, dag.init_state.stages[2].iters[0], [None])
    with pytest.raises(ScheduleError, match="not been chosen yet"):
        dag.infer_bound(state)


def test_refuses_axes_with_one_name() -> None:
    A = te.placeholder((4, 4), name="A")
    k = te.reduce_axis((0, 4), name="i")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    with pytest.raises(ConfigError, match="stage B has two axes named 'i'"):
        ComputeDAG([A, B])


def test_refuses_nothing_to_compute() -> None:
    with pytest.raises(ConfigError, match="only placeholders"):
        ComputeDAG([te.placeholder((4,), name="A")])


def test_hash_key_is_the_md5_of_the_simple_text_and_the_shapes() -> None:
    simple = "A = PLACEHOLDER \nB = PLACEHOLDER \nC(i, j) += (A[i, k]*B[k, j])\n"
    dag = dag_of("matmul", M=4, N=5, K=6)
    assert dag.print_dag(simple=True) == simple
    digest = hashlib.md5(simple.encode(), usedforsecurity=False).hexdigest()
    assert dag.hash_key() == f'["{digest}", [4, 6], [6, 5], [4, 5]]'


def test_a_value_that_is_endless_when_written_out_is_refused() -> None:
    """A search counts each place of a value: forty squares would have 2**41 of them."""
    A = te.placeholder((8,), name="A")

    def squares(i: Var, steps: int) -> Expr:
        x: Expr = A[i]
        for _ in range(steps):
            x = x * x
        return x

    few = te.compute((8,), lambda i: squares(i, 4), name="B")
    assert ComputeDAG([A, few]).flop_count == 8 * 15
    many = te.compute((8,), lambda i: squares(i, 40), name="B")
    with pytest.raises(ConfigError, match=r"stage B has .*e\+12 operations when it is written out"):
        ComputeDAG([A, many])
