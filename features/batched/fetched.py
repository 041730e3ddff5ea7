"""The texts of a tile that threads fetch as one row of elements, written down without lowering.

All axes are fused and the row is cut by a number of threads: element f = o * T + t. Axis k is
f // s % e, s being the product of the axes inside. What simplification makes of it depends on
which numbers divide which: while T is a multiple of s it is a sum, o * q + t // s, and from there
on the quotient and the remainder of such a sum. `arith/canonical_divmod.py` and the rules of
FloorDiv and FloorMod are what this follows from; numbers that it does not cover have None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autosched.features.batched.axis_text import AxisText, StageText
from autosched.features.batched.plan import FIRST_THREAD, Loops
from autosched.features.walk.count import count_ops
from autosched.tir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Var
from autosched.tir.op import add, floordiv, floormod, lt, mul
from autosched.tir.walk import free_vars


class _Row(NamedTuple):
    """So many `elements`, fetched by `width` threads in `rounds` rounds."""

    outer: Var
    thread: Var
    rounds: int
    width: int
    elements: int


class _Quotient(NamedTuple):
    """(outer * scale + thread // lower) // divisor; no thread where `lower` is the width.

    `below` is a limit of its values that simplification finds; `before` is the divisor without the
    last of its factors, which simplification meets one by one.
    """

    scale: int
    lower: int
    divisor: int
    below: int
    before: int = 1


_ROW = Var("row.outer"), Var("threadIdx.x")


def fetched(loops: Loops, numbers: Sequence[int], sizes: Sequence[int]) -> StageText | None:
    """The texts of a stage of these loops; None where they are not of this kind.

    `numbers` are the extents of its axes, then the factors of its splits, `sizes` the extents of
    its loops by position.
    """
    if not _fetches(loops):
        return None
    *axes, vector, width = numbers
    rounds, threads, lanes = sizes
    if vector != 1 or lanes != 1 or width < 2 or threads != width:
        return None
    count = 1
    for extent in axes:
        count *= extent
    if count == 1:  # nothing says that the thread is the first
        return None
    row = _Row(*_ROW, rounds, width, count)
    parts = _parts(row, axes)
    if parts is None:
        return None
    ragged = rounds * width != count
    position = add(row.thread, mul(row.outer, width)) if rounds > 1 else row.thread
    conditions = (_condition(row),) if ragged else ()
    found = []
    value: Expr = position
    for k in range(len(axes) - 1, -1, -1):
        raw = floormod(value, axes[k]) if k else value
        value = floordiv(value, axes[k])
        found.append(_axis(row, raw, *parts[k]))
    outer = row.outer if rounds > 1 else None
    variables = outer, row.thread, None
    return StageText(tuple(numbers), variables, conditions, tuple(reversed(found)))


def _fetches(loops: Loops) -> bool:
    """Whether all axes are fused, and cut into rounds, threads and lanes."""
    fused = 0
    for k, relation in enumerate(loops.relations[:-2]):
        if relation != (fused, k + 1, loops.axes + k):
            return False
        fused = loops.axes + k
    if len(loops.relations) != loops.axes + 1:
        return False
    first = 2 * loops.axes - 1
    cuts = ((fused, first, first + 1, 1), (first, first + 2, first + 3, 1))
    leaves = (first + 2, first + 3, first + 1)
    thread = len(loops.kinds) == 3 and loops.kinds[1] >= FIRST_THREAD > loops.kinds[0]
    return loops.relations[-2:] == cuts and loops.leaves == leaves and thread


def _condition(row: _Row) -> Expr:
    if row.rounds == 1:
        return lt(row.thread, row.elements)
    return lt(Add(Mul(row.outer, IntImm(row.width)), row.thread), row.elements)


def _parts(row: _Row, axes: Sequence[int]) -> list[tuple[Expr, int, int]] | None:
    """The text of each axis, with its largest values while the threads and all loops run.

    None where simplification may not see that an axis stays within its extent.
    """
    found: list[tuple[Expr, int, int]] = []
    quotient = _Quotient(row.width, 1, 1, row.elements)
    inside = 1
    for k in range(len(axes) - 1, -1, -1):
        extent = axes[k]
        if row.rounds == 1:
            found.append(_of_thread(row, inside, extent if k else row.elements))
        else:
            if quotient.below > row.elements // inside:
                return None
            found.append(_of_row(row, quotient, extent if k else row.elements))
            quotient = _divided(row, quotient, extent)
        inside *= extent
    return found[::-1]


def _of_thread(row: _Row, inside: int, extent: int) -> tuple[Expr, int, int]:
    """thread // inside % extent."""
    if row.elements <= inside or extent == 1:
        return IntImm(0), 0, 0
    text: Expr = row.thread
    last = row.width - 1
    if row.elements > inside * extent:
        text, last = FloorMod(text, IntImm(inside * extent)), min(last, inside * extent - 1)
    if inside > 1:
        text = FloorDiv(text, IntImm(inside))
    return text, last // inside, last // inside


def _divided(row: _Row, a: _Quotient, c: int) -> _Quotient:
    """a // c."""
    if c == 1:
        return a
    if a.divisor == 1 and a.scale % c == 0:
        scale, lower = a.scale // c, a.lower * c
        return _Quotient(scale, lower, 1, row.rounds * scale)
    return _Quotient(a.scale, a.lower, a.divisor * c, -(-a.below // c), a.divisor)


def _of_row(row: _Row, a: _Quotient, extent: int) -> tuple[Expr, int, int]:
    """a % extent, with its largest value while the threads run, and while all loops do."""
    if extent == 1 or a.below <= 1:
        return IntImm(0), 0, 0
    scale, divisor = a.scale, a.divisor
    outer: Expr = row.outer
    rounds, threads = row.rounds - 1, row.width // a.lower - 1
    thread: Expr = row.thread if a.lower == 1 else FloorDiv(row.thread, IntImm(a.lower))
    whole = divisor * extent
    if divisor == 1 and scale % extent == 0 and a.below > extent:  # the threads alone decide
        if scale > extent:
            inner = FloorMod(row.thread, IntImm(a.lower * extent))
            thread = inner if a.lower == 1 else FloorDiv(inner, IntImm(a.lower))
        return thread, extent - 1, extent - 1
    modulus = 0
    if a.below > extent:
        if a.before > 1 and a.before % scale:  # an index of its own, of which no rule is known
            modulus = whole
        elif whole % scale == 0:
            if whole // scale <= rounds:
                outer, rounds = FloorMod(outer, IntImm(whole // scale)), whole // scale - 1
        else:
            scale, modulus = scale % whole, whole
    if divisor % scale == 0 and not modulus:
        each = divisor // scale
        if each == 1 and divisor == 1 and threads == 0:
            return outer, 0, rounds
        if divisor > 1:
            return (FloorDiv(outer, IntImm(each)) if each > 1 else outer), 0, rounds // each
    product = Mul(outer, IntImm(scale)) if scale > 1 else outer
    swapped = scale == 1 and a.lower > 1
    text: Expr = Add(thread, product) if swapped else Add(product, thread)
    ends = [threads, rounds * scale + threads]
    if modulus:
        text, ends = FloorMod(text, IntImm(modulus)), [min(end, modulus - 1) for end in ends]
    if divisor > 1:
        text, ends = FloorDiv(text, IntImm(divisor)), [end // divisor for end in ends]
    return text, ends[0], ends[1]


def _axis(row: _Row, raw: Expr, text: Expr, threads: int, every: int) -> AxisText:
    used = free_vars(text)
    terms = (text.a, text.b) if isinstance(text, Add) else (text,)
    return AxisText(
        raw,
        text,
        terms,
        (0, 0),
        ((0, every), (0, threads), (0, 0)),
        (row.outer in used, row.thread in used, False),
        tuple(count_ops(text)),
    )
