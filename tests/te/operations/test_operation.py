"""Operations and their tensors."""

from typing import Any

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.operations.operation import tensor_loads


def test_inputs_are_listed_once_and_what_indices_read_first() -> None:
    A, B = te.placeholder((8,), name="A"), te.placeholder((8,), "int32", name="B")
    C = te.compute((8,), lambda i: A[B[i]] * A[i] + B[0].astype("float32"), name="C")
    assert C.op.inputs == (B, A)
    assert [load.producer.name for load in tensor_loads(C.op.body[0])] == ["A", "B", "A", "B"]


def test_roots_are_data_axes_then_reduction_axes() -> None:
    A = te.placeholder((8, 4), name="A")
    k = te.reduce_axis((0, 4), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B", attrs={"hint": 1})
    assert B.op.root_iter_vars == (*B.op.axis, k)
    assert B.op.attrs == {"hint": 1}
    assert A.op.root_iter_vars == ()
    assert B.op.output(0) is B
    with pytest.raises(ScheduleError, match="output 1: B has 1 output"):
        B.op.output(1)


@pytest.mark.parametrize("name", [None, 5])
def test_names_are_text(name: Any) -> None:
    with pytest.raises(TypeError, match=f"the name of a tensor is text, found {name}"):
        te.placeholder((4,), name=name)
