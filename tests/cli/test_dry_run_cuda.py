"""The check of barriers in the kernels that are compiled."""

from __future__ import annotations

import numpy as np

from autosched.candidate import kernels_of_candidate
from autosched.cli.dry_run_cuda import barrier_problem
from autosched.search.space import SearchSpace
from autosched.task import Task
from autosched.tir.expr import Call
from autosched.tir.function import IRModule
from autosched.tir.stmt import Evaluate, Stmt, nop
from autosched.tir.walk import map_children, stmts


def is_barrier(s: Stmt) -> bool:
    return isinstance(s, Evaluate) and isinstance(s.value, Call) and "storage_sync" in s.value.op


def without_barrier(module: IRModule, number: int) -> IRModule:
    """The module with one barrier of its kernel taken out."""
    left = number

    def go(s: Stmt) -> Stmt:
        nonlocal left
        if is_barrier(s):
            left -= 1
            return nop() if left == -1 else s
        return map_children(s, go)

    functions = {
        name: f.with_body(go(f.body)) if name.endswith("_kernel") else f
        for name, f in module.functions.items()
    }
    return IRModule(functions)


def test_each_barrier_that_is_taken_out_is_missed() -> None:
    task = Task.from_workload("matmul", target="cuda", M=32, N=64, K=32)
    found = 0
    for steps in SearchSpace(task).sample(np.random.default_rng(0), 4):
        module = kernels_of_candidate(task, steps)
        assert barrier_problem(module) is None
        kernel = module["matmul_kernel"]
        for number in range(sum(map(is_barrier, stmts(kernel.body)))):
            problem = barrier_problem(without_barrier(module, number))
            assert problem is not None
            assert problem.startswith("matmul_kernel: a barrier is missing before `")
            found += 1
    assert found >= 4  # at least one in each
