"""Checks of arguments: the right values pass as they are, others are refused in words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import arguments
from autosched.errors import ConfigError
from autosched.measure.run_options import RunOptions
from autosched.search.options import SearchOptions
from autosched.task import Task


def test_right_values_pass() -> None:
    assert arguments.integer("n", np.int16(3), 1) == 3
    assert arguments.number("x", np.float32(0.5), 0, 1) == 0.5
    assert arguments.positive("x", 2) == 2.0
    assert arguments.flag("f", False) is False
    assert arguments.one_of("o", "b", ("a", "b")) == "b"
    assert arguments.file_path("p", "none/yet") == Path("none/yet")
    assert arguments.file_path("p", f"{__file__}/yet") == Path(__file__, "yet")


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (arguments.integer, 1.0, r"^n: expected an integer, found 1\.0 \(float\)$"),
        (arguments.integer, np.bool_(True), "n: expected an integer"),
        (arguments.number, "1", r"n: expected a number, found '1' \(str\)"),
        (arguments.number, -1, "n: expected a finite number of at least 0, found -1"),
        (arguments.number, float("inf"), "n: expected a finite number"),
        (arguments.positive, 0.0, "n: expected a number above 0, found 0"),
        (arguments.positive, -1, "n: expected a number above 0, found -1"),
        (arguments.flag, 1, r"n: expected True or False, found 1 \(int\)"),
        (arguments.file_path, None, "n: expected the path of a file, found None"),
        (arguments.file_path, "a\0", r"n: expected the path of a file, found 'a\\x00' \(str\)"),
        (arguments.file_path, "x" * 300, "n: cannot look at x+: File name too long"),
        (arguments.integer, "x" * 500, r"found 'x+\.\.\. \(str\)$"),
    ],
)
def test_wrong_values_are_refused(
    check: Callable[..., Any], value: float | str | np.bool_ | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check("n", value)


def test_what_was_found_is_on_one_line() -> None:
    assert arguments.found(np.eye(2)) == "found array([[1., 0.], [0., 1.]]) (ndarray)"


def test_an_object_that_cannot_be_shown_is_told_by_its_class() -> None:
    class Closed:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    assert arguments.found(Closed()) == "found an object of the class Closed"


@pytest.mark.parametrize("name", SearchOptions.__dataclass_fields__)
def test_every_option_of_the_search_is_checked(name: str) -> None:
    for bad in (-1, [1], None, "nonsense" if "structure" not in name else 5):
        wrong: dict[str, Any] = {name: bad}
        with pytest.raises(ConfigError, match=f"^search.{name}: expected"):
            SearchOptions(**wrong)


@pytest.mark.parametrize("name", RunOptions.__dataclass_fields__)
def test_every_option_of_measuring_is_checked(name: str) -> None:
    for bad in ("10", [1], None, float("nan")):
        if bad is None and getattr(RunOptions(), name) is None:
            continue  # the default
        wrong: dict[str, Any] = {name: bad}
        with pytest.raises(ConfigError, match=f"^measure.{name}: expected"):
            RunOptions(**wrong)


def wrong(value: object) -> Any:
    """Something of a type that is not expected there."""
    return value


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Task(wrong("matmul"), wrong("cpu")),
            "target: expected cpu, cuda or a Target, found 'cpu'",
        ),
        (
            lambda: Task.from_workload("softmax", M=8, N=8, target=wrong(5)),
            "target: expected cpu, cuda",
        ),
        (lambda: Task.from_workload(wrong(5)), "workload: op: expected text, found 5"),
        (lambda: Task.from_expression("C[i]=A[i]", wrong(5)), "shapes: expected names and values"),
        (
            lambda: Task.from_expression("C[i]=A[i]", {"A": wrong(5)}),
            "shapes: A: expected sizes, found 5",
        ),
        (
            lambda: Task.from_expression("C[i]=A[i]", {"A": [5]}, layout_free="A"),
            "layout_free: expected a list",
        ),
        (lambda: Task.from_json_workload(wrong(5), "cpu"), "workload: expected names and values"),
        (lambda: Task.from_json(wrong("x")), "task: expected names and values"),
    ],
)
def test_arguments_of_tasks(make: Callable[..., Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
