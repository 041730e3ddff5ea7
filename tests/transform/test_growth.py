"""The work of passes grows no faster than it must with the size of the program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched import te
from autosched.codegen.llvm import emit_llvm
from autosched.driver import lower_func, lower_to_kernels, schedule_ops
from autosched.errors import CompileError
from autosched.runtime.cuda_artifact import cuda_artifact
from autosched.target import cpu_target, cuda_target
from autosched.tir.expr import Expr, Var
from autosched.tir.function import PrimFunc
from autosched.transform.expressions.guard_selects import GuardSelects
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.storage.share_output import ShareOutput
from kit.growth import calls


def _growth(make: Callable[[int], PrimFunc], pass_: FunctionPass, size: int) -> float:
    """How many times as many calls `pass_` needs for a program of twice the size."""
    small, large = (make(n) for n in (size, 2 * size))
    return calls(lambda: pass_(large)) / calls(lambda: pass_(small))


def _stages_of_one_sum(count: int) -> PrimFunc:
    """`count` stages that read one stage, and are added."""
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] * 2.0, name="B")
    stages = [te.compute((16,), lambda i, k=k: B[i] + float(k), name=f"C{k}") for k in range(count)]

    def total(i: Var) -> Expr:
        result: Expr = stages[0][i]
        for stage in stages[1:]:
            result = result + stage[i]
        return result

    D = te.compute((16,), total, name="D")
    return schedule_ops(te.create_schedule(D.op), [A, D])


def _choices(count: int) -> PrimFunc:
    """A chain of choices by the index, whose last value is read with a shift under a condition."""
    A = te.placeholder((4096,), name="A")

    def chosen(i: Var) -> Expr:
        result: Expr = te.select(i < 4000, A[i + 96], 0.0)
        for k in range(count):
            result = te.select(i == k, A[i] + float(k), result)
        return result

    B = te.compute((4096,), chosen, name="B")
    return schedule_ops(te.create_schedule(B.op), [A, B])


def _choices_under_a_condition(count: int) -> PrimFunc:
    """A chain of choices whose last value must be guarded by a condition around all of them."""
    A = te.placeholder((4096,), name="A")

    def chosen(i: Var) -> Expr:
        result = A[i + 96]
        for k in range(count):
            result = te.select(i == k, A[i] + float(k), result)
        whole: Expr = te.select(i < 4000, result, 0.0)
        return whole

    B = te.compute((4096,), chosen, name="B")
    return schedule_ops(te.create_schedule(B.op), [A, B])


@pytest.mark.parametrize("make", [_choices, _choices_under_a_condition])
def test_each_choice_of_a_chain_is_looked_at_once(make: Callable[[int], PrimFunc]) -> None:
    assert _growth(make, GuardSelects(), 16) < 2.5


def test_each_of_many_buffers_is_looked_for_once() -> None:
    assert _growth(_stages_of_one_sum, ShareOutput(), 16) < 3.5


Step = Callable[[Expr, Expr], Expr]
STEPS: dict[str, tuple[str, Step]] = {
    "a product": ("float32", lambda x, a: x * x),
    "a quotient": ("float32", lambda x, a: (x + a / x) * 0.5),
    "a function": ("float32", lambda x, a: te.exp(-x * x) + x),
    "a jump": ("float32", lambda x, a: te.floor(x * x) + x),
    "a remainder": ("int32", lambda x, a: (x * x + a) % 7),
    "a choice": ("float32", lambda x, a: te.if_then_else(a > 1.0, x * 0.5, x * x)),
    "a choice by the value": ("float32", lambda x, a: te.select(x > a, x, x + a)),
    "a choice of integers": ("int32", lambda x, a: te.select(x > a, x, x + a)),
    "bytes": ("float8_e4m3fn", lambda x, a: x * x + a),
}
"""A step of an iteration, which uses the value of the step before more than once, and its type."""


def _iterated(kind: str, steps: int, length: int = 60, *, on_gpu: bool = False) -> PrimFunc:
    """`steps` steps for each element."""
    dtype, step = STEPS[kind]
    A = te.placeholder((length,), dtype, name="A")

    def last(i: Var) -> Expr:
        x: Expr = A[i]
        for _ in range(steps):
            x = step(x, A[i])
        return x

    B = te.compute((length,), last, name="B")
    sch = te.create_schedule(B.op)
    if on_gpu:
        sch[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    return schedule_ops(sch, [A, B])


@pytest.mark.parametrize("kind", STEPS)
def test_a_value_that_is_used_twice_is_compiled_once(kind: str) -> None:
    """Written out, the values of these programs have thousands and millions of operations."""
    target = cpu_target(2)
    small, large = (_iterated(kind, steps) for steps in (10, 20))
    few = calls(lambda: emit_llvm(lower_func(small, target), target))
    assert calls(lambda: emit_llvm(lower_func(large, target), target)) < 3 * few


def test_forty_squares_are_forty_products() -> None:
    target = cpu_target(2)
    text = emit_llvm(lower_func(_iterated("a product", 40, 16), target), target)
    assert text.count("fmul") == 40


@pytest.mark.parametrize("kind", ["a product", "a quotient", "a remainder"])
def test_values_that_are_too_long_for_cuda_are_told_at_once(kind: str) -> None:
    """Source code has a value again wherever it is used."""
    module = lower_to_kernels(lower_func(_iterated(kind, 40, on_gpu=True), cuda_target("sm_80")))
    with pytest.raises(CompileError, match=r"B has .*e\+.* operations when it is written out"):
        cuda_artifact(module, "main")
