"""Random values of any type over axes, as TIR and, at the same time, as a NumPy array.

Both are built side by side, operator by operator; the array is not derived from the TIR. Values
without one exact result are not drawn: sums of products (which may be fused), quotients with a
divisor that loops share (which become products), the sign of a zero that a minimum chooses, and
small floats that are computed with before they are rounded.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autosched import te
from autosched.te.operations.operation import PlaceholderOp
from autosched.te.operations.tensor import Tensor
from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr
from kit.types import Array

INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
SMALL = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
TYPES = (*INTS, *FLOATS, *SMALL, "bool")
_COMPARISONS: dict[str, tuple[Callable[..., Expr], Callable[..., Array]]] = {
    "lt": (op.lt, np.less),
    "le": (op.le, np.less_equal),
    "gt": (op.gt, np.greater),
    "ge": (op.ge, np.greater_equal),
    "eq": (op.eq, np.equal),
    "ne": (op.ne, np.not_equal),
}
WRAPPING: list[tuple[Callable[..., Expr], Callable[..., Array]]] = [
    *((op.add, np.add), (op.sub, np.subtract), (op.mul, np.multiply)),
]


@dataclass(frozen=True)
class Value:
    """A TIR expression and its array over all points; `product` means that a sum may fuse it."""

    expr: Expr
    array: Array
    product: bool = False

    @property
    def dtype(self) -> str:
        return self.expr.dtype.name


@dataclass(frozen=True)
class Source:
    """A tensor that can be read, and its elements as an array."""

    tensor: Tensor
    array: Array


class Values:
    """Draws values over axes of extents `shape`, which begin at `begins` or 0, from `sources`.

    Elements are read at the point itself. Sources have the shape `shape`, or are rows of it.
    """

    def __init__(
        self,
        draw: random.Random,
        axes: Sequence[Expr],
        shape: tuple[int, ...],
        sources: Sequence[Source],
        begins: Sequence[int] = (),
    ) -> None:
        self.draw = draw
        self.axes = [op.as_expr(axis) for axis in axes]
        self.shape = shape
        self.sources = sources
        self.inputs = [s for s in sources if isinstance(s.tensor.op, PlaceholderOp)]
        begins = begins or [0] * len(shape)
        self.points = [at + begin for at, begin in zip(np.indices(shape), begins, strict=True)]

    def of(self, dtype: str, depth: int) -> Value:
        """A random value of type `dtype`."""
        if depth == 0 or self.draw.random() < 0.1:
            return self.leaf(dtype)
        makers: list[Callable[[str, int], Value]] = [self.selected, self.extremum, self.cast]
        if dtype in INTS:
            makers += [self.whole, self.whole, self.bits, self.divided]
        elif dtype in FLOATS:
            makers += [self.computed, self.computed, self.rounded]
        elif dtype == "bool":
            makers = [self.condition, self.selected, self.cast]
        return self.draw.choice(makers)(dtype, depth - 1)

    # -- leaves

    def leaf(self, dtype: str) -> Value:
        found = [s for s in self.sources if s.tensor.dtype.name == dtype]
        if found and self.draw.random() < 0.85:
            source = self.draw.choice(found)
            return self.guarded(source) if self.draw.random() < 0.4 else self.read(source)
        if self.sources and self.draw.random() < 0.6:
            return self.converted(self.read(self.draw.choice(self.sources)), dtype)
        if dtype == "bool":
            return self.on_axes()
        if self.draw.random() < 0.3:
            where, at = self.place()
            return Value(te.cast(dtype, where), converted(at, dtype))
        number: float = self.draw.choice((1, 2, 3, 5, 7, 100))
        if dtype.startswith("int") and self.draw.random() < 0.4:
            number = -number
        if dtype in FLOATS and self.draw.random() < 0.5:
            number = self.draw.choice((0.5, -1.25, 0.1, 1e-5))
        kind = DType(dtype)
        array = np.full(self.shape, number, np.float32).astype(kind.numpy)
        if dtype in INTS or dtype == "float64":
            array = np.full(self.shape, number, kind.numpy)
        return Value(op.const(number, dtype), array)

    def place(self) -> tuple[Expr, Array]:
        """The value of one axis: a small number that depends on the point."""
        which = self.draw.randrange(len(self.axes))
        return self.axes[which], self.points[which]

    def read(self, source: Source) -> Value:
        """An element of a tensor: at the point, mirrored, or in a fixed row or column."""
        indices: list[Expr] = []
        places: list[Array] = []
        for axis, at, extent in zip(self.axes, self.points, source.array.shape, strict=False):
            way = self.draw.random()
            if way < 0.7:
                indices.append(axis)
                places.append(at)
            elif way < 0.85:
                indices.append(extent - 1 - axis)
                places.append(extent - 1 - at)
            else:
                one = self.draw.randrange(extent)
                indices.append(op.const(one))
                places.append(np.full_like(at, one))
        return Value(source.tensor[tuple(indices)], source.array[tuple(places)])

    def guarded(self, source: Source) -> Value:
        """An element that exists for some points only, under a condition that says for which."""
        steps = [self.draw.randrange(-3, 4) for _ in source.array.shape]
        inside = np.ones(self.shape, bool)
        indices: list[Expr] = []
        places: list[Array] = []
        conditions: list[Expr] = []
        for axis, at, extent, step in zip(
            self.axes, self.points, source.array.shape, steps, strict=False
        ):
            index, place = axis + step, at + step
            if step < 0:
                conditions.append(self.draw.choice((index >= 0, axis >= -step)))
            if step > 0:
                conditions.append(self.draw.choice((index < extent, axis < extent - step)))
            inside &= (place >= 0) & (place < extent)
            indices.append(index)
            places.append(place.clip(0, extent - 1))
        return self._where(source, indices, places, conditions, inside)

    def _where(
        self,
        source: Source,
        indices: Sequence[Expr],
        places: Sequence[Array],
        conditions: list[Expr],
        inside: Array,
    ) -> Value:
        """An element where all conditions hold (the points `inside`), elsewhere another value."""
        if not conditions:
            return self.read(source)
        if self.draw.random() < 0.4:
            asked = self.of("bool", 1)
            inside = inside & asked.array
            conditions.append(asked.expr)
        other = self.leaf(source.tensor.dtype.name)
        value = Value(source.tensor[tuple(indices)], source.array[tuple(places)])
        if self.draw.random() < 0.3 and value.dtype in (*INTS, *FLOATS):
            value = self.negative(value)
        return self._choice(Value(te.all(*conditions), inside), value, other)

    def on_axes(self) -> Value:
        """A condition that depends on the point alone."""
        where, at = self.place()
        number = self.draw.randrange(1, 6)
        if self.draw.random() < 0.5:
            return Value(where < number, at < number)
        return Value(op.eq(where % number, 0), at % number == 0)

    # -- operators

    def selected(self, dtype: str, depth: int) -> Value:
        condition = self.of("bool", depth)
        return self._choice(condition, self.of(dtype, depth), self.of(dtype, depth))

    def _choice(self, condition: Value, a: Value, b: Value) -> Value:
        choose = self.draw.choice((te.select, te.select, te.if_then_else))
        if self.draw.random() < 0.3:
            condition = Value(te.logical_not(condition.expr), ~condition.array)
            a, b = b, a
        return Value(
            choose(condition.expr, a.expr, b.expr),
            np.where(condition.array, a.array, b.array),
            a.product or b.product,
        )

    def extremum(self, dtype: str, depth: int) -> Value:
        a, b = self.of(dtype, depth), self.of(dtype, depth)
        least = self.draw.random() < 0.5
        function, of_arrays = (op.min_, np.minimum) if least else (op.max_, np.maximum)
        array = in_float32(of_arrays, a.array, b.array)
        return Value(function(a.expr, b.expr), array, a.product or b.product)

    def condition(self, _: str, depth: int) -> Value:
        way = self.draw.random()
        if way < 0.2:
            return self.on_axes()
        if way < 0.5:
            a, b = self.of("bool", depth), self.of("bool", depth)
            join, joined = self.draw.choice(
                (
                    (te.all, np.logical_and),
                    (te.any, np.logical_or),
                    (op.min_, np.logical_and),
                    (op.max_, np.logical_or),
                )
            )
            return Value(join(a.expr, b.expr), joined(a.array, b.array))
        if way < 0.6:
            a = self.of("bool", depth)
            return Value(te.logical_not(a.expr), ~a.array)
        dtype = self.draw.choice(TYPES[:-1])
        a, b = self.of(dtype, depth), self.of(dtype, depth)
        function, of_arrays = self.draw.choice(list(_COMPARISONS.values()))
        wide = (x.array.astype(np.float32) if dtype in SMALL else x.array for x in (a, b))
        return Value(function(a.expr, b.expr), of_arrays(*wide))

    def cast(self, dtype: str, depth: int) -> Value:
        return self.converted(self.of(self.draw.choice(TYPES), depth), dtype)

    def converted(self, a: Value, dtype: str) -> Value:
        """`a` as `dtype`.

        Floats that become integers saturate, and NaN becomes 0. Floats of up to 16 bits are made
        from float32.
        """
        if a.dtype == dtype:
            return a
        wide = dtype in FLOATS
        return Value(te.cast(dtype, a.expr), converted(a.array, dtype), a.product and wide)

    def negative(self, a: Value) -> Value:
        zero = np.zeros((), a.array.dtype)
        return Value(op.neg(a.expr), in_float32(np.subtract, zero, a.array), a.product)

    def whole(self, dtype: str, depth: int) -> Value:
        """Wrapping arithmetic of integers."""
        a, b = self.of_data(dtype, depth), self.of(dtype, depth)
        way = self.draw.randrange(4)
        if way == 3:
            return self.negative(a)
        function, of_arrays = WRAPPING[way]
        return Value(function(a.expr, b.expr), of_arrays(a.array, b.array))

    def bits(self, dtype: str, depth: int) -> Value:
        """Bit operations, and shifts by counts that may exceed the bits of the type."""
        a, b = self.of_data(dtype, depth), self.of_data(dtype, depth)
        bits = DType(dtype).bits
        if self.draw.random() < 0.2:
            number = self.draw.choice((0, 1, bits - 1, bits, bits + 1, 70))
            b = Value(op.const(number, dtype), np.full(self.shape, number, a.array.dtype))
        count = b.array & np.array(bits - 1, b.array.dtype)
        way = self.draw.randrange(5)
        function, array = [
            (te.bitwise_and, a.array & b.array),
            (te.bitwise_or, a.array | b.array),
            (te.bitwise_xor, a.array ^ b.array),
            (te.shift_left, np.left_shift(a.array, count)),
            (te.shift_right, np.right_shift(a.array, count)),
        ][way]
        return Value(function(a.expr, b.expr), array)

    def divided(self, dtype: str, depth: int) -> Value:
        """Quotients and remainders by data; dividing by 0 gives 0."""
        a = self.of_data(dtype, depth)
        if self.draw.random() < 0.4:
            number = self.draw.choice((1, 2, 3, 7, 8, 64))
            if dtype.startswith("int") and self.draw.random() < 0.3:
                number = -number
            b = Value(op.const(number, dtype), np.full(self.shape, number, a.array.dtype))
        else:
            b = self.of_data(dtype, depth)
        if self.draw.random() < 0.3:  # a multiple of the divisor, unless it wraps
            a = Value(op.mul(a.expr, b.expr), np.multiply(a.array, b.array))
        function, of_arrays = self.draw.choice(_DIVISIONS)
        zero = b.array == 0
        array = of_arrays(a.array, np.where(zero, np.ones_like(b.array), b.array))
        return Value(function(a.expr, b.expr), np.where(zero, np.zeros_like(array), array))

    def of_data(self, dtype: str, depth: int) -> Value:
        """A value that comes from memory, even after inlining, so that its arithmetic wraps."""
        a = self.of(dtype, depth)
        one = self.read(self.draw.choice(self.inputs))
        if one.dtype == dtype and self.draw.random() < 0.5:
            return one
        mixed = self.converted(one, dtype)
        return Value(te.bitwise_xor(a.expr, mixed.expr), a.array ^ mixed.array)

    def computed(self, dtype: str, depth: int) -> Value:
        """Sums, differences, products and quotients of floats."""
        a, b = self.of(dtype, depth), self.of(dtype, depth)
        way = self.draw.randrange(5)
        if way < 2:
            a, b = self.unfused(a), self.unfused(b)
            function, of_arrays = ((op.add, np.add), (op.sub, np.subtract))[way]
            return Value(function(a.expr, b.expr), of_arrays(a.array, b.array))
        if way == 2:
            return Value(op.mul(a.expr, b.expr), np.multiply(a.array, b.array), True)
        divisor = self.divisor() if way == 3 else None
        if divisor is not None:
            b = self.converted(divisor, dtype)
            return Value(op.truncdiv(a.expr, b.expr), np.divide(a.array, b.array))
        return self.negative(a)

    def divisor(self) -> Value | None:
        """An input at the point as divisor; a stage could have lost the sign of a zero."""
        source = self.draw.choice(self.inputs)
        return Value(source.tensor[tuple(self.axes)], source.array)

    def unfused(self, a: Value) -> Value:
        """`a`, or, if it is a product, its conversion to int64 and back, which cannot be fused."""
        if not a.product:
            return a
        wider = self.converted(a, "int64")
        return self.converted(wider, a.dtype)

    def rounded(self, dtype: str, depth: int) -> Value:
        """Functions whose result is exact or correctly rounded."""
        a = self.of(dtype, depth)
        name, function = self.draw.choice(
            [
                *(("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc)),
                *(("nearbyint", np.rint), ("fabs", np.abs), ("sqrt", np.sqrt)),
            ]
        )
        return Value(op.call(name, a.expr), function(a.array), name == "fabs" and a.product)


def in_float32(function: Callable[..., Array], *arrays: Array) -> Array:
    """`function` of the arrays; small floats are computed in float32 and rounded."""
    dtype = arrays[-1].dtype
    if dtype.isbuiltin == 1:
        found: Array = function(*arrays)
        return found
    rounded: Array = function(*(a.astype(np.float32) for a in arrays)).astype(dtype)
    return rounded


def converted(array: Array, dtype: str) -> Array:
    """`array` converted to `dtype` with autosched's meaning."""
    kind = DType(dtype)
    small = array.dtype.isbuiltin != 1
    if small:
        array = array.astype(np.float32)
    if kind.is_bool:
        return np.asarray(array != 0)
    if kind.is_float:
        through = array.astype(np.float32) if kind.bits <= 16 else array
        return through.astype(kind.numpy)
    if array.dtype.kind != "f":
        return array.astype(kind.numpy)
    whole: Array = np.frompyfunc(lambda x: _saturated(float(x), kind), 1, 1)(array)
    return whole.astype(kind.numpy)


def _saturated(x: float, kind: DType) -> int:
    if np.isnan(x):
        return 0
    low, high = int(kind.min_value), int(kind.max_value)
    if np.isinf(x):
        return high if x > 0 else low
    return min(max(int(x), low), high)


def _toward_zero(a: Array, b: Array) -> Array:
    """The exact quotient rounded toward zero, which belongs to fmod; it wraps as the type does."""
    exact = np.frompyfunc(lambda x, y: _quotient(int(x), int(y)), 2, 1)(a, b)
    bits = a.dtype.itemsize * 8
    wrapped = np.frompyfunc(lambda x: x % (1 << bits), 1, 1)(exact)
    found: Array = wrapped.astype(f"uint{bits}").view(a.dtype)
    return found


def _quotient(x: int, y: int) -> int:
    q = abs(x) // abs(y)
    return q if (x < 0) == (y < 0) else -q


_DIVISIONS: list[tuple[Callable[..., Expr], Callable[..., Array]]] = [
    *((op.floordiv, np.floor_divide), (op.floormod, np.mod)),
    *((op.truncdiv, _toward_zero), (op.truncmod, np.fmod)),
]
