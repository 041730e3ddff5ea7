"""The work of passes grows no faster than it must with the size of the program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched import te
from autosched.driver import schedule_ops
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
