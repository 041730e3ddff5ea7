"""Boxes of elements that statements access, and proofs that boxes contain or miss each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from autosched.arith import Analyzer
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_one
from autosched.tir.expr import Expr, IntImm, Ramp, Range, Var
from autosched.tir.linear import combine, linear, sum_of
from autosched.tir.op import add, cast, le, mul, sub
from autosched.tir.stmt import For
from autosched.tir.walk import free_vars, uses
from autosched.transform.expressions.effects import is_lasting

Bounds = tuple[tuple[Expr, Expr], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """The elements with low <= index < high in every dimension; all of `data` if `bounds` is None.

    `view` holds the type of the buffer and, unless it is flat, its shape, strides and offset. Only
    regions with equal views count elements in the same way and can be compared.
    """

    data: Var
    view: tuple[Any, ...]
    bounds: Bounds | None

    def mentions(self, variables: Iterable[Var]) -> bool:
        """Whether the bounds depend on one of `variables`."""
        ends = [e for pair in self.bounds or () for e in pair]
        return any(uses(e, variables) for e in ends)


def everything(data: Var) -> Region:
    """The region of everything that `data` points to."""
    return Region(data, (), None)


def region_of(buffer: Buffer, indices: tuple[Expr, ...]) -> Region | None:
    """The elements of an access.

    None if an index depends on memory, or if the lanes of a vector are not consecutive.
    """
    bounds = []
    if not all(map(is_lasting, indices)):
        return None
    for index in indices:
        if isinstance(index, Ramp):
            if not is_one(index.stride):
                return None
            bounds.append((index.base, add(index.base, index.lanes)))
        elif index.dtype.lanes == 1 and index.dtype.is_int:
            bounds.append((index, add(index, 1)))
        else:
            return None
    return Region(buffer.data, _view(buffer), tuple(bounds))


def _view(buffer: Buffer) -> tuple[Any, ...]:
    if len(buffer.shape) == 1 and not buffer.strides and buffer.elem_offset is None:
        return (buffer.dtype,)
    return buffer.dtype, buffer.shape, buffer.strides, buffer.elem_offset


class Prover:
    """Proves relations of regions inside the current loops and conditions."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self._loops: list[For] = []

    @contextmanager
    def inside(self, loop: For) -> Iterator[None]:
        """Assume that the variable of `loop` lies in its range."""
        self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), override=True)
        self._loops.append(loop)
        yield
        self._loops.pop()

    @contextmanager
    def under(self, condition: Expr) -> Iterator[None]:
        """Assume that `condition` holds; a condition that reads memory is ignored."""
        if is_lasting(condition):
            with self.analyzer.constraint(condition):
                yield
        else:
            yield

    def contains(self, whole: Region, part: Region) -> bool:
        """True if every element of `part` provably lies in `whole`."""
        if whole.data is not part.data or whole.bounds is None:
            return whole.data is part.data
        if part.bounds is None or whole.view != part.view:
            return False
        if self._bounds_contain(whole.bounds, part.bounds):
            return True
        # For symbolic loops, widen the part to all iterations and compare the ends.
        for loop in reversed(self._loops):
            if part.mentions((loop.loop_var,)) and not whole.mentions((loop.loop_var,)):
                reached = over_loop(part, loop.loop_var, loop.min, loop.extent)
                if reached is None or reached.bounds is None:
                    return False
                part = reached
        assert part.bounds is not None
        return self._bounds_contain(whole.bounds, part.bounds)

    def disjoint(self, one: Region, other: Region) -> bool:
        """True if the two regions provably have no element in common."""
        if one.data is not other.data:
            return True
        if one.bounds is None or other.bounds is None or one.view != other.view:
            return False
        return any(
            self._is_le(a[1], b[0]) or self._is_le(b[1], a[0])
            for a, b in zip(one.bounds, other.bounds, strict=True)
        )

    def _bounds_contain(self, whole: Bounds, part: Bounds) -> bool:
        return all(
            self._is_le(a[0], b[0]) and self._is_le(b[1], a[1])
            for a, b in zip(whole, part, strict=True)
        )

    def _is_le(self, a: Expr, b: Expr) -> bool:
        constant, terms = combine(linear(a), linear(b), -1)
        return constant <= 0 if not terms else self.analyzer.can_prove(le(a, b))


def over_loop(region: Region, var: Var, low: Expr, extent: Expr) -> Region | None:
    """The union of `region` over all values of `var` in [low, low + extent).

    None if the union has gaps or cannot be computed: the variable occurs in two dimensions, or not
    as a multiple. If the extent may be 0, the bounds of the result are empty in that case.
    """
    bounds: list[tuple[Expr, Expr]] = []
    moved = 0
    for begin, end in region.bounds or ():
        if var not in free_vars(begin) and var not in free_vars(end):
            bounds.append((begin, end))
            continue
        found = _span(begin, end, var, low, extent)
        moved += 1
        if found is None or moved > 1:
            return None
        bounds.append(found)
    return Region(region.data, region.view, None if region.bounds is None else tuple(bounds))


def _span(begin: Expr, end: Expr, var: Var, low: Expr, extent: Expr) -> tuple[Expr, Expr] | None:
    constant, terms = linear(begin)
    width, difference = combine(linear(end), (constant, terms), -1)
    step = terms.pop(var, 0)
    if difference or any(var in free_vars(t) for t in terms):
        return None
    runs = isinstance(extent, IntImm) and extent.value > 0
    if abs(step) > width or (abs(step) != width and not runs):
        return None
    dtype = begin.dtype
    last = cast(dtype, sub(add(low, extent), 1))
    first, final = (cast(dtype, low), last) if step > 0 else (last, cast(dtype, low))
    base = sum_of(terms, constant, dtype)
    return (
        add(base, mul(first, step)),
        add(add(base, mul(final, step)), width),
    )
