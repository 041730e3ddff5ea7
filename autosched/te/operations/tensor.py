"""Tensors: the results of operations, indexable in expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, overload

from autosched.arith import Analyzer
from autosched.te.operations.other_names import OF_TENSORS, OtherNames
from autosched.tir import op
from autosched.tir.dtype import DType, TypeLike
from autosched.tir.expr import Expr, IterVar, ProducerLoad, Range, Scalar
from autosched.tir.numpy_functions import NumpyFunctions
from autosched.tir.op import as_expr
from autosched.tir.operators import Operators, is_declaring

if TYPE_CHECKING:
    from autosched.te.operations import (
        elementwise as _elementwise,  # `elementwise.py` binds itself here when it is loaded
    )
    from autosched.te.operations.operation import Operation

Index = Expr | IterVar | int


class Tensor(NumpyFunctions, OtherNames):
    """Output `value_index` of operation `op`; compared by identity.

    An operation creates its tensors once (`op.outputs`), so the same output is the same object.
    `A[i, j]` is an element, `A[i, 0:8]` a region (for calls of tensor intrinsics); `A + B`,
    `A * 2.0`, `-A` are new tensors, computed element by element with operands broadcast as NumPy's
    are.
    """

    __slots__ = ("__weakref__", "dtype", "op", "shape", "value_index")
    __hash__ = object.__hash__
    other_names = OF_TENSORS
    in_expressions: ClassVar[str] = (
        "read its elements, as te.compute(A.shape, lambda *i: A(*i) + 1) does"
    )

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

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{self!r} is symbolic and holds no numbers; pass arrays to the kernel")

    def __iter__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be iterated; use te.compute and te.reduce_axis for its elements"
        )

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
                f"{self.name} has {len(self.shape)} dimensions, found {len(indices)} indices; give "
                "one for each, as in A[i, j]"
            )
        if any(isinstance(index, slice) for index in indices):
            return self.region(indices)
        found = tuple([self._index(index) for index in indices])
        for index in found:
            if not index.dtype.is_integral or index.dtype.is_bool:
                raise TypeError(
                    f"{self.name}: the index {index!r} must be an integer, found {index.dtype}; "
                    "convert it, e.g. te.cast('int32', ...)"
                )
        return ProducerLoad(self, found)

    def _index(self, index: Any) -> Expr:
        try:
            return as_expr(index)
        except TypeError as error:
            raise TypeError(f"{self.name}: an index is an integer: {error}") from None

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

    def __pow__(self, other: Tensor | Expr | Scalar) -> Tensor:
        return _elementwise.combine("power", op.power, self, other)

    def __rpow__(self, other: Expr | Scalar) -> Tensor:
        return _elementwise.combine("power", op.power, other, self)

    def __abs__(self) -> Tensor:
        return _elementwise.combine("abs", op.abs_, self)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same tensor object.

        TypeError for a comparison with a number or an expression, and, while a tensor is declared,
        with another tensor: there an elementwise comparison was meant.
        """
        if isinstance(other, Number | Operators) or (
            isinstance(other, Tensor) and other is not self and is_declaring()
        ):
            self._compared(other)
        return self is other if isinstance(other, Tensor) else NotImplemented

    def _compared(self, other: object) -> NoReturn:
        raise TypeError(
            f"{self!r} is compared with {other!r}; compare elements, as te.compute(A.shape, "
            "lambda *i: A(*i) > 0) does, and objects by `is`"
        )

    __lt__ = __le__ = __gt__ = __ge__ = _compared

    def __neg__(self) -> Tensor:
        return _elementwise.combine("negative", op.neg, self)

    def astype(self, dtype: TypeLike) -> Tensor:
        """This tensor converted to `dtype`, element by element."""
        return _elementwise.combine("cast", lambda x: op.cast(dtype, x), self)

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}[{', '.join(map(repr, self.shape))}])"


@dataclass(frozen=True, slots=True, eq=False)
class TensorRegion:
    """A box-shaped region of `tensor`: one range for each dimension."""

    in_expressions: ClassVar[str] = (
        "regions are arguments of tensor intrinsics; sum over a te.reduce_axis k, of A[i, k]"
    )
    tensor: Tensor
    ranges: tuple[Range, ...]

    def __repr__(self) -> str:
        parts = (f"{r.min!r}:{op.add(r.min, r.extent)!r}" for r in self.ranges)
        return f"{self.tensor.name}[{', '.join(parts)}]"
