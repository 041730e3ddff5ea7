"""Random graphs of stages in many types, with casts between, in the form of programs.py.

Operands of two types meet either cast to one of them, or as they are, to be promoted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import ClassVar

from program_text import MOVES, Named, Size, at, numbers, some_axes
from programs import Graph

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
TYPES = (*FLOATS, "float16", *INTEGERS, "int8", "int8", "int32", "bool")
SUMS: dict[str, tuple[str, ...]] = {
    "float16": ("float16", "float32", "float32"),
    "float32": ("float32", "float32", "float64"),
    "float64": ("float64",),
    "int8": ("int32", "int32", "int8"),
    "uint8": ("int32", "int32", "uint8"),
    "int16": ("int32", "int16"),
    "int32": ("int32", "int32", "int64"),
    "int64": ("int64",),
    "bool": ("int32", "float32"),
}
"""The types that may be added up in."""
UNARY_OF_FLOATS = (
    "te.exp({x})",
    "te.sqrt(te.abs({x}))",
    "te.tanh({x})",
    "te.sigmoid({x})",
    "te.erf({x})",
    "te.log({x})",
    "te.max({x}, {zero})",
    "{x} * {half} + {one}",
    "{one} / ({x} * {x} + {one})",
    "select({x} > {zero}, {x}, {x} * {half})",
    "{x} - te.floor({x})",
)
UNARY_OF_INTEGERS = (
    "te.max({x}, {zero})",
    "te.abs({x})",
    "{x} >> {one}",
    "{x} & {three}",
    "~{x}",
    "te.min(te.max({x}, {one}), {three})",
)
"""Of int32 and int64, of which both sides combine no two."""
UNARY_OF_SMALL = (
    *UNARY_OF_INTEGERS,
    "{x} + {one}",
    "{x} * {three}",
    "floordiv({x}, {three})",
    "floormod({x}, {three})",
    "select({x} > {three}, {x}, {three} - {x})",
)
BINARY = ("{x} + {y}", "{x} - {y}", "{x} * {y}", "te.max({x}, {y})", "select({x} < {y}, {x}, {y})")
LOGIC = ("all({x}, {y})", "any({x}, {y})")
COMPARISONS = ("{x} < {y}", "{x} >= {y}", "ne({x}, {y})", "all({x} > {y}, {x} < {three})")


class Typed(Graph):
    """A graph whose inputs are of any type."""

    sizes: ClassVar[tuple[int, ...]] = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 24, 32, 33, 64, 100, 128)

    def placeholder(self, shape: Sequence[Size], dtype: str = "", operand: bool = True) -> Named:
        """A new input."""
        return super().placeholder(shape, dtype or self.rng.choice(TYPES), operand)

    def another(self, shape: tuple[Size, ...], dtype: str) -> Named:
        """A tensor of this shape, most often of this type."""
        if self.rng.random() < 0.3:
            dtype = self.rng.choice(TYPES)
        fits = [t for t in self.made if t.shape == shape and t.dtype == dtype]
        some = fits and self.rng.random() < 0.5
        return self.rng.choice(fits) if some else self.placeholder(shape, dtype)

    def form(self, forms: Sequence[str], dtype: str, **operands: str) -> str:
        """One of the forms, with its constants."""
        values = {"zero": 0, "one": 1, "three": 3, "half": 0.5}
        constants = {name: self.const(value, dtype) for name, value in values.items()}
        return self.rng.choice(forms).format(**operands, **constants)


def _as(dtype: str, text: str) -> str:
    return f"{text}.astype({dtype!r})"


def _operand(p: Typed, x: Named) -> tuple[str, str]:
    """An element of `x` for arithmetic, and its type."""
    if x.dtype != "bool":
        return at(x), x.dtype
    dtype = p.rng.choice(("int8", "int32", "float16", "float32"))
    return _as(dtype, at(x)), dtype


def _cast(p: Typed) -> None:
    x = p.some()
    dtype = p.rng.choice([t for t in TYPES if t not in ("bool", x.dtype)])
    p.compute(x.shape, _as(dtype, at(x)), [x], dtype=dtype)


def _unary(p: Typed) -> None:
    x = p.some()
    element, dtype = _operand(p, x)
    if dtype in FLOATS:
        forms: Sequence[str] = UNARY_OF_FLOATS
    else:
        forms = UNARY_OF_INTEGERS if dtype in ("int32", "int64") else UNARY_OF_SMALL
    p.compute(x.shape, p.form(forms, dtype, x=element), [x], dtype=dtype)


def _pair(p: Typed) -> None:
    """Arithmetic of two tensors, or of one and another of some of its axes; logic of two masks."""
    x = p.some()
    axes = list(range(len(x.shape))) if p.rng.random() < 0.5 else some_axes(p, x)
    y = p.another(tuple(x.shape[a] for a in axes), x.dtype)
    if y == x:
        return
    left, right = at(x), at(y, [f"i{a}" for a in axes])
    if x.dtype == y.dtype == "bool":
        p.compute(x.shape, p.form(LOGIC, "bool", x=left, y=right), [x, y], dtype="bool")
        return
    left, dtype = _operand(p, x)
    if y.dtype != dtype:
        right = _as(dtype, right)
    p.compute(x.shape, p.form(BINARY, dtype, x=left, y=right), [x, y], dtype=dtype)


def _promoted(p: Typed) -> None:
    """Of two tensors of two types as they are, cast to one that is known."""
    x = p.some()
    y = p.another(x.shape, p.rng.choice(TYPES))
    if "bool" in (x.dtype, y.dtype) or y == x:
        return
    dtype = p.rng.choice(TYPES[:-1])
    body = p.rng.choice(("({x} + {y})", "({x} * {y})", "te.max({x}, {y})"))
    p.compute(x.shape, _as(dtype, body.format(x=at(x), y=at(y))), [x, y], dtype=dtype)


def _compare(p: Typed) -> None:
    x = p.some()
    y = p.another(x.shape, x.dtype)
    if y == x:
        return
    left, dtype = _operand(p, x)
    right = at(y) if y.dtype == dtype else _as(dtype, at(y))
    p.compute(x.shape, p.form(COMPARISONS, dtype, x=left, y=right), [x, y], dtype="bool")


def _masked(p: Typed) -> None:
    x = p.some()
    mask = p.another(x.shape, "bool")
    element, dtype = _operand(p, x)
    if mask.dtype == "bool" and mask != x:
        chosen = p.rng.choice(("select", "te.if_then_else"))
        body = f"{chosen}({at(mask)}, {element}, {p.const(0, dtype)})"
        p.compute(x.shape, body, [x, mask], dtype=dtype)


def _reduce(p: Typed) -> None:
    x = p.some()
    axes = some_axes(p, x)
    kept = [a for a in range(len(x.shape)) if a not in axes]
    indices = [f"$k{a}" if a in axes else f"i{kept.index(a)}" for a in range(len(x.shape))]
    dtype = p.rng.choice(SUMS[x.dtype])
    body = _as(dtype, at(x, indices))
    if p.rng.random() < 0.3:
        body = f"{body} * {body}"
    reducer = p.rng.choice(("te.sum", "te.sum", "te.max", "te.min"))
    reduced = [(f"k{a}", x.shape[a]) for a in axes]
    p.compute([x.shape[a] for a in kept] or [1], body, [x], reduced, reducer, dtype=dtype)


def _product(p: Typed) -> None:
    x = p.some(p.rng.choice((2, 2, 3)))
    *batch, rows, depth = numbers(x)
    columns = p.rng.choice(p.sizes)
    if not (p.fits((*batch, depth, columns)) and p.fits((*batch, rows, columns))):
        return
    turned = p.rng.random() < 0.5
    y = p.another((*batch, columns, depth) if turned else (*batch, depth, columns), x.dtype)
    dtype = p.rng.choice(SUMS[x.dtype])
    before = [f"i{a}" for a in range(len(batch))]
    row, column = f"i{len(batch)}", f"i{len(batch) + 1}"
    left = at(x, [*before, row, "$k"])
    right = at(y, [*before, column, "$k"] if turned else [*before, "$k", column])
    body = f"{_as(dtype, left)} * {_as(dtype, right)}"
    p.compute((*batch, rows, columns), body, [x, y], [("k", depth)], "te.sum", dtype=dtype)


def _window(p: Typed) -> None:
    """A convolution along the last axis but one."""
    x = p.some(3)
    n, length, channels = numbers(x)
    kernel = p.rng.randint(1, min(5, length))
    stride, outs = p.rng.choice((1, 1, 2)), p.rng.choice(p.sizes[:12])
    out = (length - kernel) // stride + 1
    w = p.another((kernel, channels, outs), x.dtype)
    dtype = p.rng.choice(SUMS[x.dtype])
    left = _as(dtype, at(x, ["i0", f"i1 * {stride} + $rw", "$rc"]))
    right = _as(dtype, at(w, ["$rw", "$rc", "i2"]))
    reduced = [("rw", kernel), ("rc", channels)]
    p.compute((n, out, outs), f"{left} * {right}", [x, w], reduced, "te.sum", dtype=dtype)


MAKERS: tuple[tuple[Callable[[Typed], None], int], ...] = (
    *MOVES,
    (_cast, 3),
    (_unary, 4),
    (_pair, 4),
    (_promoted, 2),
    (_compare, 1),
    (_masked, 2),
    (_reduce, 3),
    (_product, 4),
    (_window, 2),
)


def drawn(seed: int) -> str:
    """The program of a seed: one to six stages."""
    return Typed(random.Random(f"types {seed}")).grow(MAKERS, 6).text()
