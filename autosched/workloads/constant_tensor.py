"""Tensors of constant numbers, such as the matrices of a transform or a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from autosched import te
from autosched.te.operations.operation import CONST_MATRIX
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Expr
from autosched.tir.op import all_, const, eq, select

Numbers = npt.NDArray[Any]


def constant_tensor(numbers: Numbers, name: str, dtype: str, axis_names: Sequence[str]) -> Tensor:
    """A tensor `name` of `numbers`; unrolled indices turn its elements into literals."""

    def element(*indices: Expr) -> Expr:
        value = const(0, dtype)
        for place in zip(*numbers.nonzero(), strict=True):
            here = all_(*(eq(i, int(k)) for i, k in zip(indices, place, strict=True)))
            value = select(here, const(numbers[place].item(), dtype), value)
        return value

    result: Tensor = te.compute(
        numbers.shape,
        element,
        name=name,
        attrs={CONST_MATRIX: True},
        axis_names=list(axis_names),
    )
    return result
