"""`workloads=` of load_best: what Ansor's workload keys compute that do not tell it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.errors import ConfigError
from autosched.task import Task

HASH = "0123456789abcdef0123456789abcdef"
STEPS = [["SP", 2, 0, 16, [4], 1], ["AN", 2, 0, 3]]
MATMUL = Task.from_workload("matmul", M=16, N=16, K=16)


@pytest.fixture
def hashed(tmp_path: Path) -> Path:
    """One line of a 16x16x16 matmul whose key is a hash."""
    task = [json.dumps([HASH, *[[16, 16]] * 3]), "llvm -keys=cpu", [1, 64, 64, *[0] * 5], "", 1, []]
    line = {"i": [task, [[], STEPS]], "r": [[1e-3], 0, 1.0, 1700000000], "v": "v0.6"}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(line) + "\n")
    return path


@pytest.mark.parametrize("workloads", [MATMUL, {HASH: MATMUL}])
def test_the_kernel_computes_what_was_named(hashed: Path, workloads: Any) -> None:
    with pytest.warns(UserWarning):
        kernel = autosched.load_best(hashed, workloads=workloads)
    a, b = MATMUL.inputs()
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)


@pytest.mark.parametrize(
    ("workloads", "problem"),
    [
        ({HASH: "matmul"}, "expected a Task, found 'matmul'"),
        (None, "in Python with workloads= of tune and load_best"),
        ({"another": MATMUL}, "matmul(M=16, N=16, K=16): no line has such a workload key"),
    ],
)
def test_what_is_wrong_is_told(hashed: Path, workloads: Any, problem: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(ConfigError) as refused:
            autosched.load_best(hashed, workloads=workloads)
    texts = [str(refused.value), *(str(warning.message) for warning in told)]
    assert any(problem in text for text in texts), texts
