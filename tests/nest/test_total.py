"""Sums of floats do not depend on the version of Python, and rows of features use no others."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
from typing import Any

import pytest

import autosched
from autosched.features.lowering import features_of_steps
from autosched.nest.total import total
from autosched.target import cpu_target

_SUM = builtins.sum


def test_total_rounds_every_step() -> None:
    assert total([0.1] * 10) == 0.9999999999999999  # 1.0 when compensated
    assert total([1e16, 1.0, -1e16]) == 0.0
    assert total([2**53, 1]) == 2**53 + 1  # integers stay exact
    assert total([]) == 0


def _sum_of_no_floats(values: Iterable[Any], /, start: Any = 0) -> Any:
    values = list(values)
    caller = sys._getframe(1)
    if caller.f_globals.get("__name__", "").startswith("autosched."):
        place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        assert not any(isinstance(v, float) for v in values), (
            f"{place} sums floats with sum(), whose last bits depend on the version of Python: "
            "use autosched.nest.total.total"
        )
    return _SUM(values, start)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("matmul", {"M": 69, "N": 58, "K": 37}),  # sizes of no other test: caches know nothing yet
        ("softmax", {"M": 13, "N": 47}),
        ("conv1d_nlc", {"N": 1, "L": 15, "CI": 3, "CO": 21, "K": 3, "stride": 2, "padding": 1}),
    ],
)
def test_rows_sum_no_floats(
    name: str, sizes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = autosched.Task.from_workload(name, target=cpu_target(threads=2), **sizes)
    monkeypatch.setattr(builtins, "sum", _sum_of_no_floats)
    assert len(features_of_steps(task.dag, (), task.target, "autosched-1"))
