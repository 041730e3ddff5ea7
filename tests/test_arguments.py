"""Checks of arguments: the right values pass as they are, others are refused in words."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import arguments
from autosched.errors import ConfigError
from autosched.measure.run_options import RunOptions
from autosched.runtime import cpu
from autosched.runtime.packed import register_packed, register_workspace
from autosched.search.options import SearchOptions
from autosched.task import Task
from autosched.tir import interp
from autosched.transform.host.memory_info import register_memory
from autosched.transform.low_precision.datatypes import register_lowering, register_type

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)


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


@pytest.mark.parametrize(
    ("register", "given", "message"),
    [
        (register_packed, ("f", 3), r"^register_packed f: expected a function, .*found 3 \(int\)$"),
        (register_packed, (None, len), "register_packed: name: expected a text, e.g. 'report'"),
        (register_workspace, (16, 3, print), "register_workspace: alloc: expected a function"),
        (
            register_workspace,
            ("cpu", print, print),
            "device_type: expected an integer, found 'cpu'",
        ),
        (cpu.register_extern, (3, FUNCTION), "register_extern: name: expected a text, e.g. 'f'"),
        (interp.register_extern, ("f", None), "register_extern f: expected a function, .* None$"),
        (
            register_memory,
            ("global.new", None),
            "register_memory global.new: expected a MemoryInfo",
        ),
        (register_memory, (None, None), "register_memory: scope: expected a str"),
        (register_type, (3, 140), "register_type: the name is an identifier, found 3"),
        (
            register_type,
            ("odd", "140"),
            "register_type odd: code: expected an integer, found '140'",
        ),
        (
            register_lowering,
            ("Add.listed", 3),
            r"register_lowering Add\.listed: expected a function",
        ),
        (register_lowering, (None, len), "register_lowering: operation: expected a text"),
        (
            register_lowering,
            ("Add.listed", len, "cpu"),
            r"targets: expected a list of kinds, .*'cpu'",
        ),
        (register_lowering, ("Add.listed", len, ["gpu"]), "targets: expected one of cpu, llvm"),
    ],
)
def test_what_is_registered_is_checked_at_once(
    register: Callable[..., None], given: tuple[Any, ...], message: str
) -> None:
    register_type("listed", 201)
    with pytest.raises(ConfigError, match=message):
        register(*given)
