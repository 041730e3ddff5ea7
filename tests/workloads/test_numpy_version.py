"""NumPy's version of each workload computes what its reference does, in the inputs' types."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from autosched import workloads
from autosched.workloads.expression.workload import ExpressionWorkload
from autosched.workloads.python_function import PythonWorkload

SMALL = {
    "N": 1,
    "M": 6,
    "K": 3,
    "B": 2,
    "H": 6,
    "W": 6,
    "D": 4,
    "L": 8,
    "S": 4,
    "C": 4,
    "CI": 4,
    "CO": 4,
    "KH": 3,
    "KW": 3,
    "stride": 1,
    "padding": 1,
    "dilation": 1,
    "groups": 1,
    "tile": 4,
    "bias": 1,
    "relu": 1,
}


@pytest.mark.parametrize("name", sorted(workloads.WORKLOADS))
def test_built_ins(name: str) -> None:
    workload = workloads.get(name)
    args = {key: SMALL.get(key, 3) for key in workload.args}
    inputs = workload.inputs(**args)
    results = workload.numpy_version(**args).call(inputs)
    for got, want in zip(results, workload.reference(inputs, **args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("expr", "shapes", "subscripts"),
    [
        ("C[i, j] = sum(k, A[i, k] * B[k, j])", {"A": [3, 4], "B": [4, 5]}, True),
        ("C[j] = sum(i, A[i, j])", {"A": [3, 4]}, True),
        ("C[j, i] = A[i, j]", {"A": [3, 4]}, True),
        ("C[i] = A[i] * B[i]", {"A": [3], "B": [3]}, True),
        ("C[i] = A[i] * A[i]", {"A": [3]}, False),
        ("C[i] = 2 * A[i]", {"A": [3]}, False),
        ("C[i] = A[i + 1]", {"A": [3]}, False),
        ("C[i] = max(k, A[i, k])", {"A": [3, 4]}, False),
        ("C[i] = A[i]; D[i] = C[i]", {"A": [3]}, False),
    ],
)
def test_expressions(expr: str, shapes: Mapping[str, list[int]], subscripts: bool) -> None:
    workload = ExpressionWorkload.parse(expr, shapes)
    version = workload.numpy_version()
    assert (version is not None) == subscripts
    if version is not None:
        inputs = workload.inputs()
        got = version.call(inputs)
        assert got.flags.c_contiguous and got.base is None
        np.testing.assert_allclose(got, workload.reference(inputs)[0], rtol=1e-5)


def test_a_python_function_has_its_own_reference(tmp_path: Path) -> None:
    path = tmp_path / "my.py"
    path.write_text(
        "from autosched import te\n"
        "def twice():\n"
        "    A = te.placeholder((4,), name='A')\n"
        "    return [A, te.compute((4,), lambda i: A[i] * 2.0, name='B')]\n"
        "def plain():\n"
        "    return twice()\n"
        "def twice_reference(inputs):\n"
        "    return [inputs[0] * 2]\n"
    )
    assert PythonWorkload.load(f"{path}:plain").numpy_version() is None
    version = PythonWorkload.load(f"{path}:twice").numpy_version()
    assert version is not None and version.name == "your reference"
    np.testing.assert_array_equal(version.call([np.ones(4)])[0], np.full(4, 2.0))
