"""Tensors: the results of operations, indexable in expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, IterVar, ProducerLoad
from autosched.tir.op import as_expr

if TYPE_CHECKING:
    from autosched.te.operations.operation import Operation


class Tensor:
    """Output `value_index` of operation `op`; compared by identity.

    An operation creates its tensors once (`op.outputs`), so the same output is the same object.
    """

    __slots__ = ("__weakref__", "dtype", "op", "shape", "value_index")

    def __init__(
        self, op: Operation, value_index: int, shape: tuple[Expr, ...], dtype: DType
    ) -> None:
        self.op = op
        self.value_index = value_index
        self.shape = shape
        self.dtype = dtype

    @property
    def name(self) -> str:
        """The operation's name, with `.v<k>` when it has several outputs."""
        if len(self.op.outputs) == 1:
            return self.op.name
        return f"{self.op.name}.v{self.value_index}"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __call__(self, *indices: Expr | IterVar | int) -> Expr:
        """The element at `indices`, like `tensor[indices]`."""
        return self[indices]

    def __getitem__(self, indices: Any) -> Expr:
        if not isinstance(indices, tuple):
            indices = (indices,)
        if len(indices) != len(self.shape):
            raise ValueError(
                f"{self.name} has {len(self.shape)} dimensions, found {len(indices)} indices"
            )
        return ProducerLoad(self, tuple(map(as_expr, indices)))

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}[{', '.join(map(repr, self.shape))}])"
