"""The printed Python code, run, gives the schedule that the steps give."""

from __future__ import annotations

from typing import Any

from autosched import te, workloads
from autosched.driver import lower_steps
from autosched.state.dag import ComputeDAG
from autosched.state.python_schedule import python_schedule
from autosched.state.steps import steps_from_json
from autosched.target import cpu_target
from autosched.te.schedule.schedule import Schedule

CPU = [
    ["SP", 2, 0, 16, [4], 1],
    ["SP", 2, 2, 32, [2, 8], 0],
    ["RE", 2, [0, 2, 1, 3, 4, 5]],
    ["FU", 2, [0, 1]],
    ["AN", 2, 0, 3],
    ["AN", 2, 3, 2],
    ["PR", 2, 0, "auto_unroll_max_step$16"],
]
GPU = [
    ["CHW", 2, "local"],
    ["SP", 3, 0, 16, [8], 1],
    ["FSP", 2, 0, 1, 1],
    ["CA", 2, 3, 0],
    ["AN", 3, 0, 5],
    ["CHR", 1, "shared", [2]],
    ["CA", 2, 3, 1],
    ["CR", 2],
    ["SA", 2, 0, 32, 1],
    ["FU", 2, []],
    ["PR", 3, 0, "software_pipeline$2"],
]
TRANSPOSED = [
    ["CHR", 0, "global", [2]],
    ["RE", 1, [1, 0]],
    ["CHW", 1, "global"],
    ["CI", 2],
    ["RE", 4, [1, 0, 2]],
    ["CHW", 4, "global"],
    ["SP", 4, 1, 16, [4], 1],
]


def described(schedule: Schedule) -> list[Any]:
    return [
        (
            stage.op.name,
            [iv.var.name for iv in stage.leaf_iter_vars],
            stage.attach_type,
            stage.attach_ivar and stage.attach_ivar.var.name,
            {iv.var.name: repr(attr) for iv, attr in stage.iter_var_attrs.items()},
        )
        for stage in schedule.stages
    ]


def run(code: str, dag: ComputeDAG) -> Schedule:
    env: dict[str, Any] = {"te": te, **{op.name: op.output(0) for op in dag.outputs}}
    exec(code, env)
    schedule: Schedule = env["s"]
    return schedule


def test_code_runs_to_the_same_schedule() -> None:
    dag = ComputeDAG(workloads.get("matmul").tensors(M=16, N=32, K=8))
    steps = steps_from_json(CPU)
    code = python_schedule(dag, steps)
    assert described(run(code, dag)) == described(dag.apply_steps(steps)[0])
    assert code.splitlines()[:5] == [
        "s = te.create_schedule([C.op])",
        "A, B, C = (stage.op.output(0) for stage in s.stages)",
        "C_i, C_j, C_k = s[C].op.root_iter_vars",
        "C_i_outer, C_i_inner = s[C].split(C_i, factor=4)",
        "C_j_outer, C_j_inner = s[C].split(C_j, nparts=2)",
    ]


def test_caches_with_their_axes_in_another_order() -> None:
    dag = ComputeDAG(workloads.get("matmul").tensors(M=16, N=32, K=8))
    steps = steps_from_json(TRANSPOSED)
    schedule = run(python_schedule(dag, steps), dag)
    assert described(schedule) == described(dag.apply_steps(steps)[0])
    shapes = {s.op.name: [str(n) for n in s.op.output(0).shape] for s in schedule.stages}
    assert shapes["A.global.global"] == ["8", "16"] and shapes["C.global"] == ["32", "16"]


def test_caches_threads_and_alignment() -> None:
    dag = ComputeDAG(workloads.get("matmul").tensors(M=16, N=32, K=8))
    code = python_schedule(dag, steps_from_json(GPU))
    for line in (
        'C_local = s.cache_write(C, "local")',
        "C_i_1, C_j_1 = s[C].op.root_iter_vars",
        'B_shared = s.cache_read(B, "shared", [C_local])',
        's[C].bind(C_i_outer, te.thread_axis("blockIdx.x"))',
        "s[B_shared].compute_root()",
        "s[B_shared].storage_align(B_shared_ax0, 32, 1)",
        "B_shared_singleton = s[B_shared].fuse()",
    ):
        assert line in code.splitlines()


def test_the_alignment_of_an_output_is_passed_over() -> None:
    """As Ansor's replay does: records may hold it, and callers store the array."""
    dag = ComputeDAG(workloads.get("matmul").tensors(M=16, N=32, K=8))
    steps = steps_from_json([["SA", 2, 0, 32, 1]])
    assert "storage_align" not in python_schedule(dag, steps)
    assert described(dag.apply_steps(steps)[0]) == described(dag.apply_steps(())[0])
    lower_steps(dag, steps, cpu_target())


def test_a_pragma_of_a_record_is_no_code() -> None:
    dag = ComputeDAG(workloads.get("matmul").tensors(M=16, N=32, K=8))
    code = python_schedule(dag, steps_from_json([["PR", 2, 0, 'x"); print("y']]))
    assert code.splitlines()[-1] == "s[C].pragma(C_i, 'x\"); print(\"y')"
    run(code, dag)


def test_names_that_python_or_the_code_uses_are_avoided() -> None:
    A = te.placeholder((4,), name="te")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="lambda")
    C = te.compute((4,), lambda i: B[i] + 1.0, name="out")
    code = python_schedule(ComputeDAG([A, C]), [])
    assert "te_1, _lambda, out = (" in code
