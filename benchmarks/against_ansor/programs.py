"""Random programs of te as Python text that means the same to autosched.te and to TVM's te.

The text makes `tensors`, the arguments of an operator; it may use `te`, `const`, `select`, `all`,
`floordiv` and `floormod`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from autosched import te
from autosched.te.operations.tensor import Tensor

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 24, 32, 33, 64, 100)
LARGEST = 1 << 18
"""Elements of one tensor, at most."""
UNARY = (
    "te.exp({0})",
    "te.sqrt(te.abs({0}))",
    "te.tanh({0})",
    "te.sigmoid({0})",
    "te.max({0}, const(0.0, 'float32'))",
    "te.min({0}, const(6.0, 'float32'))",
    "{0} * const(0.125, 'float32') + const(0.1, 'float32')",
    "const(1.0, 'float32') / ({0} * {0} + const(1.0, 'float32'))",
    "select({0} > const(0.0, 'float32'), {0}, {0} * const(0.01, 'float32'))",
    "{0} - te.floor({0})",
)
BINARY = (
    "{0} + {1}",
    "{0} - {1}",
    "{0} * {1}",
    "te.max({0}, {1})",
    "{0} / ({1} * {1} + const(1e-05, 'float32'))",
    "select({0} < {1}, {0}, {1})",
)
REDUCERS = ("sum", "sum", "max", "min")


class Named(NamedTuple):
    """A tensor by its name in the program."""

    name: str
    shape: tuple[int, ...]


class Program:
    """Lines of a program that is being drawn."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.made: list[Named] = []
        self.inputs: list[Named] = []
        self.read: set[str] = set()

    def text(self) -> str:
        """The program; what nothing reads are its results."""
        results = [t for t in self.made if t.name not in self.read and t not in self.inputs]
        names = [t.name for t in (*self.inputs, *results) if t in results or t.name in self.read]
        return "\n".join([*self.lines, f"tensors = [{', '.join(names)}]"])

    def placeholder(self, shape: Sequence[int]) -> Named:
        """A new input."""
        tensor = Named(f"I{len(self.inputs)}", tuple(shape))
        self.lines.append(
            f"{tensor.name} = te.placeholder({tensor.shape}, 'float32', name={tensor.name!r})"
        )
        self.inputs.append(tensor)
        self.made.append(tensor)
        return tensor

    def some(self, rank: int | None = None) -> Named:
        """A tensor that exists, most often the last, or a new input."""
        fits = [t for t in self.made if rank in (None, len(t.shape))]
        if not fits or self.rng.random() < 0.1:
            rank = rank or self.rng.choice((1, 2, 2, 3, 4))
            while True:
                shape = [self.rng.choice(SIZES) for _ in range(rank)]
                if prod(shape) <= LARGEST:
                    return self.placeholder(shape)
        return fits[-1] if self.rng.random() < 0.7 else self.rng.choice(fits)

    def like(self, shape: tuple[int, ...]) -> Named:
        """A tensor of this shape."""
        fits = [t for t in self.made if t.shape == shape]
        return (
            self.rng.choice(fits) if fits and self.rng.random() < 0.5 else self.placeholder(shape)
        )

    def compute(
        self,
        shape: Sequence[int],
        body: str,
        reads: Sequence[Named],
        reduced: Sequence[tuple[str, int]] = (),
        reducer: str = "",
        attrs: str = "",
    ) -> None:
        """A stage; its axes are `i0`, `i1` ..."""
        name = f"S{len(self.made)}"
        axes = ", ".join(f"i{k}" for k in range(len(shape)))
        for axis, length in reduced:
            self.lines.append(f"{name}_{axis} = te.reduce_axis((0, {length}), name='{axis}')")
            body = body.replace(f"${axis}", f"{name}_{axis}")
        if reducer:
            body = f"te.{reducer}({body}, axis=[{', '.join(f'{name}_{a}' for a, _ in reduced)}])"
        self.lines.append(
            f"{name} = te.compute({tuple(shape)}, lambda {axes}: {body}, name={name!r}{attrs})"
        )
        self.read |= {t.name for t in reads}
        self.made.append(Named(name, tuple(shape)))


def _at(tensor: Named, indices: Sequence[str] | None = None) -> str:
    indices = [f"i{k}" for k in range(len(tensor.shape))] if indices is None else indices
    return f"{tensor.name}[{', '.join(indices)}]"


def _unary(p: Program) -> None:
    x = p.some()
    form = p.rng.choice(UNARY)
    p.compute(x.shape, form.format(_at(x)), [x])


def _binary(p: Program) -> None:
    x = p.some()
    y = p.like(x.shape)
    if y == x:  # simplified by both, not alike: x - x is 0 to TVM, also of infinities
        return
    p.compute(x.shape, p.rng.choice(BINARY).format(_at(x), _at(y)), [x, y])


def _broadcast(p: Program) -> None:
    x = p.some()
    axes = sorted(p.rng.sample(range(len(x.shape)), p.rng.randint(1, len(x.shape))))
    y = p.like(tuple(x.shape[a] for a in axes))
    if y == x:
        return
    body = p.rng.choice(BINARY).format(_at(x), _at(y, [f"i{a}" for a in axes]))
    p.compute(x.shape, body, [x, y])


def _transpose(p: Program) -> None:
    x = p.some()
    order = p.rng.sample(range(len(x.shape)), len(x.shape))  # axis k of the result is order[k]
    at = [f"i{order.index(a)}" for a in range(len(order))]
    p.compute([x.shape[a] for a in order], _at(x, at), [x])


def _mirror(p: Program) -> None:
    x = p.some()
    axis = p.rng.randrange(len(x.shape))
    at = [f"{n - 1} - i{a}" if a == axis else f"i{a}" for a, n in enumerate(x.shape)]
    p.compute(x.shape, _at(x, at), [x])


