"""The types of a built-in: of its inputs, of what it adds up in, and of its outputs."""

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
    """The types that a built-in computes with, by name.

    `inputs` is that of what is multiplied or reduced, `weights` that of the second operand of a
    product. Sums, what follows them, and vectors that are added afterwards (bias, scale, offset)
    are of `acc`. Outputs are `out`.
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
        """The type of everything, if there is one."""
        return self.acc if self == Types.of(self.acc) else None

    def wide(self, e: Expr) -> Expr:
        """`e` in the type of the accumulator."""
        return cast(self.acc, e)

    def narrow(self, e: Expr) -> Expr:
        """`e` in the type of the outputs: integers that do not fit become the nearest that does."""
        kind, given = DType(self.out), e.dtype
        if kind.is_integral and given.is_integral:
            if int(given.max_value) > int(kind.max_value):
                e = min_(e, const(int(kind.max_value), given))
            if int(given.min_value) < int(kind.min_value):
                e = max_(e, const(int(kind.min_value), given))
        return cast(self.out, e)

    def before(self, name: str) -> str:
        """What the sum is called that the output `name` is made of: `name`, if it is the output."""
        return name if self.acc == self.out else f"{name}_acc"

    def output(self, total: Tensor, name: str) -> Tensor:
        """`total` in the type of the outputs; the stage is called `name`."""
        if self.acc == self.out:
            return total

        def element(*indices: Var) -> Expr:
            return self.narrow(total[indices])

        assert isinstance(total.op, ComputeOp)
        names = [axis.var.name for axis in total.op.axis]
        made: Tensor = te.compute(total.shape, element, name=name, axis_names=names)
        return made

    def to_json(self) -> dict[str, str]:
        """The arguments of a workload that say so."""
        if self.one is not None:
            return {"dtype": self.one}
        weights = {} if self.weights == self.inputs else {"weight_dtype": self.weights}
        return {"in_dtype": self.inputs, **weights, "acc_dtype": self.acc, "out_dtype": self.out}

    def rounded(self, exact: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Results in float64 or int64 as outputs: those of integers wrap as sums do, then `narrow`.

        Floats round once, to the type of the outputs.
        """
        kind = DType(self.out)
        if exact.dtype.kind in "iu":
            exact = exact.astype(DType(self.acc).numpy)
            if kind.is_integral:
                exact = np.clip(exact, int(kind.min_value), int(kind.max_value))
        with np.errstate(over="ignore"):
            return np.asarray(exact, kind.numpy, order="C")
