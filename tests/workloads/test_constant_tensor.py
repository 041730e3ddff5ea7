"""Tensors of numbers that are known."""

import numpy as np
import pytest

from autosched.te.operations.operation import CONST_MATRIX
from autosched.workloads.constant_tensor import Numbers, constant_tensor
from autosched.workloads.evaluate import evaluate


@pytest.mark.parametrize(
    "numbers, dtype",
    [
        (np.array([0.5, 0.0, -2.0]), "float32"),
        (np.array([[1, 0], [0, -3], [2, 0]]), "int8"),
        (np.arange(8.0).reshape(2, 1, 4), "float64"),
        (np.zeros(2), "float32"),
    ],
    ids=["a line", "integers", "three axes", "zeros"],
)
def test_it_has_the_numbers(numbers: Numbers, dtype: str) -> None:
    names = "abc"[: numbers.ndim]
    tensor = constant_tensor(numbers, "B", dtype, names)
    (found,) = evaluate([tensor], [])
    np.testing.assert_array_equal(found, numbers)
    assert (tensor.name, tensor.dtype.name) == ("B", dtype)
    assert [axis.var.name for axis in tensor.op.root_iter_vars] == [*names]
    assert tensor.op.attrs == {CONST_MATRIX: True}
