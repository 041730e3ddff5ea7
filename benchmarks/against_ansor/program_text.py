"""Programs of te that are being drawn, as Python text that both sides run; imports neither."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar, NamedTuple, Self

Size = int | str
"""A length, or the name of one that only the call gives."""


class Named(NamedTuple):
    """A tensor by its name in the program."""

    name: str
    shape: tuple[Size, ...]
    dtype: str = ""
    """Empty: that of the program."""


class Program:
    """Lines of a program, and the tensors that they make."""

    sizes: ClassVar[tuple[int, ...]] = ()
    ranks: ClassVar[tuple[int, ...]] = (1, 2, 2, 3)
    binary: ClassVar[tuple[str, ...]] = ()
    """Forms of two operands."""
    largest: ClassVar[int] = 1 << 18
    """Elements of one tensor, at most."""

    def __init__(self, rng: random.Random, dtype: str = "float32") -> None:
        self.rng, self.dtype = rng, dtype
        self.lines: list[str] = []
        self.made: list[Named] = []
        self.inputs: list[Named] = []
        self.read: set[str] = set()
        self.hidden: set[str] = set()

    def grow(self, makers: Sequence[tuple[Callable[[Any], None], int]], most: int) -> Self:
        """With one to `most` stages, which functions make that are drawn by their weights."""
        functions, weights = zip(*makers, strict=True)
        wanted = self.rng.randint(1, most)
        while len(self.made) - len(self.inputs) < wanted:
            self.rng.choices(functions, weights)[0](self)
        return self

    def size(self) -> Size:
        """A length."""
        return self.rng.choice(self.sizes)

    def const(self, value: float, dtype: str = "") -> str:
        """A number of a type, by default the program's."""
        return f"const({value}, {dtype or self.dtype!r})"

    def placeholder(self, shape: Sequence[Size], dtype: str = "", operand: bool = True) -> Named:
        """A new input, by default of the program's type; others may draw it as an `operand`."""
        tensor = Named(f"I{len(self.inputs)}", tuple(shape), dtype)
        given = f"{as_tuple(shape)}, {dtype or self.dtype!r}, name={tensor.name!r}"
        self.lines.append(f"{tensor.name} = te.placeholder({given})")
        self.inputs.append(tensor)
        if operand:
            self.made.append(tensor)
        return tensor

    def some(self, rank: int | None = None, known: bool = False) -> Named:
        """A tensor that exists, most often the last, or a new input; `known`: of numbers alone."""
        fits = [
            t
            for t in self.made
            if rank in (None, len(t.shape))
            and not (known and any(isinstance(n, str) for n in t.shape))
            and t.name not in self.hidden
        ]
        if not fits or self.rng.random() < 0.1:
            rank = rank or self.rng.choice(self.ranks)
            while True:
                shape = [self.rng.choice(self.sizes) if known else self.size() for _ in range(rank)]
                if self.fits(shape):
                    return self.placeholder(shape)
        return fits[-1] if self.rng.random() < 0.7 else self.rng.choice(fits)

    def fits(self, shape: Sequence[Size]) -> bool:
        """Whether a tensor may be that large."""
        return prod(n for n in shape if isinstance(n, int)) <= self.largest

    def like(self, shape: tuple[Size, ...]) -> Named:
        """A tensor of this shape."""
        fits = [t for t in self.made if t.shape == shape and t.name not in self.hidden]
        some = fits and self.rng.random() < 0.5
        return self.rng.choice(fits) if some else self.placeholder(shape)

    def compute(
        self,
        shape: Sequence[Size],
        body: str,
        reads: Sequence[Named],
        reduced: Sequence[tuple[str, Size]] = (),
        reducer: str = "",
        where: str = "",
        dtype: str = "",
    ) -> None:
        """A stage; its axes are `i0`, `i1` ..., and `$k` in the body is the reduced axis `k`.

        `dtype` is the type of the body, by default that of what it reads first.
        """
        name = f"S{len(self.made)}"
        axes = ", ".join(f"i{k}" for k in range(len(shape)))
        for axis, length in reduced:
            self.lines.append(f"{name}_{axis} = te.reduce_axis((0, {length}), name='{axis}')")
            body = body.replace(f"${axis}", f"{name}_{axis}")
            where = where.replace(f"${axis}", f"{name}_{axis}")
        if reducer:
            over = ", ".join(f"{name}_{a}" for a, _ in reduced)
            guard = f", where={where}" if where else ""
            body = f"{reducer}({body}, axis=[{over}]{guard})"
        line = f"{name} = te.compute({as_tuple(shape)}, lambda {axes}: {body}, name={name!r})"
        self.lines.append(line)
        self.read |= {t.name for t in reads}
        self.made.append(Named(name, tuple(shape), dtype or reads[0].dtype))


