"""The types of a built-in: of its inputs, its accumulator and its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched import te
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, Var
from autosched.tir.op import cast, const, max_, min_


@dataclass(frozen=True, slots=True)
class Types:
    """The types with which a built-in computes, by name.

    - `inputs`: of values that are multiplied or reduced.
    - `weights`: of the second operand of a product.
    - `acc`: of sums, of what is computed from them, and of vectors that are added to them (bias,
      scale, offset).
    - `out`: of outputs.
    """

    inputs: str
    weights: str
    acc: str
    out: str

    @classmethod
    def of(cls, dtype: str) -> Types:
        """One type for everything."""
        return cls(dtype, dtype, dtype, dtype)

    @property
    def one(self) -> str | None:
        """The type of everything; None where there are several types."""
        return self.acc if self == Types.of(self.acc) else None

    def wide(self, e: Expr) -> Expr:
        """Cast `e` to the accumulator's type."""
        return cast(self.acc, e)

    def narrow(self, e: Expr) -> Expr:
        """Cast `e` to the output type; integers that do not fit saturate."""
        kind, given = DType(self.out), e.dtype
        if kind.is_integral and given.is_integral:
            if int(given.max_value) > int(kind.max_value):
                e = min_(e, const(int(kind.max_value), given))
            if int(given.min_value) < int(kind.min_value):
                e = max_(e, const(int(kind.min_value), given))
        return cast(self.out, e)

    def before(self, name: str) -> str:
        """The name of the sum behind output `name`: `name` itself where the sum is the output."""
        return name if self.acc == self.out else f"{name}_acc"

    def output(self, total: Tensor, name: str) -> Tensor:
        """`total` cast to the output type, in a stage called `name`."""
        if self.acc == self.out:
            return total

        def element(*indices: Var) -> Expr:
            return self.narrow(total[indices])

        assert isinstance(total.op, ComputeOp)
        names = [axis.var.name for axis in total.op.axis]
        made: Tensor = te.compute(total.shape, element, name=name, axis_names=names)
        return made

    def to_json(self) -> dict[str, str]:
        """The arguments of a workload that give these types."""
        if self.one is not None:
            return {"dtype": self.one}
        weights = {} if self.weights == self.inputs else {"weight_dtype": self.weights}
        return {"in_dtype": self.inputs, **weights, "acc_dtype": self.acc, "out_dtype": self.out}

    def rounded(self, exact: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert exact results, float64 or integers, to the output type.

        Integers wrap to the accumulator's type as sums do, and then saturate as `narrow` does.
        Floats are rounded once, to the output type.
        """
        kind = DType(self.out)
        if exact.dtype.kind in "iu":
            exact = exact.astype(DType(self.acc).numpy)
            if kind.is_integral:
                exact = np.clip(exact, int(kind.min_value), int(kind.max_value))
        with np.errstate(over="ignore"):
            return np.asarray(exact, kind.numpy, order="C")
