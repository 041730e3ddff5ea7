"""Index texts of fetched tiles where a vector is no part of a row: some lanes are in the next row.

Element f = o * T * V + t * V + v of a tile is then a sum that simplification cannot cut. There are
two exceptions in a single round: a quotient by a multiple of V, and a coefficient beyond the
modulus.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from autosched.tir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Var
from autosched.tir.op import lt

OUTER, THREAD, LANE = Var("row.outer"), Var("threadIdx.x"), Var("row.lane")


class Row(NamedTuple):
    """A row of `elements` elements, fetched by `width` threads in `rounds` rounds.

    Indices are simplified `as_ansor`, or completely.
    """

    outer: Var
    thread: Var
    rounds: int
    width: int
    elements: int
    as_ansor: bool = True


class Axis(NamedTuple):
    """The text of an axis, and its largest values while all loops, the threads, the lanes run."""

    text: Expr
    every: int
    threads: int
    lanes: int


class _Vectors(NamedTuple):
    """Vectors of `lanes` elements of `row`; lane // `below` is the element that a lane is in."""

    row: Row
    lanes: int
    below: int

    @property
    def round(self) -> int:
        """The number of elements of a round."""
        return self.row.width * self.lanes

    def sum(self, thread: Expr, scale: int) -> Expr:
        """thread * scale + lane // below, after the term of the rounds if there are several."""
        lane: Expr = FloorDiv(LANE, IntImm(self.below)) if self.below > 1 else LANE
        if scale == 1 and self.below > 1:  # of terms with equal scales, larger divisors come first
            return Add(lane, thread)
        product = Mul(thread, IntImm(scale)) if scale > 1 else thread
        if self.row.rounds > 1:
            product = Add(Mul(OUTER, IntImm(self.round)), product)
        return Add(product, lane)


def torn_parts(
    row: Row, axes: Sequence[int], lanes: int, below: int, conditions: list[Expr]
) -> list[Axis] | None:
    """The text of each axis; None where there is no rule.

    Conditions on the elements are added to `conditions`.
    """
    vectors = _Vectors(row, lanes, below)
    count, whole = row.elements, row.elements % lanes == 0
    if not whole and below > 1:
        return None
    if row.rounds > 1 and _cut(axes, vectors.round):
        return None
    vectors_in = -(-count // lanes)
    if not whole:
        conditions.append(lt(vectors.sum(row.thread, lanes), count))
    if row.rounds * row.width > vectors_in:
        thread: Expr = row.thread
        if row.rounds > 1:
            thread = Add(Mul(row.outer, IntImm(row.width)), thread)
        conditions.append(lt(thread, vectors_in))
    last = count - 1
    if whole and row.rounds > 1 and row.as_ansor:  # a condition on vectors does not bound the sum
        last = row.rounds * vectors.round - 1
    found = []
    inside, before = 1, 1
    for k in range(len(axes) - 1, -1, -1):
        modulus = axes[k] * inside if k and last // inside >= axes[k] else 0
        if row.rounds > 1 and modulus and before > 1 and inside % vectors.round == 0:
            return None
        once = before == 1 or before % lanes == 0 or not row.as_ansor
        found.append(_axis(vectors, inside, modulus, last, once))
        if axes[k] > 1:
            inside, before = inside * axes[k], inside
    return found[::-1]


def _cut(axes: Sequence[int], elements: int) -> bool:
    """Whether a row of some innermost axes divides this number of elements."""
    return any(elements % inside == 0 for k in range(len(axes)) if (inside := prod(axes[k:])) > 1)


def _axis(a: _Vectors, inside: int, modulus: int, last: int, once: bool) -> Axis:
    """The elements % modulus // inside; modulus 0 means no remainder.

    `once` tells that the quotient is by one axis, or is simplified together with its remainder in
    any case. Ansor divides by one axis after the other, and sees that an earlier divisor was a
    whole number of vectors.
    """
    if last < inside or modulus == inside:
        return Axis(IntImm(0), 0, 0, 0)
    ends = [a.row.rounds * a.round - 1, a.round - 1, a.lanes - 1]
    thread: Expr = a.row.thread
    scale = a.lanes
    one = a.row.rounds == 1
    if one and once and modulus and modulus % scale == 0:
        if modulus // scale < a.row.width:
            thread = FloorMod(thread, IntImm(modulus // scale))
            ends[:2] = [modulus - 1] * 2
        modulus = 0
    elif one and once and modulus:
        scale %= modulus
        ends[:2] = [(a.row.width - 1) * scale + a.lanes - 1] * 2
    if one and inside % scale == 0 and inside > 1 and not modulus:
        each = inside // scale
        last_thread = (ends[1] + 1) // scale - 1
        text = FloorDiv(thread, IntImm(each)) if each > 1 else thread
        return Axis(text, last_thread // each, last_thread // each, 0)
    if not one and not modulus and inside % a.round == 0:
        return Axis(FloorDiv(a.row.outer, IntImm(inside // a.round)), ends[0] // inside, 0, 0)
    text = a.sum(thread, scale)
    if modulus:
        text, ends = FloorMod(text, IntImm(modulus)), [min(end, modulus - 1) for end in ends]
    if inside > 1:
        text, ends = FloorDiv(text, IntImm(inside)), [end // inside for end in ends]
    return Axis(text, *ends)
