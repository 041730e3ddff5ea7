"""Several vectors of an exponential are computed at the same time."""

import numpy as np
import pytest

from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.stmt import BufferStore
from autosched.tir.verify import verify
from autosched.tir.walk import stmts
from autosched.transform.vector.interleave_functions import InterleaveFunctions

LINE = "Y[i * 8:i * 8 + 8] = exp(X[i * 8:i * 8 + 8])"


def program(line: str = LINE, extent: int | str = 9, kind: str = "range") -> PrimFunc:
    return parse_func(
        f"""\
def main(X: Buffer((96,), float32), Y: Buffer((96,), float32), n: int32):
    for i in {kind}({extent}):
        {line}
"""
    )


def lanes(func: PrimFunc) -> list[int]:
    return [s.value.dtype.lanes for s in stmts(func.body) if isinstance(s, BufferStore)]


@pytest.mark.parametrize(
    ("extent", "expected"),
    [(2, [16]), (3, [24]), (4, [32]), (5, [32, 8]), (8, [32]), (9, [32, 8]), (11, [32, 24])],
)
@pytest.mark.parametrize(
    "line",
    [
        LINE,
        "Y[i * 8 + 3:i * 8 + 3 + 8] = tanh(X[i * 8 + 5:i * 8 + 5 + 8] - broadcast(X[1], 8))",
        "Y[i * 8:i * 8 + 8] = sigmoid(Y[i * 8:i * 8 + 8]) * X[i * 8:i * 8 + 8]",
    ],
)
def test_meaning(line: str, extent: int, expected: list[int]) -> None:
    func = program(line, extent)
    new = InterleaveFunctions()(func)
    assert lanes(new) == expected, to_text(new)
    x = np.random.default_rng(0).standard_normal((2, 96)).astype(np.float32)
    results = [x.copy() for _ in range(2)]
    for one, arrays in zip((func, new), results, strict=True):
        interp.run(one, [*arrays, 0])
    np.testing.assert_array_equal(results[0], results[1])


def test_indices_of_64_bits() -> None:
    index = "i * int64(8):i * int64(8) + int64(8)"
    func = program(f"Y[{index}] = exp(X[{index}])", "int64(9)")
    new = InterleaveFunctions()(func)
    verify(new)
    assert lanes(new) == [32, 8], to_text(new)


@pytest.mark.parametrize(
    ("line", "extent", "kind"),
    [
        ("Y[i * 8:i * 8 + 8] = X[i * 8:i * 8 + 8] * X[i * 8:i * 8 + 8]", 9, "range"),
        ("Y[i * 8:i * 8 + 8] = exp(broadcast(X[i], 8))", 9, "range"),
        ("Y[i * 8:i * 8 + 8] = exp(X[ramp(i, 8, 8)])", 9, "range"),
        ("Y[i * 9:i * 9 + 8] = exp(X[i * 9:i * 9 + 8])", 9, "range"),
        ("Y[i * 8 + 8:i * 8 + 8 + 8] = exp(Y[i * 8:i * 8 + 8])", 9, "range"),
        ("Y[i * 8:i * 8 + 8] = exp(X[i * 8:i * 8 + 8] - broadcast(Y[0], 8))", 9, "range"),
        ("Y[i * 4:i * 4 + 4] = exp(X[i * 4:i * 4 + 4])", 9, "range"),
        ("Y[i] = exp(X[i])", 9, "range"),
        (LINE, 1, "range"),
        (LINE, "n", "range"),
        (LINE, 9, "parallel"),
    ],
)
def test_what_stays(line: str, extent: int | str, kind: str) -> None:
    func = program(line, extent, kind)
    assert InterleaveFunctions()(func) is func


def test_what_stays_for_wide_vectors_and_where_arguments_may_overlap() -> None:
    func = program()
    assert InterleaveFunctions(64)(func) is func
    overlapping = func.with_attrs(**{"tir.noalias": False})
    assert InterleaveFunctions()(overlapping) is overlapping


def test_views_that_begin_elsewhere_hold_other_elements() -> None:
    """V[0:8] is Y[4:12], which the next iteration reads."""
    func = parse_func("""
def main(Y: Buffer((36,), float32)):
    V = view(Y, (32,), float32, elem_offset=4)
    for i in range(4):
        V[i * 8:i * 8 + 8] = exp(Y[i * 8:i * 8 + 8])
""")
    assert InterleaveFunctions()(func) is func
