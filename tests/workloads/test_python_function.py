"""Workloads in a user's Python file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched.driver import build_steps
from autosched.errors import ConfigError
from autosched.runtime.cpu import load
from autosched.search.space import SearchSpace
from autosched.target import cpu_target
from autosched.task import Task
from autosched.workloads.python_function import PythonWorkload

SOURCE = """
from autosched import te

def scale(n=4):
    A = te.placeholder((n,), name="A")
    return [A, te.compute((n,), lambda i: A[i] * 2.0, name="B")]

def twice(n):
    return scale(n)

def twice_reference(inputs, n):
    return [inputs[0] + inputs[0]]

def backwards():
    return scale()[::-1]

def nothing():
    return 3

def fails():
    raise RuntimeError("no")

def only_the_output():
    return scale()[1]

def leaves_one_out():
    A, B = scale()
    C = te.placeholder((4,), name="C")
    return [A, te.compute((4,), lambda i: B[i] + C[i], name="D")]

def input_twice():
    A, B = scale()
    return [A, A, B]

def output_twice():
    A, B = scale()
    return A, B, B

def sums_up():
    A = te.placeholder((4, 3), name="A")
    s = te.placeholder((4, 3), name="s")
    first = te.compute((1, 3), lambda _, j: A[0, j], name="first")
    step = te.compute((4, 3), lambda t, j: s[t - 1, j] + A[t, j], name="step")
    return [A, te.scan(first, step, s, inputs=[A], name="sums")]
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "my_ops.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(("name", "args"), [("scale", {}), ("twice", {"n": 6})])
def test_reference(source: Path, name: str, args: dict[str, int]) -> None:
    workload = PythonWorkload.load(f"{source}:{name}", args)
    (array,) = workload.inputs(seed=1)
    (result,) = workload.reference([array])
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, 2 * array)
    assert workload.num_outputs == 1
    assert workload.to_json()["python"] == f"{source}:{name}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "defines no function missing"),
        (
            "only_the_output",
            r"must return every input that it reads, .*; A is missing among \['B'\]",
        ),
        ("leaves_one_out", "C is missing among"),
        ("input_twice", r"must return every tensor once; A is twice among \['A', 'A', 'B'\]"),
        ("output_twice", r"must return every tensor once; B is twice among \['A', 'B', 'B'\]"),
        ("sums_up", r"computes sums by ScanOp; .* \(te.create_schedule\)"),
        ("backwards", "must return the inputs, then the outputs"),
        ("nothing", "must return a list of tensors"),
        ("fails", "RuntimeError: no"),
        ("twice", "does not accept the arguments"),
    ],
)
def test_refuses(source: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PythonWorkload.load(f"{source}:{name}")


BOTH = """
from autosched import te

def both(n=9):
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1.0, name="B")
    k = te.reduce_axis((0, n), "k")
    T = te.compute((), lambda: te.sum(A[k, k], axis=k), name="T")
    return A, B, T, te.compute((n, n), lambda i, j: B[j, i] * T(), name="C")
"""


@pytest.mark.parametrize("seed", range(4))
def test_outputs_that_other_outputs_read_are_stored(tmp_path: Path, seed: int) -> None:
    """Candidates that inlined B left its memory as it was."""
    (tmp_path / "ops.py").write_text(BOTH)
    with autosched.trusting():
        task = Task.from_json_workload({"python": f"{tmp_path}/ops.py:both"}, cpu_target(1))
    (steps, *_) = SearchSpace(task).sample(np.random.default_rng(seed), 1)
    a = np.arange(81, dtype=np.float32).reshape(9, 9)
    b, t, c = load(build_steps(task.dag, steps, task.target))(a)
    for found, expected in zip((b, t, c), task.reference([a]), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert t == np.trace(a) and (c == (a + 1).T * t).all()


PART = """
from autosched import te

def part(n=9):
    A = te.placeholder((n, n), name="A")
    P, Q = te.compute((n, n), lambda i, j: (A[i, j] + 1.0, A[i, j] * 2.0), name="P")
    return A, P, te.compute((3, 2), lambda i, j: Q[i, j] - 1.0, name="C")
"""


@pytest.mark.parametrize("seed", range(4))
def test_outputs_are_whole_where_others_read_a_part_beside_them(tmp_path: Path, seed: int) -> None:
    """P was computed only where C reads Q, and nothing could be built."""
    (tmp_path / "ops.py").write_text(PART)
    with autosched.trusting():
        task = Task.from_json_workload({"python": f"{tmp_path}/ops.py:part"}, cpu_target(1))
    (steps, *_) = SearchSpace(task).sample(np.random.default_rng(seed), 1)
    a = np.arange(81, dtype=np.float32).reshape(9, 9)
    for candidate in ((), steps):
        p, c = load(build_steps(task.dag, candidate, task.target))(a)
        np.testing.assert_array_equal(p, a + 1)
        np.testing.assert_array_equal(c, a[:3, :2] * 2 - 1)


@pytest.mark.parametrize("spec", ["my_ops.py", ":f", "nowhere.py:f", "my_ops.py:not a name"])
def test_refuses_a_spec(spec: str) -> None:
    with pytest.raises(ConfigError, match="python: "):
        PythonWorkload.load(spec)


def test_a_file_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1/0")
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        PythonWorkload.load(f"{tmp_path / 'bad.py'}:f")


@pytest.mark.parametrize(
    ("old", "new"),
    [("* 2.0", "* 2.5"), ("A[i] * 2.0", "A[3 - i] * 2.0"), ("(n,), name", '(n,), "float64", name')],
)
def test_an_edited_body_is_another_task(
    source: Path, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also within the second, and of the same length, that stored byte code goes by."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    entry = Task.from_json_workload({"python": f"{source}:scale"}, "cpu").to_json()
    assert Task.from_json(entry).key == entry["key"]
    source.write_text(SOURCE.replace(old, new))
    edited = Task.from_json_workload({"python": f"{source}:scale"}, "cpu")
    assert edited.key != entry["key"]
    with pytest.raises(ConfigError, match="no longer declares the computation"):
        Task.from_json(entry)
    source.write_text(SOURCE.replace("def nothing", "# a comment\ndef nothing"))
    assert Task.from_json(entry).key == entry["key"]


MAKES = """
import numpy as np
from autosched import te

def take(n):
    A = te.placeholder((n,), name="A")
    I = te.placeholder((n,), "int32", name="I")
    return [A, I, te.compute((n,), lambda i: A[I[i]], name="B")]

def take_inputs(rng, n):
    return {"I": np.sort(rng.integers(0, n, n)).astype("int32")}
"""


def taking(tmp_path: Path, old: str = "", new: str = "") -> Task:
    (tmp_path / "takes.py").write_text(MAKES.replace(old, new))
    spec = f"{tmp_path / 'takes.py'}:take"
    return Task.from_json_workload({"python": spec, "args": {"n": 50}}, "cpu")


def test_a_function_beside_it_makes_inputs(tmp_path: Path) -> None:
    """Those it names; the others are random. Equal seeds make equal ones, here and elsewhere."""
    task = taking(tmp_path)
    a, i = task.inputs()
    assert (np.diff(i) >= 0).all() and i.dtype == np.int32
    assert not np.array_equal(i, task.inputs(seed=1)[1])
    for one, two in zip(Task.from_json(task.to_json()).inputs(), (a, i), strict=True):
        np.testing.assert_array_equal(one, two)
    assert taking(tmp_path, "take_inputs", "others").key != task.key
    assert taking(tmp_path, "np.sort", "np.flip").key != task.key
    with pytest.raises(ConfigError, match="or makes the inputs, that were recorded"):
        Task.from_json(task.to_json())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"I": ', '"J": ', r"takes.py:10: take_inputs: J: expected one of the inputs A, I"),
        ("0, n, n", "0, n, n + 1", r"takes.py:10: take_inputs: I: expected shape \(50,\), found"),
        ('int32")}', 'int64")}', "takes.py:10: take_inputs: I: expected int32, found int64"),
        ("0, n, n", "n, n + 1, n", "take_inputs: I: it is read as an index from 0 to 49, found"),
        ("0, n, n", "n, 0, n", "takes.py:11: take_inputs failed: ValueError"),
        ('return {"I"', 'return 3, {"I"', "take_inputs must return arrays by the names of inputs"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        taking(tmp_path, old, new)


LINES = """
from autosched import te

def good(n=4):
    A = te.placeholder((n,), name="A")
    return [A, te.compute((n,), lambda i: A[i] * 2.0, name="B")]

def _deep(n):
    return n // 0

def deep(n=4):
    return _deep(n)

def inside(n=4):
    A = te.placeholder((n,), name="A")
    return [A, te.compute((n,), lambda i: A[i].missing, name="B")]

def exits(n=4):
    raise SystemExit

def three(n=4):
    return 3

def raises(n=4):
    return good(n)

def raises_reference(inputs, n=4):
    return [inputs[0].nothing]

def too_few(n=4):
    return good(n)

def too_few_reference(inputs, n=4):
    return []

def ragged(n=4):
    return good(n)

def ragged_reference(inputs, n=4):
    return ["text"]

def alone(n=4):
    return good(n)

def alone_reference(inputs, n=4):
    return inputs[0] * 2

def silent(n=4):
    return good(n)

def silent_reference(inputs, n=4):
    inputs[0] * 2
"""


def line_of(text: str) -> int:
    """The line of LINES that holds `text`, from 1."""
    return next(k for k, line in enumerate(LINES.splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("deep", "n // 0", "deep failed: ZeroDivisionError: "),
        ("inside", ".missing", "inside failed: AttributeError: "),
        ("exits", "raise SystemExit", "exits failed: SystemExit$"),
        ("three", "def three", "three must return a list of tensors, found 3"),
    ],
)
def test_a_function_that_fails_has_file_and_line(
    tmp_path: Path, name: str, line: str, message: str
) -> None:
    path = tmp_path / "ops.py"
    path.write_text(LINES)
    expected = f"python: {path}:{line_of(line)}: {message}"
    with pytest.raises(ConfigError, match=expected):
        PythonWorkload.load(f"{path}:{name}")


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("raises", ".nothing", "raises_reference failed: AttributeError: "),
        ("too_few", "def too_few_r", "too_few_reference returned 0 arrays, expected 1"),
        ("ragged", "def ragged_r", "ragged_reference: B: expected an array of numbers, found"),
        ("alone", "def alone_r", "alone_reference must return a list of arrays, .*, found array"),
        ("silent", "def silent_r", "silent_reference must return a list .*, found None"),
    ],
)
def test_a_reference_that_fails_has_file_and_line(
    tmp_path: Path, name: str, line: str, message: str
) -> None:
    path = tmp_path / "ops.py"
    path.write_text(LINES)
    workload = PythonWorkload.load(f"{path}:{name}")
    with pytest.raises(ConfigError, match=f"python: {path}:{line_of(line)}: {message}"):
        workload.reference(workload.inputs())


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("import math\n\nmath.nothing\n", 3, "AttributeError"),
        ("x = 1\nif x\n    pass\n", 2, "SyntaxError"),
        ("\nimport a_module_that_does_not_exist\n", 2, "ModuleNotFoundError"),
        ("\n\nimport sys; sys.exit('no')\n", 3, "SystemExit: no"),
    ],
)
def test_a_file_that_fails_has_a_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = tmp_path / "ops.py"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"python: {path}:{line}: the file failed: {message}"):
        PythonWorkload.load(f"{path}:f")
