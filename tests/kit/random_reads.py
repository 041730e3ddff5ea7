"""Random values that read elements anywhere.

Indices are sums, quotients and remainders of axes, values from memory, and values in types in which
they wrap. As in `kit.random_values`, each index is drawn together with the positions that NumPy
reads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from autosched import te
from autosched.tir import op
from autosched.tir.expr import Expr, Var
from kit.random_values import WRAPPING, Source, Value, Values, converted
from kit.types import Array

Place = tuple[Expr, Array]
Axis = tuple[Expr, int, int]
"""A variable, its first value and its end."""
NARROW = ("int8", "uint8", "int16", "uint16")


class Reads(Values):
    """Draws values over `axes` from sources of any shape; `sizes` has the symbolic extents.

    Quotients of floats are not drawn, because loops may share the divisor.
    """

    def __init__(
        self,
        draw: random.Random,
        axes: Sequence[Axis],
        sources: Sequence[Source],
        sizes: Mapping[int, Var],
    ) -> None:
        shape = tuple(high - low for _, low, high in axes)
        super().__init__(draw, [a for a, _, _ in axes], shape, sources, [low for _, low, _ in axes])
        self.sizes = sizes

    def place(self) -> Place:
        return super().place() if self.draw.random() < 0.4 else self.linear()

    def divisor(self) -> Value | None:
        return None

    def read(self, source: Source, depth: int = 2) -> Value:
        """An element at any indices, which are data nested up to `depth` times."""
        found = [self.index(extent, depth) for extent in source.array.shape]
        places = tuple(np.broadcast_to(at, self.shape) for _, at in found)
        array = source.array[places] if places else np.broadcast_to(source.array, self.shape)
        return Value(source.tensor[tuple(index for index, _ in found)], array)

    def guarded(self, source: Source) -> Value:
        """An element that exists for some points only, under a condition that says for which."""
        inside = np.ones(self.shape, bool)
        indices: list[Expr] = []
        places: list[Array] = []
        conditions: list[Expr] = []
        for extent in source.array.shape:
            index, at = self.index(extent) if self.draw.random() < 0.4 else self.linear()
            if at.min() < 0 or at.max() >= extent:
                if self.draw.random() < 0.3:
                    step = self.draw.choice((2, 3))
                    conditions.append(op.eq(op.floormod(index, step), 0))
                    inside &= at % step == 0
                    index, at = op.floordiv(index, step), at // step
                if at.min() < 0:
                    conditions.append(index >= 0)
                if at.max() >= extent:
                    conditions.append(index < extent)
                inside &= (at >= 0) & (at < extent)
            indices.append(index)
            places.append(np.broadcast_to(at, self.shape).clip(0, extent - 1))
        return self._where(source, indices, places, conditions, inside)

    # -- indices

    def linear(self) -> Place:
        """A random sum of multiples of axes."""
        number = self.draw.randrange(-3, 4)
        found: Place = op.const(number), np.full(self.shape, number)
        for axis, at in zip(self.axes, self.points, strict=True):
            if self.draw.random() < 0.7:
                factor = self.draw.choice((1, 1, 1, 2, -1, 3, -2))
                found = found[0] + axis * factor, found[1] + at * factor
        return found

    def index(self, extent: int, depth: int = 2) -> Place:
        """An index into a dimension of this extent."""
        if extent in self.sizes and self.draw.random() < 0.6:
            return self._of_size(extent, self.sizes[extent])
        ways: list[Callable[[int, int], Place | None]] = [self._axis] * 5
        ways += [self._mirrored, self._one]
        if depth:
            ways += [self._spaced, self._repeated, self._cut, self._clipped, self._chosen]
            ways += [self._wide, self._truncated, self._wrapped, self._wrapped]
            ways += [self._gathered] * 4 + [self._narrow] * 3
        return self.draw.choice(ways)(extent, depth - 1) or self._wrapped(extent, depth)

    def _axis(self, extent: int, _: int) -> Place | None:
        fits = [k for k, at in enumerate(self.points) if at.max() < extent]
        fits = [k for k in fits if self.points[k].max() == extent - 1] or fits
        if not fits:
            return None
        which = self.draw.choice(fits)
        return self.axes[which], self.points[which]

    def _mirrored(self, extent: int, depth: int) -> Place | None:
        found = self._axis(extent, depth)
        return None if found is None else (extent - 1 - found[0], extent - 1 - found[1])

    def _one(self, extent: int, _: int) -> Place:
        number = self.draw.randrange(extent)
        return op.const(number), np.full(self.shape, number)

    def _spaced(self, extent: int, _: int) -> Place | None:
        axis, at = super().place()
        last = int(at.max())
        most = (extent - 1) // last if last else 0
        if not most:
            return None
        step = self.draw.randrange(1, most + 1)
        first = self.draw.randrange(extent - step * last)
        if self.draw.random() < 0.3:
            return (extent - 1 - first) - axis * step, (extent - 1 - first) - at * step
        return axis * step + first, at * step + first

    def _repeated(self, extent: int, _: int) -> Place:
        axis, at = super().place()
        times = int(at.max()) // extent + 1
        return axis // times, at // times

    def _wrapped(self, extent: int, _: int) -> Place:
        index, at = self.linear()
        return op.floormod(index, extent), at % extent

    def _cut(self, extent: int, _: int) -> Place:
        index, at = self.linear()
        parts = self.draw.choice((2, 3, 4))
        return op.floormod(op.floordiv(index, parts), extent), (at // parts) % extent

    def _clipped(self, extent: int, _: int) -> Place:
        return _within(self.linear(), extent)

    def _chosen(self, extent: int, depth: int) -> Place:
        condition = self.on_axes()
        (a, at_a), (b, at_b) = self.index(extent, depth), self.index(extent, depth)
        choose = self.draw.choice((te.select, te.if_then_else))
        return choose(condition.expr, a, b), np.where(condition.array, at_a, at_b)

    def _gathered(self, extent: int, depth: int) -> Place | None:
        """Data of any integer type as an index: unchanged if it fits, else wrapped or clipped."""
        found = [s for s in self.sources if s.array.dtype.kind in "iu"]
        if not found:
            return None
        value = self.read(self.draw.choice(found), depth)
        if int(value.array.min()) >= 0 and int(value.array.max()) < extent:
            return value.expr, value.array.astype(np.int64)
        if self.draw.random() < 0.4:
            value = Value(*self._wrapping((value.expr, value.array)))
        return self._held((value.expr, value.array), extent)

    def _wide(self, extent: int, depth: int) -> Place:
        index, at = self.index(extent, depth)
        return te.cast("int64", index), at

    def _truncated(self, extent: int, _: int) -> Place:
        index, at = self.linear()
        parts = self.draw.choice((2, 3, 5))
        toward_zero = np.fix(at / parts).astype(int)
        index = op.truncmod(op.truncdiv(index, parts), extent)
        return te.abs(index), np.abs(np.fmod(toward_zero, extent))

    def _narrow(self, extent: int, _: int) -> Place:
        """An index computed in a narrow type, in which it wraps."""
        index, at = super().place() if self.draw.random() < 0.5 else self.linear()
        dtype = self.draw.choice(NARROW)
        place: Place = te.cast(dtype, index), converted(at, dtype)
        for _ in range(self.draw.randrange(3)):
            place = self._wrapping(place)
        if self.draw.random() < 0.2 and extent < 100:
            index, at = place
            return op.floormod(index, te.const(extent, dtype)), at % np.array(extent, dtype)
        return self._held(place, extent)

    def _wrapping(self, place: Place) -> Place:
        """A sum, difference or product with a constant of the same type."""
        index, at = place
        number = self.draw.choice((1, 7, 40, 100, 127))
        other: Place = te.const(number, index.dtype), np.array(number, at.dtype)
        if self.draw.random() < 0.3:
            place, other = other, place
        function, of_arrays = self.draw.choice(WRAPPING)
        return function(place[0], other[0]), of_arrays(place[1], other[1])

    def _held(self, place: Place, extent: int) -> Place:
        """The index clipped to the dimension or taken modulo its extent, in an index type."""
        dtype = self.draw.choice(("int32", "int32", "int64"))
        index, at = te.cast(dtype, place[0]), converted(place[1], dtype)
        if self.draw.random() < 0.4:
            return op.floormod(index, extent), at % extent
        return _within((index, at), extent)

    def _of_size(self, extent: int, size: Var) -> Place:
        """An index that uses a symbolic extent."""
        fits = self._axis(extent, 0)
        way = self.draw.randrange(6)
        if way < 2 and fits is not None:
            axis, at = fits
            return (axis, at) if way else (size - 1 - axis, extent - 1 - at)
        index, at = self.linear()
        if way == 2:
            return _within((index, at), extent, size)
        if way == 3:
            return op.floormod(op.floordiv(index, size), size), (at // extent) % extent
        if way == 4:
            doubled = op.floormod(index * 3, size * 2)
            return op.floordiv(doubled, 2), ((at * 3) % (2 * extent)) // 2
        return op.floormod(index, size), at % extent


def _within(place: Place, extent: int, size: Expr | None = None) -> Place:
    """The index clipped to the dimension."""
    index, at = place
    last = extent - 1 if size is None else size - 1
    return op.max_(op.min_(index, last), 0), at.clip(0, extent - 1)
