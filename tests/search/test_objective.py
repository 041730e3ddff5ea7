"""Functions of the times of several tasks, by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.search.objective import objective_of, own_objective

FILE = """
def slowest(seconds):
    return max(seconds)

number = 3
"""


def test_without_a_function_costs_are_weighted() -> None:
    assert objective_of([2.0, 3.0], [1.0, 4.0], None) == 14.0


def test_a_function_sees_a_list_of_its_own() -> None:
    costs = [2.0, 3.0]

    def taken(seconds: list[float]) -> Any:
        seconds.append(5.0)
        return np.float32(sum(seconds))

    assert objective_of(costs, [1.0, 4.0], taken) == 10.0
    assert costs == [2.0, 3.0]


def test_a_function_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    assert own_objective(None, "objective") is None
    assert own_objective(max, "objective") is max
    found = own_objective(f"{tmp_path}/mine.py:slowest", "objective")
    assert found is not None
    assert found([1.0, 3.0, 2.0]) == 3.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "objective: expected a function of the list .* found 3"),
        (float, "objective: expected a function of the list .* found the class float"),
        ("slowest", "objective: expected file.py:function, found 'slowest'"),
        ("{}/none.py:slowest", "objective: there is no file .*none.py"),
        ("{}/mine.py:fastest", "objective: .*mine.py defines no function fastest"),
        ("{}/mine.py:number", "objective: expected a function of the list .* found 3"),
    ],
)
def test_what_is_no_function(given: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    with pytest.raises(ConfigError, match=message):
        own_objective(given.format(tmp_path) if isinstance(given, str) else given, "objective")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: 1.0, "objective failed at the call: TypeError"),
        (lambda seconds: seconds[7], "objective failed at .*: IndexError: list index out of range"),
        (lambda seconds: None, "objective: expected a finite number for the times .*found None"),
        (lambda seconds: "1", "objective: expected a finite number .*found '1'"),
        (lambda seconds: True, "objective: expected a finite number .*found True"),
        (lambda seconds: float("inf"), "objective: expected a finite number .*found inf"),
        (lambda seconds: np.ones(2), "objective: expected a finite number .*found"),
    ],
)
def test_a_function_that_fails(function: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        objective_of([1.0, 2.0], [1.0, 1.0], function)
