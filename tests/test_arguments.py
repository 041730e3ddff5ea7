"""Checks of arguments: the right values pass as they are, others are refused in words."""

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import arguments, te
from autosched.errors import ConfigError
from autosched.measure.run_options import RunOptions
from autosched.runtime import cpu
from autosched.runtime.packed import register_packed, register_workspace
from autosched.search.options import SearchOptions
from autosched.target import cuda_target, make_target
from autosched.task import Task
from autosched.te.relations import Split
from autosched.tir import interp
from autosched.transform.device.inject_ptx_ldg32 import InjectPTXLDG32
from autosched.transform.host.memory_info import register_memory
from autosched.transform.low_precision.datatypes import register_lowering, register_type

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)


def test_right_values_pass() -> None:
    assert arguments.integer("n", np.int16(3), 1) == 3
    assert arguments.number("x", np.float32(0.5), 0, 1) == 0.5
    assert arguments.positive("x", 2) == 2.0
    assert arguments.flag("f", False) is False
    assert arguments.flag("f", np.True_) is True
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
        (arguments.flag, np.int8(1), r"n: expected True or False, found np\.int8\(1\) \(int8\)"),
        (arguments.flag, np.array([True]), r"n: expected True or False, found array\(\[ ?True\]\)"),
        (arguments.file_path, None, "n: expected the path of a file, found None"),
        (arguments.file_path, "a\0", r"n: expected the path of a file, found 'a\\x00' \(str\)"),
        (arguments.file_path, "x" * 300, "n: cannot look at x+: File name too long"),
        (arguments.integer, "x" * 500, r"found 'x+\.\.\. \(str\)$"),
    ],
)
def test_wrong_values_are_refused(check: Callable[..., Any], value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check("n", value)


def test_what_was_found_is_on_one_line() -> None:
    assert arguments.found(np.eye(2)) == "found array([[1., 0.], [0., 1.]]) (ndarray)"


def test_an_object_that_cannot_be_shown_is_told_by_its_class() -> None:
    class Closed:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    assert arguments.found(Closed()) == "found an object of the class Closed"


YES: Any = np.True_
NO: Any = np.False_


def test_flags_of_numpy_are_flags() -> None:
    """They are often the results of comparing NumPy's numbers."""
    assert json.loads(json.dumps(cuda_target(tf32=YES).to_json()))["tf32"] is True
    assert make_target("cuda", tf32=NO).tf32 is False
    assert RunOptions(cache_flush=NO, halving=YES).flush_bytes == 0
    assert RunOptions(cache_flush=YES).flush_bytes == RunOptions(cache_flush=True).flush_bytes
    assert InjectPTXLDG32(enable=NO).enable is False


def test_flags_of_schedules() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    for unguarded in (True, YES, NO):
        s = te.create_schedule(B.op)
        s[B].split(s[B].leaf_iter_vars[0], factor=3, disable_predication=unguarded)
        relation = s[B].relations[0]
        assert isinstance(relation, Split)
        assert relation.disable_predication is bool(unguarded)
    with pytest.raises(TypeError, match=r"^split: disable_predication is True or False, found arr"):
        s[B].split(s[B].leaf_iter_vars[0], factor=2, disable_predication=wrong(np.ones(2)))
    with pytest.raises(TypeError, match=r"^create_group: include_inputs is True or False, found 1"):
        s.create_group(B, A, include_inputs=wrong(1))
    with pytest.raises(TypeError, match=r"^use_instruction: pack_a is True or False, found None"):
        s.use_instruction(B, "vpdpbusd.zmm", (6, 2), pack_a=wrong(None))


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
