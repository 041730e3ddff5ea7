"""Outputs that calls leave out, or give as `out`, cost what the others do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.driver import build_steps
from autosched.errors import MeasureError
from autosched.runtime.cpu import CpuKernel, load
from autosched.runtime.made_outputs import MadeOutputs
from autosched.runtime.quick_call import Expected
from autosched.task import Task

X = Expected(np.dtype(np.float32), (2, 3), 4, False)
Y = Expected(np.dtype(np.int8), (5,), 1, True)


def test_outputs_come_last_or_all_are_given() -> None:
    assert MadeOutputs([X, X, Y], "abc").inputs == 2
    assert MadeOutputs([Y, Y], "ab").inputs == 0
    for expected in ([X, Y, X], [X, X], []):
        made = MadeOutputs(expected, "abc"[: len(expected)])
        assert made.inputs == -1
        assert made.complete((1,) * len(expected), {"out": 2}) == ((), ())


def test_new_outputs_start_at_cache_lines() -> None:
    given, (first, second) = MadeOutputs([X, X._replace(written=True), Y], "abc").complete((1,), {})
    assert given[0] == 1 and given[1] is first and given[2] is second
    assert (first.shape, first.dtype, second.shape, second.dtype) == ((2, 3), "f4", (5,), "i1")
    for array in (first, second):
        assert array.ctypes.data % 64 == 0
        assert array.flags.writeable and array.flags.c_contiguous


def test_what_is_given_by_name() -> None:
    one, two = MadeOutputs([X, Y], "ab"), MadeOutputs([X, Y, Y], "abc")
    assert one.complete((1,), {"out": 2}) == one.complete((1,), {"out": (2,)}) == ((1, 2), ())
    assert two.complete((1,), {"out": [2, 3]}) == ((1, 2, 3), ())
    for args, named in (
        *(((1,), each) for each in ({"out": None}, {"b": 2}, {"out": 2, "b": 3})),
        *(((), each) for each in ({}, {"out": 2})),
        ((1, 2), {"out": 3}),
    ):
        assert one.complete(args, named) == ((), ())
    assert MadeOutputs([X, Y], ["a", "out"]).complete((1,), {"out": 2}) == ((), ())


@pytest.fixture(scope="module")
def kernel() -> CpuKernel:
    task = Task.from_expression("C[i] = A[i] + B[i]", {"A": [5], "B": [5]})
    return load(build_steps(task.dag, (), task.target))


def test_kernels_take_them_at_once(kernel: CpuKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once five times the price for `out`: each argument was looked at in Python, too."""
    a, b, c = np.arange(5, dtype=np.float32), np.full(5, 2, np.float32), np.zeros(5, np.float32)
    for second, out in ((a[:3], None), (b, c[:3])):
        with pytest.raises(MeasureError, match="must have shape"):
            kernel(a, second, out=out)
    monkeypatch.setattr(CpuKernel, "_general", _never)
    made = kernel(a, b)
    assert kernel(a, b, out=c) is None and kernel(a, b, out=(c,)) is None
    np.testing.assert_array_equal(made, a + b)
    np.testing.assert_array_equal(c, made)
    another = kernel(a, b)
    assert another is not made and another.ctypes.data % 64 == 0


def _never(self: Any, *given: Any) -> Any:
    raise AssertionError(given)