Maker = Callable[[Program], None]


def as_tuple(shape: Sequence[Size]) -> str:
    """The shape as Python text."""
    return f"({', '.join(map(str, shape))},)"


def at(tensor: Named, indices: Sequence[str] | None = None) -> str:
    """An element, by default that of the axes in order."""
    indices = [f"i{k}" for k in range(len(tensor.shape))] if indices is None else indices
    return f"{tensor.name}[{', '.join(indices)}]"


def numbers(tensor: Named) -> list[int]:
    """Its lengths, where they are known."""
    return [int(n) for n in tensor.shape]


def some_axes(p: Program, tensor: Named) -> list[int]:
    """One of its axes or more, in order."""
    rank = len(tensor.shape)
    return sorted(p.rng.sample(range(rank), p.rng.randint(1, rank)))


def binary(p: Program) -> None:
    """Of two tensors. Those of a tensor and itself are simplified by both sides, not alike."""
    x = p.some()
    y = p.like(x.shape)
    if y != x:
        p.compute(x.shape, p.rng.choice(p.binary).format(at(x), at(y)), [x, y])


def broadcast(p: Program) -> None:
    """Of a tensor and one of some of its axes."""
    x = p.some()
    axes = some_axes(p, x)
    y = p.like(tuple(x.shape[a] for a in axes))
    if y != x:
        body = p.rng.choice(p.binary).format(at(x), at(y, [f"i{a}" for a in axes]))
        p.compute(x.shape, body, [x, y])


def transpose(p: Program) -> None:
    """Axis k of the result is axis `order[k]`."""
    x = p.some()
    order = p.rng.sample(range(len(x.shape)), len(x.shape))
    indices = [f"i{order.index(a)}" for a in range(len(order))]
    p.compute([x.shape[a] for a in order], at(x, indices), [x])


def mirror(p: Program) -> None:
    """One axis backwards."""
    x = p.some()
    axis = p.rng.randrange(len(x.shape))
    indices = [f"{n} - 1 - i{a}" if a == axis else f"i{a}" for a, n in enumerate(x.shape)]
    p.compute(x.shape, at(x, indices), [x])


def pad(p: Program) -> None:
    """A border of zeros."""
    x = p.some(known=True)
    axes, lengths = some_axes(p, x), numbers(x)
    width = p.rng.choice((1, 1, 2, 3))
    shape = [n + 2 * width if a in axes else n for a, n in enumerate(lengths)]
    if p.fits(shape):
        inside = ", ".join(f"i{a} >= {width}, i{a} < {lengths[a] + width}" for a in axes)
        indices = [f"i{a} - {width}" if a in axes else f"i{a}" for a in range(len(shape))]
        zero = p.const(0, x.dtype)
        p.compute(shape, f"te.if_then_else(all({inside}), {at(x, indices)}, {zero})", [x])


def part(p: Program) -> None:
    """Each, each second or each third element from some place on."""
    x = p.some(known=True)
    step, lengths = p.rng.choice((1, 2, 3)), numbers(x)
    shape = [max(1, (n - 1) // step) for n in lengths]
    first = [p.rng.randint(0, n - (m - 1) * step - 1) for n, m in zip(lengths, shape, strict=True)]
    p.compute(shape, at(x, [f"i{a} * {step} + {k}" for a, k in enumerate(first)]), [x])


def flatten(p: Program) -> None:
    """All axes as one."""
    x = p.some(known=True)
    indices, inner = [], prod(numbers(x))
    for n in numbers(x):
        inner //= n
        indices.append(f"floormod(floordiv(i0, {inner}), {n})")
    p.compute([prod(numbers(x))], at(x, indices), [x])


def fold(p: Program) -> None:
    """One axis as two."""
    x = p.some(known=True)
    axis, lengths = p.rng.randrange(len(x.shape)), numbers(x)
    length = lengths[axis]
    d = p.rng.choice([d for d in range(1, length + 1) if length % d == 0])
    indices = [f"i{a}" for a in range(axis)]
    indices.append(f"i{axis} * {d} + i{axis + 1}")
    indices += [f"i{a + 1}" for a in range(axis + 1, len(lengths))]
    p.compute([*lengths[:axis], length // d, d, *lengths[axis + 1 :]], at(x, indices), [x])


MOVES: tuple[tuple[Maker, int], ...] = (
    (transpose, 1),
    (mirror, 1),
    (pad, 2),
    (part, 1),
    (flatten, 1),
    (fold, 1),
)
"""What programs of any types may have, and how often."""
MAKERS: tuple[tuple[Maker, int], ...] = ((binary, 3), (broadcast, 3), *MOVES)
"""What all programs of one type may have."""
