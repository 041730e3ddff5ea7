"""Write the index texts of a tile that threads fetch as one row of elements, without lowering it.

All axes are fused, and the row is cut by the number T of threads: element f = o * T + t. Axis k is
f // s % e, where s is the product of the axes inside. What simplification makes of it depends on
which numbers divide which. While T is a multiple of s, f // s is a sum, o * q + t // s; further
out, the axis is the quotient and the remainder of such a sum. Where each thread fetches a vector of
elements, the lanes are digits of the innermost axes, or a part of the last axis that they reach;
other vectors are in `torn.py`. The rules follow from `arith/canonical_divmod.py` and the rules of
FloorDiv and FloorMod. Numbers that they do not cover give None.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from autosched.features.batched.axis_text import AxisText, StageText, terms_of
from autosched.features.batched.plan import FIRST_THREAD, Loops
from autosched.features.batched.torn import LANE, OUTER, THREAD, Axis, Row, torn_parts
from autosched.features.walk.count import count_ops
from autosched.tir.constants import is_zero
from autosched.tir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul
from autosched.tir.op import add, floordiv, floormod, lt, mul
from autosched.tir.walk import free_vars


class _Quotient(NamedTuple):
    """(outer * scale + thread // lower) // divisor; without a thread where `lower` is the width.

    `below` is a bound of its values that simplification finds. `before` is the divisor without its
    last factor, since simplification divides by one factor after the other.
    """

    scale: int
    lower: int
    divisor: int
    below: int
    before: int = 1


class _Lanes(NamedTuple):
    """The innermost axes that the lanes of a vector run through.

    `axes` are their texts, inner first. `rest` are the extents of the other axes: a vector has
    `times` of their elements, and lane // `below` says which.
    """

    axes: list[Axis]
    rest: list[int]
    times: int
    below: int


def fetched(
    loops: Loops, numbers: Sequence[int], sizes: Sequence[int], as_ansor: bool = True
) -> StageText | None:
    """The texts of a stage with these loops; None where the rules do not apply.

    `numbers` are the extents of the stage's axes, then the factors of its splits; `sizes` are the
    extents of its loops by position. The texts are simplified `as_ansor`, or as autosched's own
    pass does.
    """
    if not _fetches(loops):
        return None
    *axes, vector, width = numbers
    rounds, threads, lanes = sizes
    if vector != lanes or width < 2 or threads != width:
        return None
    inner = _lanes(axes, lanes)
    row = Row(OUTER, THREAD, rounds, width, prod(inner.rest), as_ansor)
    if row.elements == 1:  # nothing says that the thread is the first
        return None
    conditions: list[Expr] = []
    if inner.times == 1 or _aligned(row, inner):
        parts = _aligned_parts(row, inner, conditions)
    else:
        torn = torn_parts(row, inner.rest, inner.times, inner.below, conditions)
        if torn is None:
            return None
        parts = torn
    parts += inner.axes[::-1]
    value: Expr = add(row.thread, mul(row.outer, width)) if rounds > 1 else row.thread
    if lanes > 1:
        value = add(LANE, mul(value, lanes))
    found = []
    last = rounds * width * lanes - 1
    for k in range(len(axes) - 1, -1, -1):
        raw = floormod(value, axes[k]) if k else value
        found.append(_axis(raw, parts[k], k == 0 and rounds > 1 and last > 0))
        value, last = floordiv(value, axes[k]), last // axes[k]
    variables = row.outer if rounds > 1 else None, row.thread, LANE if lanes > 1 else None
    known = tuple(numbers), variables, tuple(sizes)
    return StageText(*known, tuple(conditions), tuple(reversed(found)))


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


def _lanes(axes: Sequence[int], lanes: int) -> _Lanes:
    """Divide the axes into the innermost ones, which the lanes run through, and the rest."""
    rest, found = list(axes), []
    left, below = lanes, 1
    while left > 1 and rest and left % rest[-1] == 0:
        extent = rest.pop()
        text: Expr = IntImm(0)
        if extent > 1:
            whole = below * extent
            text = FloorMod(LANE, IntImm(whole)) if left > extent else LANE
            text = FloorDiv(text, IntImm(below)) if below > 1 else text
        found.append(Axis(text, extent - 1, extent - 1, extent - 1))
        left, below = left // extent, below * extent
    return _Lanes(found, rest, left, below)


def _aligned(row: Row, inner: _Lanes) -> bool:
    """Whether the innermost axis of the rest is a whole number of vectors, and a round a whole
    number of such rows."""
    if not inner.rest or inner.rest[-1] % inner.times:
        return False
    return row.rounds == 1 or row.width % (inner.rest[-1] // inner.times) == 0


def _aligned_parts(row: Row, inner: _Lanes, conditions: list[Expr]) -> list[Axis]:
    """The axes in terms of the threads; the last axis also has the lanes."""
    if inner.times == 1:
        return _parts(row, inner.rest, conditions)
    *outer, last = inner.rest
    axes = [*outer, last // inner.times]
    parts = _parts(row._replace(elements=prod(axes)), axes, conditions)
    return [*parts[:-1], _widened(parts[-1], inner.times, inner.below)]


def _widened(a: Axis, times: int, below: int) -> Axis:
    """The axis a * times + lane // below."""
    text: Expr | None = None
    for term in (a.text.a, a.text.b) if isinstance(a.text, Add) else (a.text,):
        inside, scale = (term.a, term.b) if isinstance(term, Mul) else (term, IntImm(1))
        assert isinstance(scale, IntImm)
        product = Mul(inside, IntImm(scale.value * times))
        text = product if text is None else Add(text, product)
    assert text is not None
    lane: Expr = FloorDiv(LANE, IntImm(below)) if below > 1 else LANE
    last = times - 1
    return Axis(Add(text, lane), a.every * times + last, a.threads * times + last, last)


def _parts(row: Row, axes: Sequence[int], conditions: list[Expr]) -> list[Axis]:
    """The text of each axis; what the loops alone do not ensure is added to `conditions`."""
    found: list[Axis] = []
    quotient = _Quotient(row.width, 1, 1, row.elements)
    bounds: dict[tuple[int, int, int], None] = {}
    inside = 1
    for k in range(len(axes) - 1, -1, -1):
        extent = axes[k]
        if row.rounds == 1:
            found.append(_of_thread(row, inside, extent if k else row.elements))
        else:
            limit = row.elements // inside
            if quotient.below > limit:
                bounds[quotient.scale, quotient.lower, limit * quotient.divisor] = None
                quotient = quotient._replace(below=limit)
            found.append(_of_row(row, quotient, extent if k else row.elements))
            quotient = _divided(row, quotient, extent)
        inside *= extent
    for scale, lower, limit in reversed(bounds):
        thread = FloorDiv(row.thread, IntImm(lower)) if lower > 1 else row.thread
        conditions.append(lt(Add(Mul(row.outer, IntImm(scale)), thread), limit))
    if row.rounds * row.width != row.elements:
        every = Add(Mul(row.outer, IntImm(row.width)), row.thread)
        conditions.append(lt(every if row.rounds > 1 else row.thread, row.elements))
    return found[::-1]


def _of_thread(row: Row, inside: int, extent: int) -> Axis:
    """The axis thread // inside % extent."""
    if row.elements <= inside or extent == 1:
        return Axis(IntImm(0), 0, 0, 0)
    text: Expr = row.thread
    last = row.width - 1
    if row.elements > inside * extent:
        text, last = FloorMod(text, IntImm(inside * extent)), min(last, inside * extent - 1)
    if inside > 1:
        text = FloorDiv(text, IntImm(inside))
    return Axis(text, last // inside, last // inside, 0)


def _divided(row: Row, a: _Quotient, c: int) -> _Quotient:
    """The quotient a // c."""
    if c == 1:
        return a
    if a.divisor == 1 and a.scale % c == 0:
        scale, lower = a.scale // c, a.lower * c
        return _Quotient(scale, lower, 1, row.rounds * scale)
    return _Quotient(a.scale, a.lower, a.divisor * c, -(-a.below // c), a.divisor)


def _of_row(row: Row, a: _Quotient, extent: int) -> Axis:
    """The axis a % extent."""
    if extent == 1 or a.below <= 1:
        return Axis(IntImm(0), 0, 0, 0)
    scale, divisor = a.scale, a.divisor
    text: Expr
    outer: Expr = row.outer
    rounds, threads = row.rounds - 1, row.width // a.lower - 1
    thread: Expr = row.thread if a.lower == 1 else FloorDiv(row.thread, IntImm(a.lower))
    whole = divisor * extent
    if divisor == 1 and scale % extent == 0 and a.below > extent:  # depends on the thread alone
        if scale > extent:
            inner = FloorMod(row.thread, IntImm(a.lower * extent))
            thread = inner if a.lower == 1 else FloorDiv(inner, IntImm(a.lower))
        return Axis(thread, extent - 1, extent - 1, 0)
    modulus = 0
    if a.below > extent:
        if row.as_ansor and a.before > 1 and a.before % scale:  # Ansor sees one opaque index
            modulus = whole
        elif whole % scale == 0:
            if whole // scale <= rounds:
                outer, rounds = FloorMod(outer, IntImm(whole // scale)), whole // scale - 1
        else:
            scale, modulus = scale % whole, whole
    if divisor % scale == 0 and not modulus:
        each = divisor // scale
        if each == 1 and divisor == 1 and threads == 0:
            return Axis(outer, rounds, 0, 0)
        if divisor > 1:
            text = FloorDiv(outer, IntImm(each)) if each > 1 else outer
            return Axis(text, rounds // each, 0, 0)
    product = Mul(outer, IntImm(scale)) if scale > 1 else outer
    swapped = scale == 1 and a.lower > 1
    text = Add(thread, product) if swapped else Add(product, thread)
    ends = [threads, rounds * scale + threads]
    if modulus:
        text, ends = FloorMod(text, IntImm(modulus)), [min(end, modulus - 1) for end in ends]
    if divisor > 1:
        text, ends = FloorDiv(text, IntImm(divisor)), [end // divisor for end in ends]
    return Axis(text, ends[1], ends[0], 0)


def _axis(raw: Expr, a: Axis, runs: bool) -> AxisText:
    """The axis as text; `runs` tells that the loops alone do not keep `raw` at 0."""
    text = a.text
    used = free_vars(text)
    return AxisText(
        raw,
        text,
        tuple(terms_of(text)),
        (0, 0),
        ((0, a.every), (0, a.threads), (0, a.lanes)),
        tuple(var in used for var in (OUTER, THREAD, LANE)),
        tuple(count_ops(text)),
        runs and is_zero(text),
    )
