"""Random stages of any shape, with one or several values each, and their results by NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched import te
from autosched.te.operations.reduction import Reducer
from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, FloatImm, IntImm, IterVar, Var
from kit.corners import sample
from kit.random_reads import Axis, Reads
from kit.random_values import FLOATS, INTS, SMALL, TYPES, Source, in_float32
from kit.types import Array

Shape = tuple[int, ...]
Fold = Callable[[Any, Any], Any]
_EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 13, 16)
_LARGE = (1, 3, 4, 8, 15, 16, 17, 31, 32, 33, 48, 64)


@dataclass
class Extents:
    """Draws extents: with `symbolic`, some are arguments; with `large`, they fill any vector."""

    draw: random.Random
    symbolic: bool = False
    large: bool = False
    sizes: dict[int, Var] = field(default_factory=dict)

    def shape(self, most: int = 300) -> Shape:
        """One to three extents with at most `most` elements, seven times as many if `large`."""
        some, most = (_LARGE, most * 7) if self.large else (_EXTENTS, most)
        while True:
            found = tuple(self.draw.choice(some) for _ in range(self.draw.choice((1, 2, 2, 3))))
            if np.prod(found) <= most:
                return found

    def reduced(self) -> list[tuple[IterVar, int, int]]:
        """One or two reduction axes, with their begins and ends."""
        found = []
        some = (1, 3, 4, 8, 16, 17, 32, 33) if self.large else (1, 2, 3, 5, 7, 8, 12)
        for number in range(self.draw.choice((1, 1, 2))):
            first, extent = self.draw.choice((0, 0, 0, 1, 2)), self.draw.choice(some)
            (end,) = self.named((extent,))
            axis = te.reduce_axis((first, first + end), name=f"k{number}")
            found.append((axis, first, first + extent))
        return found

    def named(self, shape: Shape) -> tuple[Expr | int, ...]:
        """The shape with some extents replaced by variables, one variable for each number."""
        if not self.symbolic:
            return shape
        return tuple(self._named(n) if self.draw.random() < 0.5 else n for n in shape)

    def _named(self, extent: int) -> Var:
        if extent not in self.sizes:
            make = te.size_var if self.draw.random() < 0.7 else te.var
            self.sizes[extent] = make(f"n{extent}")
        return self.sizes[extent]


def random_input(extents: Extents, name: str) -> Source:
    """An input of corner values, of small numbers, or of small indices."""
    draw = extents.draw
    dtype, shape, way = draw.choice(TYPES), extents.shape(), draw.random()
    count, kind = int(np.prod(shape)), DType(dtype)
    if way < 0.4:
        array = sample(dtype, draw.randrange(1 << 30), max(count, 256))[:count]
    else:
        low = 0 if way < 0.6 or dtype == "bool" or dtype.startswith("u") else -4
        numbers = [draw.randrange(low, 5) for _ in range(count)]
        array = np.array(numbers, np.float32).astype(kind.numpy)
    return Source(te.placeholder(extents.named(shape), dtype, name=name), array.reshape(shape))


def random_map(extents: Extents, sources: Sequence[Source], name: str) -> list[Source]:
    """A stage of one to three values, each a function of the point."""
    draw, shape = extents.draw, extents.shape()
    types = [draw.choice(TYPES) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
    arrays: list[Array] = []

    def value(*axes: Var) -> Any:
        reads = Reads(draw, _over(axes, shape), sources, extents.sizes)
        found = [reads.of(dtype, draw.randrange(1, 3)) for dtype in types]
        arrays.extend(np.broadcast_to(v.array, shape) for v in found)
        return found[0].expr if len(found) == 1 else tuple(v.expr for v in found)

    return _stage(te.compute(extents.named(shape), value, name=name), arrays)


def random_reduction(extents: Extents, sources: Sequence[Source], name: str) -> list[Source]:
    """A reduction with one exact result, perhaps with a condition or an initial value."""
    draw, shape = extents.draw, extents.shape(64)
    dtype = draw.choice((*INTS, *FLOATS, *SMALL, "bool"))
    reducer, fold = _reducer(draw, dtype)
    reduced = extents.reduced()
    arrays: list[Array] = []

    def value(*axes: Var) -> Any:
        reads = _inside(extents, axes, shape, reduced, sources)
        found = reads.of(dtype, draw.randrange(1, 3))
        options, holds = _condition(reads)
        start = _constants(reducer.identity(DType(dtype)), shape)
        if draw.random() < 0.4:
            outside = Reads(draw, _over(axes, shape), sources, extents.sizes)
            begin = outside.of(dtype, draw.randrange(2))
            options["init"], start = begin.expr, begin.array
        arrays.extend(
            _folded(lambda a, b: (fold(a[0], b[0]),), [start], [found.array], holds, shape)
        )
        return reducer(found.expr, axis=[axis for axis, _, _ in reduced], **options)

    return _stage(te.compute(extents.named(shape), value, name=name), arrays)


def random_best(extents: Extents, sources: Sequence[Source], name: str) -> list[Source]:
    """The extremum and its first place, which are reduced together."""
    draw, shape = extents.draw, extents.shape(64)
    dtype = draw.choice((*INTS, *FLOATS, "bfloat16"))
    number = draw.choice(("int32", "int32", "int64", "int16", "uint8"))
    reducer, fold = _best(larger=draw.random() < 0.5)
    reduced = extents.reduced()
    arrays: list[Array] = []

    def value(*axes: Var) -> Any:
        reads = _inside(extents, axes, shape, reduced, sources)
        found = reads.of(dtype, draw.randrange(2))
        expr, array = found.expr, np.broadcast_to(found.array, reads.shape)
        if DType(dtype).is_float:  # no NaN, which compares neither larger nor smaller
            wanted = np.isnan(array.astype(np.float64))
            expr = te.select(op.eq(expr, expr), expr, te.const(0, dtype))
            array = np.where(wanted, np.zeros((), array.dtype), array)
        where: Any = 0
        at: Any = 0
        for (axis, first, end), point in zip(reduced, reads.points[len(shape) :]):
            where = where * (end - first) + (axis.var - first)
            at = at * (end - first) + (point - first)
        types = DType(number), DType(dtype)
        options, holds = _condition(reads)
        start = [_constants(each, shape) for each in reducer.identity(*types)]
        arrays.extend(_folded(fold, start, [at.astype(types[0].numpy), array], holds, shape))
        return reducer((te.cast(number, where), expr), axis=[k for k, _, _ in reduced], **options)

    return _stage(te.compute(extents.named(shape), value, name=name), arrays)


def _stage(tensors: Any, arrays: Sequence[Array]) -> list[Source]:
    found = tensors if isinstance(tensors, list | tuple) else [tensors]
    return [Source(t, np.ascontiguousarray(a)) for t, a in zip(found, arrays, strict=True)]


def _over(axes: Sequence[Var], shape: Shape) -> list[Axis]:
    return [(axis, 0, extent) for axis, extent in zip(axes, shape, strict=True)]


def _inside(
    extents: Extents,
    axes: Sequence[Var],
    shape: Shape,
    reduced: Sequence[tuple[IterVar, int, int]],
    sources: Sequence[Source],
) -> Reads:
    """The reads of a reduction over `reduced`."""
    every = [*_over(axes, shape), *((axis.var, first, end) for axis, first, end in reduced)]
    return Reads(extents.draw, every, sources, extents.sizes)


def _condition(reads: Reads) -> tuple[dict[str, Any], Array]:
    """The option `where` of a reduction, or no option, and the points that it selects."""
    if reads.draw.random() < 0.75:
        return {}, np.ones(reads.shape, bool)
    asked = reads.of("bool", 1)
    return {"where": asked.expr}, np.broadcast_to(asked.array, reads.shape)


def _constants(value: Expr, shape: Shape) -> Array:
    """A constant of a reduction, as an array of the stage's shape."""
    assert isinstance(value, IntImm | FloatImm)
    kind = value.dtype
    through = kind.numpy if kind.is_integral else np.float64
    return np.full(shape, value.value, through).astype(kind.numpy)


