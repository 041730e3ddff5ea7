"""Arithmetic on whole tensors: `A + B` is a new tensor, its operands broadcast as NumPy's are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from autosched.arith import Analyzer
from autosched.te.operations import tensor as tensor_module
from autosched.te.operations.compute import compute
from autosched.te.operations.tensor import Tensor
from autosched.tir import op
from autosched.tir.constants import is_one
from autosched.tir.expr import Expr, Scalar, Var


def combine(name: str, fold: Callable[..., Expr], *operands: Tensor | Expr | Scalar) -> Tensor:
    """The tensor `T_<name>` whose elements are `fold` of the operands' elements.

    Shapes are aligned at their last dimensions; a dimension of 1 is broadcast. Raises ValueError
    for shapes that do not fit, and whatever `fold` raises for types it does not take.
    """
    tensors = [t for t in operands if isinstance(t, Tensor)]
    shape = _broadcast_shape(name, tensors)

    def element(*axes: Var) -> Expr:
        return fold(*(_at(t, axes) if isinstance(t, Tensor) else t for t in operands))

    result: Tensor = compute(shape, element, f"T_{name}", axis_names=_names(len(shape)))
    return result


def _names(ndim: int) -> list[str]:
    return [f"ax{k}" for k in range(ndim)]


def _at(tensor: Tensor, axes: Sequence[Var]) -> Expr:
    """The element of `tensor` that is broadcast to the result's element at `axes`."""
    own = axes[len(axes) - tensor.ndim :]
    zero = op.const(0)
    pairs = zip(tensor.shape, own, strict=True)
    return tensor[tuple(zero if is_one(e) else v for e, v in pairs)]


def _broadcast_shape(name: str, tensors: Sequence[Tensor]) -> tuple[Expr, ...]:
    analyzer = Analyzer()
    ndim = max(t.ndim for t in tensors)
    shape: list[Expr] = []
    for k in range(-ndim, 0):
        extent: Expr = op.const(1)
        for t in tensors:
            own = t.shape[k] if -k <= t.ndim else op.const(1)
            if is_one(own):
                continue
            if not is_one(extent) and not analyzer.can_prove_equal(own, extent):
                shapes = " and ".join(f"{t.name} of shape {t.shape}" for t in tensors)
                raise ValueError(
                    f"te {name}: {shapes} do not fit: dimension {k} is {extent} and {own}; "
                    "dimensions must be equal or 1"
                )
            extent = own
        shape.append(extent)
    return tuple(shape)


# The operators of Tensor need this module, which imports Tensor: it cannot import this one itself.
vars(tensor_module)["_elementwise"] = sys.modules[__name__]