def _pad(p: Program) -> None:
    x = p.some()
    axes = sorted(p.rng.sample(range(len(x.shape)), p.rng.randint(1, len(x.shape))))
    width = p.rng.choice((1, 1, 2, 3))
    shape = [n + 2 * width if a in axes else n for a, n in enumerate(x.shape)]
    if prod(shape) > LARGEST:
        return
    inside = ", ".join(f"i{a} >= {width}, i{a} < {x.shape[a] + width}" for a in axes)
    at = [f"i{a} - {width}" if a in axes else f"i{a}" for a in range(len(shape))]
    body = f"te.if_then_else(all({inside}), {_at(x, at)}, const(0.0, 'float32'))"
    p.compute(shape, body, [x])


def _slice(p: Program) -> None:
    x = p.some()
    step = p.rng.choice((1, 2, 3))
    shape = [max(1, (n - 1) // step) for n in x.shape]
    first = [p.rng.randint(0, n - (m - 1) * step - 1) for n, m in zip(x.shape, shape, strict=True)]
    at = [f"i{a} * {step} + {first[a]}" for a in range(len(shape))]
    p.compute(shape, _at(x, at), [x])


def _flatten(p: Program) -> None:
    x = p.some()
    at, inner = [], prod(x.shape)
    for n in x.shape:
        inner //= n
        at.append(f"floormod(floordiv(i0, {inner}), {n})")
    p.compute([prod(x.shape)], _at(x, at), [x])


def _fold(p: Program) -> None:
    """One axis as two."""
    x = p.some()
    axis = p.rng.randrange(len(x.shape))
    divisors = [d for d in range(1, x.shape[axis] + 1) if x.shape[axis] % d == 0]
    d = p.rng.choice(divisors)
    shape = [*x.shape[:axis], x.shape[axis] // d, d, *x.shape[axis + 1 :]]
    at = [f"i{a}" for a in range(axis)]
    at.append(f"i{axis} * {d} + i{axis + 1}")
    at += [f"i{a + 1}" for a in range(axis + 1, len(x.shape))]
    p.compute(shape, _at(x, at), [x])


def _reduce(p: Program) -> None:
    x = p.some()
    axes = sorted(p.rng.sample(range(len(x.shape)), p.rng.randint(1, len(x.shape))))
    kept = [a for a in range(len(x.shape)) if a not in axes]
    at = [f"$k{a}" if a in axes else f"i{kept.index(a)}" for a in range(len(x.shape))]
    body = _at(x, at)
    if p.rng.random() < 0.3:
        body = f"{body} * {body}"
    reduced = [(f"k{a}", x.shape[a]) for a in axes]
    p.compute([x.shape[a] for a in kept] or [1], body, [x], reduced, p.rng.choice(REDUCERS))


def _product(p: Program) -> None:
    x = p.some(2) if p.rng.random() < 0.7 else p.some(3)
    *batch, rows, depth = x.shape
    columns = p.rng.choice(SIZES)
    if prod((*batch, depth, columns)) > LARGEST or prod((*batch, rows, columns)) > LARGEST:
        return
    turned = p.rng.random() < 0.5
    y = p.like((*batch, columns, depth) if turned else (*batch, depth, columns))
    before = [f"i{a}" for a in range(len(batch))]
    row, column = f"i{len(batch)}", f"i{len(batch) + 1}"
    left = _at(x, [*before, row, "$k"])
    right = _at(y, [*before, column, "$k"] if turned else [*before, "$k", column])
    p.compute((*batch, rows, columns), f"{left} * {right}", [x, y], [("k", depth)], "sum")


def _window(p: Program) -> None:
    """A convolution along the last axis but one, or a pooling."""
    x = p.some(3)
    n, length, channels = x.shape
    kernel = p.rng.randint(1, min(5, length))
    stride, outs = p.rng.choice((1, 1, 2)), p.rng.choice(SIZES[:12])
    out = (length - kernel) // stride + 1
    at = f"i1 * {stride} + $rw"
    if p.rng.random() < 0.3:
        body = _at(x, ["i0", at, "i2"])
        reducer = p.rng.choice(("max", "sum"))
        p.compute((n, out, channels), body, [x], [("rw", kernel)], reducer)
        return
    w = p.placeholder((kernel, channels, outs))
    body = f"{_at(x, ['i0', at, '$rc'])} * {_at(w, ['$rw', '$rc', 'i2'])}"
    p.compute((n, out, outs), body, [x, w], [("rw", kernel), ("rc", channels)], "sum")


STEPS: tuple[tuple[Callable[[Program], None], int], ...] = (
    (_unary, 4),
    (_binary, 3),
    (_broadcast, 3),
    (_transpose, 1),
    (_mirror, 1),
    (_pad, 2),
    (_slice, 1),
    (_flatten, 1),
    (_fold, 1),
    (_reduce, 3),
    (_product, 4),
    (_window, 2),
)


def tensors(text: str) -> list[Tensor]:
    """What the program makes with autosched.te."""
    names: dict[str, Any] = {
        "te": te,
        "const": te.const,
        "select": te.select,
        "all": te.all,
        "floordiv": te.floordiv,
        "floormod": te.floormod,
    }
    exec(text, names)
    found: list[Tensor] = names["tensors"]
    return found


def drawn(seed: int) -> str:
    """The program of a seed: one to six stages."""
    rng = random.Random(seed)
    program = Program(rng)
    functions, weights = zip(*STEPS, strict=True)
    wanted = rng.randint(1, 6)
    while len(program.made) - len(program.inputs) < wanted:
        rng.choices(functions, weights)[0](program)
    return program.text()
