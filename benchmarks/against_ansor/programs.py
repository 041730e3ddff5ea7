"""Random graphs of stages as te programs that both sides run (program_text.py).

The text makes `tensors`, the arguments of an operator; it uses what `NAMES` has.
"""

from __future__ import annotations

import random
from typing import Any, ClassVar

from program_text import MAKERS, Maker, Program, at, numbers, some_axes

from autosched import te
from autosched.te.operations.tensor import Tensor

NAMES: dict[str, Any] = {
    "te": te,
    "const": te.const,
    "select": te.select,
    "all": te.all,
    "any": te.any,
    "ne": te.ne,
    "floordiv": te.floordiv,
    "floormod": te.floormod,
}
"""What the text of a program may use."""
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
REDUCERS = ("te.sum", "te.sum", "te.max", "te.min")


class Graph(Program):
    """A graph of float32."""

    sizes: ClassVar[tuple[int, ...]] = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 24, 32, 33, 64, 100)
    ranks: ClassVar[tuple[int, ...]] = (1, 2, 2, 3, 4)
    binary: ClassVar[tuple[str, ...]] = BINARY

    def text(self) -> str:
        """The program; what nothing reads are its results."""
        results = [t for t in self.made if t.name not in self.read and t not in self.inputs]
        names = [t.name for t in self.inputs if t.name in self.read] + [t.name for t in results]
        return "\n".join([*self.lines, f"tensors = [{', '.join(names)}]"])


def _unary(p: Program) -> None:
    x = p.some()
    form = p.rng.choice(UNARY)
    p.compute(x.shape, form.format(at(x)), [x])


def _reduce(p: Program) -> None:
    x = p.some()
    axes = some_axes(p, x)
    kept = [a for a in range(len(x.shape)) if a not in axes]
    indices = [f"$k{a}" if a in axes else f"i{kept.index(a)}" for a in range(len(x.shape))]
    body = at(x, indices)
    if p.rng.random() < 0.3:
        body = f"{body} * {body}"
    reduced = [(f"k{a}", x.shape[a]) for a in axes]
    p.compute([x.shape[a] for a in kept] or [1], body, [x], reduced, p.rng.choice(REDUCERS))


def _product(p: Program) -> None:
    x = p.some(2) if p.rng.random() < 0.7 else p.some(3)
    *batch, rows, depth = numbers(x)
    columns = p.rng.choice(p.sizes)
    if not (p.fits((*batch, depth, columns)) and p.fits((*batch, rows, columns))):
        return
    turned = p.rng.random() < 0.5
    y = p.like((*batch, columns, depth) if turned else (*batch, depth, columns))
    before = [f"i{a}" for a in range(len(batch))]
    row, column = f"i{len(batch)}", f"i{len(batch) + 1}"
    left = at(x, [*before, row, "$k"])
    right = at(y, [*before, column, "$k"] if turned else [*before, "$k", column])
    p.compute((*batch, rows, columns), f"{left} * {right}", [x, y], [("k", depth)], "te.sum")


def _window(p: Program) -> None:
    """A convolution along the last axis but one, or a pooling."""
    x = p.some(3)
    n, length, channels = numbers(x)
    kernel = p.rng.randint(1, min(5, length))
    stride, outs = p.rng.choice((1, 1, 2)), p.rng.choice(p.sizes[:12])
    out = (length - kernel) // stride + 1
    place = f"i1 * {stride} + $rw"
    if p.rng.random() < 0.3:
        body = at(x, ["i0", place, "i2"])
        reducer = p.rng.choice(("te.max", "te.sum"))
        p.compute((n, out, channels), body, [x], [("rw", kernel)], reducer)
        return
    w = p.placeholder((kernel, channels, outs))
    body = f"{at(x, ['i0', place, '$rc'])} * {at(w, ['$rw', '$rc', 'i2'])}"
    p.compute((n, out, outs), body, [x, w], [("rw", kernel), ("rc", channels)], "te.sum")


OWN: tuple[tuple[Maker, int], ...] = ((_unary, 4), (_reduce, 3), (_product, 4), (_window, 2))


def tensors(text: str) -> list[Tensor]:
    """What the program makes with autosched.te."""
    names = dict(NAMES)
    exec(text, names)
    found: list[Tensor] = names["tensors"]
    return found


def drawn(seed: int, kind: type[Graph] = Graph) -> str:
    """The program of a seed: one to six stages."""
    return kind(random.Random(seed)).grow((*MAKERS, *OWN), 6).text()
