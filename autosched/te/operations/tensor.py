"""Tensors: the results of operations, indexable in expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from autosched.arith import Analyzer
from autosched.tir import op
from autosched.tir.dtype import DType, TypeLike
from autosched.tir.expr import Expr, IterVar, ProducerLoad, Range, Scalar
from autosched.tir.op import as_expr

if TYPE_CHECKING:
    from autosched.te.operations import (
        elementwise as _elementwise,  # `elementwise.py` binds itself here when it is loaded
    )
    from autosched.te.operations.operation import Operation

Index = Expr | IterVar | int


class Tensor:
    """Output `value_index` of operation `op`; compared by identity.

    An operation creates its tensors once (`op.outputs`), so the same output is the same object.
    `A[i, j]` is an element, `A[i, 0:8]` a region (for calls of tensor intrinsics); `A + B`,
    `A * 2.0`, `-A` are new tensors, computed element by element with operands broadcast as NumPy's
    are.
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

    @overload
    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Expr: ...  # type: ignore[overload-overlap]  # without any slice

    @overload
    def __getitem__(self, indices: slice | tuple[Index | slice, ...]) -> TensorRegion: ...

    def __getitem__(self, indices: Any) -> Expr | TensorRegion:
        if not isinstance(indices, tuple):
            indices = (indices,)
        if len(indices) != len(self.shape):
            raise ValueError(
                f"{self.name} has {len(self.shape)} dimensions, found {len(indices)} indices"
            )
        if any(isinstance(index, slice) for index in indices):
            return self.region(indices)
        found = tuple(map(as_expr, indices))
        for index in found:
            if not index.dtype.is_integral or index.dtype.is_bool:
                raise TypeError(
                    f"{self.name}: the index {index!r} must be an integer, found {index.dtype}; "
                    "convert it, e.g. te.cast('int32', ...)"
                )
        return ProducerLoad(self, found)

    def region(self, indices: Sequence[Any]) -> TensorRegion:
        """The region of the given indices and slices, as in `A[i, 0:8]` or `A[i, :]`."""
        ranges: list[Range] = []
        for dim, (index, size) in enumerate(zip(indices, self.shape, strict=True)):
            if not isinstance(index, slice):
                ranges.append(Range.of(op.const(1, size.dtype), as_expr(index)))
                continue
            if index.step not in (None, 1):
                raise ValueError(
                    f"{self.name}: the slice of dimension {dim} has step {index.step!r}; regions "
                    "have no steps"
                )
            start = op.const(0, size.dtype) if index.start is None else as_expr(index.start)
            stop = size if index.stop is None else as_expr(index.stop)
            ranges.append(Range.of(Analyzer().simplify(op.sub(stop, start)), start))
        return TensorRegion(self, tuple(ranges))

    def __add__(self, other: Tensor | Expr | Scalar) -> Tensor:
        return _elementwise.combine("add", op.add, self, other)

    def __radd__(self, other: Expr | Scalar) -> Tensor:
        return _elementwise.combine("add", op.add, other, self)

    def __sub__(self, other: Tensor | Expr | Scalar) -> Tensor:
        return _elementwise.combine("subtract", op.sub, self, other)

    def __rsub__(self, other: Expr | Scalar) -> Tensor:
        return _elementwise.combine("subtract", op.sub, other, self)

    def __mul__(self, other: Tensor | Expr | Scalar) -> Tensor:
        return _elementwise.combine("multiply", op.mul, self, other)

    def __rmul__(self, other: Expr | Scalar) -> Tensor:
        return _elementwise.combine("multiply", op.mul, other, self)

    def __truediv__(self, other: Tensor | Expr | Scalar) -> Tensor:
        return _elementwise.combine("divide", op.div, self, other)

    def __rtruediv__(self, other: Expr | Scalar) -> Tensor:
        return _elementwise.combine("divide", op.div, other, self)

    def __floordiv__(self, other: Tensor | Expr | Scalar) -> Tensor:
        return _elementwise.combine("floor_divide", op.floordiv, self, other)

    def __rfloordiv__(self, other: Expr | Scalar) -> Tensor:
        return _elementwise.combine("floor_divide", op.floordiv, other, self)

    def __mod__(self, other: Tensor | Expr | Scalar) -> Tensor:
        return _elementwise.combine("mod", op.floormod, self, other)

    def __rmod__(self, other: Expr | Scalar) -> Tensor:
        return _elementwise.combine("mod", op.floormod, other, self)

    def __neg__(self) -> Tensor:
        return _elementwise.combine("negative", op.neg, self)

    def astype(self, dtype: TypeLike) -> Tensor:
        """This tensor converted to `dtype`, element by element."""
        return _elementwise.combine("cast", lambda x: op.cast(dtype, x), self)

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}[{', '.join(map(repr, self.shape))}])"


@dataclass(frozen=True, slots=True, eq=False)
class TensorRegion:
    """A box of `tensor`: one range for each dimension."""

    tensor: Tensor
    ranges: tuple[Range, ...]

    def __repr__(self) -> str:
        parts = (f"{r.min!r}:{op.add(r.min, r.extent)!r}" for r in self.ranges)
        return f"{self.tensor.name}[{', '.join(parts)}]"
