"""Random recurrences of one or two states, with stages inside a step, computed by NumPy, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, Var
from kit.random_reads import Reads
from kit.random_stages import Extents, Shape
from kit.random_values import INTS, Source
from kit.types import Array

Step = Callable[[int, Sequence[Array], Sequence[Array]], Array]
"""An array at step t, from the states so far and the earlier stages of the step."""
_COMBINES: list[tuple[Callable[..., Expr], Callable[..., Array]]] = [
    *((op.add, np.add), (op.sub, np.subtract), (op.mul, np.multiply)),
    *((op.max_, np.maximum), (op.min_, np.minimum), (te.bitwise_xor, np.bitwise_xor)),
]


def random_scan(extents: Extents, sources: Sequence[Source], name: str) -> list[Source]:
    """The states of a random recurrence of integers."""
    draw = extents.draw
    steps = draw.choice((2, 3, 5, 8))
    first = draw.choice((1, 1, 2)) if steps > 2 else 1
    shape = tuple(draw.choice((1, 2, 3, 5, 8)) for _ in range(draw.choice((1, 1, 2))))
    scan = _Scan(extents, sources, name, steps, first, shape, draw.choice(INTS))
    return scan.sources()


@dataclass
class _Scan:
    extents: Extents
    reads: Sequence[Source]
    name: str
    steps: int
    first: int
    shape: Shape
    dtype: str
    states: list[Tensor] = field(default_factory=list)
    inner: list[tuple[Tensor, Step]] = field(default_factory=list)

    @property
    def whole(self) -> Shape:
        return self.steps, *self.shape

    def sources(self) -> list[Source]:
        draw = self.extents.draw
        numbers = range(draw.choice((1, 1, 2)))
        self.states = [
            te.placeholder(self.whole, self.dtype, name=f"{self.name}_state{n}") for n in numbers
        ]
        begun = [self.begin(f"{self.name}_init{n}") for n in numbers]
        for n in range(draw.choice((0, 0, 1, 2))):
            self.inner.append(self.step(f"{self.name}_inner{n}", summed=draw.random() < 0.3))
        updates = [self.step(f"{self.name}_update{n}", draw.random() < 0.2) for n in numbers]
        name = f"{self.name}_scan"
        found = te.scan([b.tensor for b in begun], [t for t, _ in updates], self.states, name=name)
        arrays = [np.zeros(self.whole, DType(self.dtype).numpy) for _ in numbers]
        for array, start in zip(arrays, begun, strict=True):
            array[: self.first] = start.array
        for t in range(self.first, self.steps):
            left: list[Array] = []
            for _, step in self.inner:
                left.append(step(t, arrays, left))
            for array, new in zip(arrays, [step(t, arrays, left) for _, step in updates]):
                array[t] = new
        tensors = found if isinstance(found, list) else [found]
        return [Source(t, array) for t, array in zip(tensors, arrays, strict=True)]

    def begin(self, name: str) -> Source:
        """The initial steps of a state."""
        shape = self.first, *self.shape
        arrays: list[Array] = []

        def value(*axes: Var) -> Expr:
            found = self.over(axes, shape).of(self.dtype, 1)
            arrays.append(np.broadcast_to(found.array, shape))
            return found.expr

        return Source(te.compute(shape, value, name=name), arrays[0])

    def over(self, axes: Sequence[Var], shape: Shape) -> Reads:
        each = [(axis, 0, extent) for axis, extent in zip(axes, shape, strict=True)]
        return Reads(self.extents.draw, each, self.reads, self.extents.sizes)

    def step(self, name: str, summed: bool) -> tuple[Tensor, Step]:
        """A stage of a step, over earlier states, earlier stages of the step and other tensors."""
        draw = self.extents.draw
        times = draw.choice((2, 3))
        k = te.reduce_axis((0, times), name="k")
        made: list[Step] = []

        def value(*axes: Var) -> Expr:
            a, step_a = self.element(axes)
            other = self.over(axes, self.whole).of(self.dtype, 1)
            array = np.broadcast_to(other.array, self.whole)
            combine, of_arrays = draw.choice(_COMBINES)
            expr = combine(a, other.expr)
            step: Step = lambda t, states, left: of_arrays(step_a(t, states, left), array[t])  # noqa: E731
            if draw.random() < 0.4:
                b, step_b = self.element(axes)
                again, of_both = draw.choice(_COMBINES)
                expr, before = again(expr, b), step
                step = lambda t, states, left: of_both(  # noqa: E731
                    before(t, states, left), step_b(t, states, left)
                )
            if summed:
                term, factor = step, np.arange(times).sum().astype(DType(self.dtype).numpy)
                step = lambda t, states, left: term(t, states, left) * factor  # noqa: E731
                expr = te.sum(expr * te.cast(self.dtype, k.var), axis=k)
            made.append(step)
            return expr

        return te.compute(self.whole, value, name=name), made[0]

    def element(self, axes: Sequence[Var]) -> tuple[Expr, Step]:
        """An element of a state at an earlier step, or of a stage of this step."""
        draw, (time, *rest) = self.extents.draw, axes
        found = [self.within(axis, extent) for axis, extent in zip(rest, self.shape)]
        indices, places = [i for i, _ in found], np.ix_(*(at for _, at in found))
        if self.inner and draw.random() < 0.6:
            which = draw.randrange(len(self.inner))
            tensor, _ = self.inner[which]
            return tensor[(time, *indices)], lambda t, states, left: left[which][places]
        which, back = draw.randrange(len(self.states)), draw.randrange(1, self.first + 1)
        state = self.states[which][(time - back, *indices)]
        return state, lambda t, states, left: states[which][t - back][places]

    def within(self, axis: Var, extent: int) -> tuple[Expr, Array]:
        """An index of one axis, and its values at all points of the axis."""
        draw, at = self.extents.draw, np.arange(extent)
        way = draw.random()
        if way < 0.6:
            return op.as_expr(axis), at
        if way < 0.8:
            return extent - 1 - axis, extent - 1 - at
        if way < 0.9:
            return op.floormod(axis + 1, extent), (at + 1) % extent
        one = draw.randrange(extent)
        return op.const(one), np.full(extent, one)
