"""What te.hybrid does not take is refused with the line of the function."""

# the names that te.hybrid knows
# mypy: disable-error-code="name-defined"

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import te

CASES = {
    "b[i] = x": ("name 'x' is not defined", 4),
    "b[i, 0] = 1.0": ("b has 1 dimension, found 2", 4),
    "b[0.5] = 1.0": ("an index of b is an integer, found 0.5", 4),
    "b[i] = a[i, i]": ("a has 1 dimension, found 2", 4),
    "a[i] = 1.0": ("a is an input; outputs come from output_tensor", 4),
    "b[i] = i": (r"b is of float32, found i of int32; write float32\(...\), or begin", 4),
    "b[i] = 'text'": ("b holds numbers, found 'text'", 4),
    "b[i] = math.sqrt(a[i])": ("TypeError: ", 4),
    "b = a": ("b is an array, which is assigned to once", 2),
    "c = output_tensor((2,)); c = 1.0": ("c is an array, which is assigned to once", 4),
    "i = 2": ("i has another meaning in the function", 3),
    "a += 1.0": ("a is a parameter; give what is assigned to another name", 1),
    "n = n + 1": ("n is a parameter", 1),
    "y += 1.0": ("name 'y' is not defined", 4),
    "break": ("this statement has no meaning in te.hybrid: break", 4),
    "return b": ("this statement has no meaning in te.hybrid: return b", 4),
    "x, y = 1.0, 2.0, 3.0": ("2 names are assigned to, found", 4),
    "x: float = 1.0": ("this statement has no meaning in te.hybrid", 4),
    "for k in a: b[k] = 0.0": (r"a loop runs over range\(...\) or a list, found Buffer", 4),
    "for k in range(4, 8, 0): b[k] = 0.0": ("range takes an end, a begin and an end", 4),
    "for k in range(a[i]): b[k] = 0.0": ("the bounds of a loop are integers", 4),
    "for k, m in range(4): b[k] = 0.0": ("2 names for the 1 values of a loop", 4),
    "for k in grid(2, 4): b[k] = 0.0": ("1 names for the 2 values of a loop", 4),
    "for k, m in [(1, 2, 3)]: b[k] = 0.0": ("2 names for the 3 values of a loop", 4),
    "for i in range(4): b[i] = 0.0": ("i has another meaning in the function", 4),
    "for i in [1, 2]: b[i] = 0.0": ("i has another meaning in the function", 4),
    "for n in range(4): b[n] = 0.0": ("n has another meaning in the function", 4),
    "for b in range(4): a[b]": ("b has another meaning in the function", 4),
    "for b[i] in range(4): pass": (r"b\[i\] cannot be the variable of a loop", 4),
    "s = 0.0\n        for k in parallel(4): s += a[k]": ("s is one variable for all iterations", 5),
    "s = 0.0\n        for k in vectorize(4): s = a[k]": ("s is one variable for all iterations", 5),
    "if a[i]: b[i] = 0.0": (r"if takes a condition \(bool\)", 4),
    "assert n > 4, 'too small'": ("too small does not hold", 4),
    "t = allocate((4,)); t = allocate((4,))": ("t is an array, which is assigned to once", 4),
    "t = allocate((-4,))": ("an extent is a number of elements, found -4", 4),
}


def written(folder: Path, text: str) -> Any:
    path = folder / "program.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


@pytest.mark.parametrize("line", CASES)
def test_statements(tmp_path: Path, line: str) -> None:
    message, at = CASES[line]
    program = written(
        tmp_path,
        "import math\n\n\ndef program(a, n=3):\n    b = output_tensor((8,), 'float32')\n"
        f"    for i in range(8):\n        {line}\n    return b\n",
    )
    A = te.placeholder((8,), name="A")
    where = rf"te\.hybrid program, .*program\.py:{at + 3}: .*"
    with pytest.raises(ValueError, match=where + message):
        te.hybrid.script(program)(A)


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        ("", r"program\.py:\d: a function ends by returning its outputs: return c"),
        ("    return a\n", "it returns what output_tensor made, found Buffer"),
        ("    return b, b\n", "each output is returned once"),
        ("    c = output_tensor((8,))\n    return b\n", "each output is returned once, c is not"),
    ],
)
def test_what_is_returned(tmp_path: Path, ending: str, message: str) -> None:
    text = f"def program(a):\n    b = output_tensor((8,))\n    b[0] = a[0]\n{ending}"
    with pytest.raises(ValueError, match=message):
        te.hybrid.script(written(tmp_path, text))(te.placeholder((8,), name="A"))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (3, TypeError, r"te\.hybrid\.script: its argument is a function, e\.g\. a def, found 3"),
        (len, ValueError, r"Python has no source of len; define it in a file, by def"),
        (lambda a: a, ValueError, "expected a function that is defined by def|no source"),
        (Path, ValueError, "expected a function that is defined by def"),
    ],
)
def test_what_is_no_function_with_a_source(
    given: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        te.hybrid.script(given)


def test_arrays_are_given_to_the_kernel(tmp_path: Path) -> None:
    program = written(tmp_path, "def program(a):\n    b = output_tensor((8,))\n    return b\n")
    with pytest.raises(TypeError, match=r"te\.hybrid program: a: expected a tensor .* found array"):
        te.hybrid.script(program)(np.ones(8))


def test_names_set_in_a_block_only(tmp_path: Path) -> None:
    text = """\
def program(a):
    b = output_tensor((8,), "float32")
    for i in range(8):
        if a[i] > 0.0:
            x = a[i]
        b[i] = x
    return b
"""
    with pytest.raises(ValueError, match=r"program\.py:6: name 'x' is not defined, or only in a b"):
        te.hybrid.script(written(tmp_path, text))(te.placeholder((8,), name="A"))
