"""Integer data divided by zero, and the least number by -1: NumPy's results, no dead process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.workloads.evaluate import evaluate

N = 48
NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "truncdiv": lambda a, b: (a - np.fmod(a, b)) // b,
    "truncmod": np.fmod,
}


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
@pytest.mark.parametrize("name", NUMPY)
def test_as_numpy_says(name: str, dtype: str, lanes: int) -> None:
    A, B = te.placeholder((N,), dtype, "A"), te.placeholder((N,), dtype, "B")
    C = te.compute((N,), lambda i: getattr(te, name)(A[i], B[i]), "C")
    s = te.create_schedule(C.op)
    if lanes > 1:
        _, inner = s[C].split(C.op.axis[0], lanes)
        s[C].vectorize(inner)
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    a = rng.integers(limits.min // 2, limits.max // 2, N).astype(dtype)
    b = rng.integers(max(limits.min, -3), 4, N).astype(dtype)
    a[:6], b[:6] = limits.min, np.array([0, limits.max, 1, 0, 2, 1], dtype)
    if limits.min < 0:
        b[1] = -1
    found = np.empty(N, dtype)
    load(build(s, [A, B, C], cpu_target(1)))(a, b, found)
    with np.errstate(all="ignore"):
        expected = NUMPY[name](a, b).astype(dtype)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(evaluate([A, B, C], [a, b])[0], expected)