def _folded(
    fold: Fold, start: Sequence[Array], values: Sequence[Array], holds: Array, shape: Shape
) -> tuple[Array, ...]:
    """`values` folded over the axes behind `shape`, in order, where the condition holds."""
    count = holds.size // int(np.prod(shape))
    taken = holds.reshape(*shape, count)
    apart = [np.broadcast_to(v, holds.shape).reshape(*shape, count) for v in values]
    result = tuple(np.broadcast_to(first, shape) for first in start)
    for k in range(count):
        new = fold(result, tuple(each[..., k] for each in apart))
        result = tuple(
            np.where(taken[..., k], after, before).astype(before.dtype)
            for after, before in zip(new, result, strict=True)
        )
    return result


def _reducer(draw: random.Random, dtype: str) -> tuple[Reducer, Fold]:
    """A reduction whose result does not depend on the order, and its NumPy function."""
    kind = DType(dtype)
    ones = -1 if kind.is_int else int(kind.max_value) if kind.is_integral else 0
    largest: Fold = lambda a, b: in_float32(np.maximum, a, b)  # noqa: E731  beside the others
    least: Fold = lambda a, b: in_float32(np.minimum, a, b)  # noqa: E731
    if dtype == "bool":
        return draw.choice(
            [
                (te.comm_reducer(te.any, lambda t: te.const(False, t), "any"), np.logical_or),
                (te.comm_reducer(te.all, lambda t: te.const(True, t), "all"), np.logical_and),
                (te.sum, np.logical_or),
            ]
        )
    found: list[tuple[Reducer, Fold]] = [(te.max, largest), (te.min, least)]
    if dtype in INTS:
        found += [(te.sum, np.add), (te.sum, np.add), (te.prod, np.multiply)]
        for name, combine, fold, identity in (
            ("xor", te.bitwise_xor, np.bitwise_xor, 0),
            ("or", te.bitwise_or, np.bitwise_or, 0),
            ("and", te.bitwise_and, np.bitwise_and, ones),
        ):
            own = te.comm_reducer(combine, lambda t, value=identity: te.const(value, t), name)
            found.append((own, fold))
    return draw.choice(found)


def _best(larger: bool) -> tuple[Reducer, Fold]:
    """The reduction of (place, value) to the better value; of equal values to the first place."""

    def combine(x: tuple[Var, Var], y: tuple[Var, Var]) -> tuple[Expr, Expr]:
        beats = x[1] > y[1] if larger else x[1] < y[1]
        better = te.any(beats, te.all(op.eq(x[1], y[1]), x[0] <= y[0]))
        return te.select(better, x[0], y[0]), te.select(better, x[1], y[1])

    def identity(place: DType, value: DType) -> tuple[Expr, Expr]:
        return te.max_value(place), te.min_value(value) if larger else te.max_value(value)

    def fold(x: tuple[Array, Array], y: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = (v[1].astype(np.float32) if v[1].dtype.isbuiltin != 1 else v[1] for v in (x, y))
        better = (a > b if larger else a < b) | ((a == b) & (x[0] <= y[0]))
        return np.where(better, x[0], y[0]), np.where(better, x[1], y[1])

    return te.comm_reducer(combine, identity, "best"), fold
