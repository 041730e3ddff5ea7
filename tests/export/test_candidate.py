"""Names of exported functions."""

from __future__ import annotations

from autosched.driver import cuda_source
from autosched.export.bundle import names_of
from autosched.export.candidate import Candidate, named
from autosched.export.cpu import MODULES
from autosched.target import cpu_target
from autosched.task import Task
from kit.exporting import cuda_record, matmul


def test_names_are_identifiers_and_differ() -> None:
    shapes = {"A": (4, 6)}
    plain = Task.from_expression("B[i, j] = A[i, j] + 1.0", shapes)
    tasks = [matmul(8), matmul(9), plain, Task.from_workload("softmax", M=4, N=4)]
    found = [c.symbol for c in named([Candidate(task, (), "") for task in tasks])]
    assert found == ["matmul_8x32x16", "matmul_9x32x16", "kernel", "softmax"]
    again = [c.symbol for c in named([Candidate(plain, (), ""), Candidate(plain, (), "")])]
    assert again == ["kernel_4x6x4x6", "kernel_4x6x4x6_2"]
    sized = named([Candidate(tasks[0], (), "")], sized=True)
    assert (sized[0].symbol, sized[0].operator()) == ("matmul_8x32x16", "matmul")


def test_names_that_are_taken() -> None:
    class Named:
        function_name = "exp"
        target = cpu_target(1)

    taken = Candidate(Named(), (), "")  # type: ignore[arg-type]  # all that is asked of a task
    assert taken.operator() == "kernel_exp"
    for name, symbol in (("double", "kernel_double"), ("main", "kernel"), ("own", "own")):
        Named.function_name = name
        assert taken.operator() == symbol
    assert taken.operator({"own"}) == "kernel_own"
    assert [c.symbol for c in named([taken], taken=names_of(MODULES))] == ["own"]
    Named.function_name = "empty"
    assert [c.symbol for c in named([taken], taken=names_of(MODULES))] == ["kernel_empty"]


def test_names_of_cuda_kernels() -> None:
    """Two underscores, which C++ keeps for itself, ended in a CompileError."""
    record = cuda_record()
    task = Task.from_json(record.task)

    class Named:
        function_name = ""
        target = task.target

    candidate = Candidate(Named(), (), "")  # type: ignore[arg-type]  # all that is asked of a task
    for name, symbol in (("a__b", "a_b"), ("_x", "x"), ("x_", "x"), ("__x", "kernel_x"),
                         ("_", "kernel"), ("autosched_pool", "kernel_autosched_pool"),
                         ("lambda", "kernel_lambda")):  # fmt: skip
        Named.function_name = name
        assert candidate.operator() == symbol
        kernels = cuda_source(task.dag, record.steps, task.target, symbol).kernels
        assert [kernel.name for kernel in kernels] == [f"{symbol}_kernel"]
