"""Cut a nest of loops into tiles that run only where inequalities can hold.

for i in range(64):                     for i.o in range(8):
    for j in range(256):       ->           for j.o in range(8):
        step, if j <= i                         if j.o * 32 - i.o * 8 <= 7:
                                                    for i.i in range(8):
                                                        for j.i in range(32):
                                                            step
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autosched.tir.copy_stmt import copy_stmt
from autosched.tir.expr import Expr, Var
from autosched.tir.linear import combine, linear, sum_of
from autosched.tir.loops import around, count_from_zero
from autosched.tir.op import add, all_, const, le, mul
from autosched.tir.stmt import BufferStore, For, ForKind, IfThenElse, Stmt, seq
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import free_vars, substitute
from autosched.transform.expressions.effects import is_lasting
from autosched.transform.loops.masked_values import Inequality, Ranges, range_of

ROWS, COLUMNS, TERMS, LANES = 8, 32, 32, 128
"""Most elements of a tile along an axis of the result, along its last one, of a sum, and of a sum
along the innermost loop, whose lanes are added up once a tile. Windows of 8 to 64 take 0.6 to 0.8
of the time that they take with 16 rows, 64 columns and 128 terms, triangles 0.75 to 1."""

_FEW = 4
"""Loops inside of others whose steps are at least a fourth of these sizes stay as they are."""


def extent_of(loop: For) -> int:
    """The number of iterations of a loop from 0 that no annotation says more of; 0 otherwise."""
    return 0 if loop.annotations else count_from_zero(loop)


def chain(s: Stmt) -> tuple[list[For], Stmt]:
    """The counted loops from `s` on that contain only each other, and what the last contains."""
    loops: list[For] = []
    while isinstance(s, For) and s.kind is not ForKind.PARALLEL and extent_of(s):
        loops.append(s)
        s = s.body
    return loops, s


def unguarded(s: Stmt) -> Stmt:
    """What `s` does where conditions that read no memory hold, as those of the ends of tiles."""
    while isinstance(s, IfThenElse) and s.else_case is None and is_lasting(s.condition):
        s = s.then_case
    return s


def ranges_of(loops: Sequence[For]) -> dict[Var, tuple[int, int]]:
    """The least and the largest value of the variable of each loop."""
    return {loop.loop_var: (0, extent_of(loop) - 1) for loop in loops}


def relaxed(needed: Inequality, inner: Ranges, ranges: Ranges) -> Inequality:
    """What is needed of the other variables, where those of `inner` are as they suit best."""
    constant, terms = needed.constant, {}
    for term, factor in needed.terms.items():
        if free_vars(term).isdisjoint(inner):
            terms[term] = factor
            continue
        found = range_of(term, {**ranges, **inner})
        if found is None:
            return Inequality(0, {})
        constant += min(factor * found[0], factor * found[1])
    return Inequality(constant, terms)


def always_holds(needed: Inequality, ranges: Ranges) -> bool:
    """Whether the inequality is sure to hold."""
    most = needed.constant
    for term, factor in needed.terms.items():
        found = range_of(term, ranges)
        if found is None:
            return False
        most += max(factor * found[0], factor * found[1])
    return most <= 0


@dataclass(frozen=True)
class Nest:
    """Loops around `leaf`, which has no effect unless all of `needed` hold.

    `store` is the last store of the leaf. `otherwise` runs instead of the leaf where one of
    `needed` fails. `ranges` has the values of all variables outside of the leaf.
    """

    loops: Sequence[For]
    leaf: Stmt
    store: BufferStore
    needed: Sequence[Inequality]
    ranges: Ranges
    otherwise: Stmt | None = None

    def tiled(self) -> Stmt | None:
        """The loops in tiles, each behind a test; None if no test could fail."""
        sizes = self._sizes()
        for loop, size in zip(self.loops, sizes, strict=True):
            if extent_of(loop) % size:
                return self._in_two(loop, extent_of(loop) // size * size)
        outer, inner, table = self._laid_out(sizes)
        hidden = ranges_of(inner)
        ranges = {**self.ranges, **ranges_of(outer)}
        dtype = max((loop.loop_var.dtype for loop in self.loops), key=lambda t: t.bits)
        tests = []
        for needed in self.needed:
            left = relaxed(_substituted(needed, table), hidden, ranges)
            if not always_holds(left, ranges):
                tests.append(le(sum_of(left.terms, left.constant, dtype), const(0, dtype)))
        if not tests:
            return None
        body: Stmt = around(inner, substitute_stmt(self.leaf, table))
        other = None
        if self.otherwise is not None:
            other = copy_stmt(around(inner, substitute_stmt(self.otherwise, table)), {})
        return around(outer, IfThenElse(all_(*tests), body, other))

    def _sizes(self) -> list[int]:
        """How many iterations of each loop a tile has; all of those that no inequality asks for."""
        asked = {term for n in self.needed for term in n.terms}
        sizes = [extent_of(loop) for loop in self.loops]
        whole: set[Expr | int] = set()  # axes of which loops further out are outside of tiles
        for k, loop in reversed([*enumerate(self.loops)]):
            var, extent = loop.loop_var, sizes[k]
            if var not in asked or loop.kind is ForKind.VECTORIZED:
                continue
            axis, most = self._axis(var)
            if axis in whole:
                sizes[k] = 1
                continue
            stride = max(abs(n.terms.get(var, 0)) for n in self.needed)
            limit = most // stride if _FEW * stride <= most else 1
            if extent > limit:
                even = max(n for n in range(1, limit + 1) if extent % n == 0)
                sizes[k] = even if 2 * even >= limit else limit
                whole.add(axis)
        return sizes if self._in_order(sizes) else self._without_sums(sizes)

    def _axis(self, var: Var) -> tuple[int, int]:
        """The axis of the result that the variable moves along, -1 for a sum, and a tile's size."""
        axes = [k for k, e in enumerate(self.store.indices) if var in free_vars(e)]
        if not axes:
            inner = self.loops[-1].loop_var
            along = any(inner in free_vars(e) for e in self.store.indices)
            return -1, TERMS if along else LANES
        return axes[0], COLUMNS if axes[0] == len(self.store.indices) - 1 else ROWS

    def _in_order(self, sizes: Sequence[int]) -> bool:
        """Whether the steps of a sum keep their order."""
        first = self._first()
        sums = [k for k, loop in enumerate(self.loops) if self._axis(loop.loop_var)[0] < 0]
        if len(sums) > 1 and any(extent_of(self.loops[k]) % sizes[k] for k in sums):
            return False
        outside = [k for k in sums if k >= first and sizes[k] < extent_of(self.loops[k])]
        return not outside or all(sizes[k] == 1 for k in sums if first <= k < outside[-1])

    def _without_sums(self, sizes: Sequence[int]) -> list[int]:
        return [
            extent_of(loop) if self._axis(loop.loop_var)[0] < 0 else size
            for loop, size in zip(self.loops, sizes, strict=True)
        ]

    def _first(self) -> int:
        """The number of the first loop that an inequality asks for."""
        asked = {v for n in self.needed for term in n.terms for v in free_vars(term)}
        found = [k for k, loop in enumerate(self.loops) if loop.loop_var in asked]
        return found[0] if found else 0

    def _laid_out(self, sizes: Sequence[int]) -> tuple[list[For], list[For], dict[Var, Expr]]:
        """The loops outside and inside of tiles, and the variables' values in terms of theirs."""
        first = self._first()
        outer = [*self.loops[:first]]
        inner: list[For] = []
        table: dict[Var, Expr] = {}
        for loop, size in zip(self.loops[first:], sizes[first:], strict=True):
            var, extent = loop.loop_var, extent_of(loop)
            if size == extent:
                inner.append(loop)
            elif size == 1:
                outer.append(loop)
            else:
                tile, step = (Var(f"{var.name}.{end}", var.dtype) for end in ("o", "i"))
                count = const(extent // size, var.dtype)
                outer.append(loop.with_(loop_var=tile, extent=count))
                inner.append(loop.with_(loop_var=step, extent=const(size, var.dtype)))
                table[var] = add(mul(tile, const(size, var.dtype)), step)
        return outer, inner, table

    def _in_two(self, cut: For, count: int) -> Stmt | None:
        """The first `count` iterations of the loop `cut`, which sizes divide, and the others."""
        parts: list[Stmt] = []
        changed = False
        for start, extent in ((0, count), (count, extent_of(cut) - count)):
            var = cut.loop_var
            table: dict[Var, Expr] = {var: add(var, const(start, var.dtype))} if start else {}
            shorter = cut.with_(extent=const(extent, var.dtype))
            loops = [shorter if loop is cut else loop for loop in self.loops]
            part = replace(
                self,
                loops=loops,
                leaf=substitute_stmt(self.leaf, table),
                needed=[_substituted(n, table) for n in self.needed],
                ranges={**self.ranges, var: (0, extent - 1)},
                otherwise=self.otherwise and substitute_stmt(self.otherwise, table),
            )
            made = part.tiled()
            changed = changed or made is not None
            plain: Stmt = around(loops, part.leaf) if made is None else made
            parts.append(copy_stmt(plain, {}) if start else plain)
        return seq(*parts) if changed else None


def _substituted(needed: Inequality, table: Mapping[Var, Expr]) -> Inequality:
    """The inequality with variables replaced."""
    total: tuple[int, dict[Expr, int]] = needed.constant, {}
    for term, factor in needed.terms.items():
        total = combine(total, linear(substitute(term, table)), factor)
    return Inequality(*total)
