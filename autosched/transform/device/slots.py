"""Proofs that two accesses touch different slots of a buffer that iterations use in turns.

An index is (k + c) % n * size + rest, where the rests of both accesses are less than size apart.
With the same k, two accesses whose c differ by no multiple of n are in different slots, whatever
the number of elements. A second proof shows that one access ends before the other begins.

The two accesses are made by different threads. Terms taken to be equal in both, such as k, have no
variable of a thread or of a loop inside one of the accesses, and read no memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from autosched.arith import Analyzer
from autosched.arith.facts import conjuncts_of
from autosched.tir.expr import LT, Add, Call, Expr, FloorMod, IntImm, Mod, Ramp, Range, Var
from autosched.tir.gpu import WARP
from autosched.tir.linear import combine, linear, sum_of
from autosched.tir.op import const
from autosched.tir.walk import free_vars, rewrite_expr
from autosched.transform.device.alignment import as_division
from autosched.transform.device.thread_access import Access
from autosched.transform.device.thread_index import LANE, Place, Span, is_plain

_FAR = 1 << 62


def in_other_slots(
    first: Place, second: Place, threads: Sequence[Span], loops: Mapping[Var, Span]
) -> bool:
    """True if the places are in different slots in every iteration of `loops`."""
    if not (_divides(first.index) and _divides(second.index)):
        return False
    around = [*threads, *loops.values()]
    own = _own(threads, first, second)
    a, b = (_slots(place.index, own) for place in (first, second))
    whole = _rest(first, (), around), _rest(second, (), around)
    if whole[0][1] < whole[1][0] or whole[1][1] < whole[0][0]:  # different buffers of merged memory
        return True
    for mine, size in a.items():
        for other, same in b.items():
            if size == same and _differ(mine, other):
                a_low, a_high = _rest(first, {mine}, around)
                b_low, b_high = _rest(second, {other}, around)
                return max(a_high - b_low, b_high - a_low) < size
    return False


def apart(
    first: Access,
    second: Access,
    threads: Sequence[Span],
    loops: Mapping[Var, Span],
    loop: Span | None,
) -> bool:
    """True if all of one access lies before all of the other, whatever the number of elements.

    The accesses are in the same iteration of the `loops` around both, or in different iterations of
    `loop` if it is given.
    """
    assert first.place is not None and second.place is not None
    places = (first.place, first.guard), (second.place, second.guard)
    own = _own(threads, first.place, second.place) | ({loop.var} if loop is not None else set())
    spans = [*threads, *loops.values()]
    a, b = (linear(_base(place.index))[1] for place, _ in places)
    same = {t for t, c in a.items() if b.get(t) == c and _is_common(t, own)}
    (a_low, a_high), (b_low, b_high) = (_rest(p, same, spans, guard) for p, guard in places)
    if a_high < b_low or b_high < a_low:
        return True
    if loop is None:
        return False
    var, step = loop.var, a.get(loop.var)
    if step is None or b.get(var) != step:
        return False
    if any(var in free_vars(t) for terms in (a, b) for t in terms if t is not var):
        return False
    same.add(var)
    (a_low, a_high), (b_low, b_high) = (_rest(p, same, spans, guard) for p, guard in places)
    return max(a_high - b_low, b_high - a_low) < abs(step)


def _own(threads: Sequence[Span], *places: Place) -> set[Var]:
    """The variables that may have different values in the two accesses."""
    inside = {span.var for place in places for span in place.inner}
    return {LANE} | {span.var for span in threads} | inside


def _is_common(e: Expr, own: set[Var]) -> bool:
    return is_plain(e) and own.isdisjoint(free_vars(e))


def _divides(e: Expr) -> bool:
    """True if the sum has a remainder among its terms: a cheap test."""
    return any(isinstance(_plain(term), FloorMod) for term in linear(_base(e))[1])


def _base(index: Expr) -> Expr:
    return index.base if isinstance(index, Ramp) else index


def _slots(index: Expr, own: set[Var]) -> dict[Expr, int]:
    """The remainders in the sum that are the same for all threads, with their factors."""
    terms = linear(_base(index))[1].items()
    return {t: c for t, c in terms if isinstance(_plain(t), FloorMod) and _is_common(t, own)}


def _differ(mine: Expr, other: Expr) -> bool:
    a, b = _plain(mine), _plain(other)
    if not (isinstance(a, FloorMod) and isinstance(b, FloorMod) and a.b is b.b):
        return False
    if not isinstance(a.b, IntImm) or a.b.value < 2:
        return False
    distance, terms = combine(linear(a.a), linear(b.a), -1)
    return not terms and distance % a.b.value != 0 and _counts_up(mine) and _counts_up(other)


def _counts_up(e: Expr) -> bool:
    """True if `e` rounds down, or is a truncating remainder of a non-negative value.

    A truncating remainder must have a dividend that is a sum of loop variables with positive
    factors and of a non-negative constant.
    """
    if not isinstance(e, Mod):
        return True
    constant, terms = linear(e.a)
    return constant >= 0 and all(isinstance(t, Var) and c > 0 for t, c in terms.items())


def _rest(
    place: Place, without: Collection[Expr], spans: list[Span], guard: Expr | None = None
) -> tuple[int, int]:
    """The least and greatest value of the index, without the terms `without`, where `guard` holds.

    A bound on a sum of terms is tighter than the bounds of its terms. For example, a guard bounds
    the elements that threads copy in turns, or the iterations in which a pipeline still fills a
    tile.
    """
    low, terms = linear(_base(place.index))
    analyzer = Analyzer()
    known = (*spans, *place.inner, Span(LANE, 0, WARP))
    for span in known:
        first, extent = const(span.low, span.var.dtype), const(span.extent, span.var.dtype)
        analyzer.bind(span.var, Range(first, extent), override=True)
    sums = [] if guard is None else _bounded_sums(guard, known, analyzer)

    def go(e: Expr) -> Expr | None:
        if isinstance(e, Add) and sums:
            constant, parts = linear(e)
            return sum_of(_by_sums(parts, sums), constant, e.dtype)
        return as_division(e)

    high = low
    left = {term: factor for term, factor in terms.items() if term not in without}
    for term, factor in _by_sums(left, sums).items():
        least, most = _bounds(rewrite_expr(term, go), analyzer)
        ends = (factor * least, factor * most)
        low, high = low + min(ends), high + max(ends)
    if isinstance(place.index, Ramp):
        if not isinstance(place.index.stride, IntImm):
            return low, high + _FAR
        ends = (0, place.index.stride.value * (place.index.lanes - 1))
        low, high = low + min(ends), high + max(ends)
    return low, high


def _bounded_sums(
    guard: Expr, spans: Sequence[Span], analyzer: Analyzer
) -> list[tuple[Var, dict[Expr, int]]]:
    """The sums of terms that `guard` bounds from above, each with a variable bound in `analyzer`.

    A variable of `spans` that `guard` bounds by itself gets the smaller range directly.
    """
    found = []
    variables = {span.var for span in spans}
    for condition in conjuncts_of(guard):
        if not isinstance(condition, LT) or not condition.a.dtype.is_int:
            continue
        constant, terms = combine(linear(condition.a), linear(condition.b), -1)
        if not terms or min(terms.values()) < 0:
            continue
        if len(terms) == 1:
            ((term, factor),) = terms.items()
            if isinstance(term, Var) and term in variables:
                _bind_below(term, -(constant // factor), analyzer)
            continue
        least = sum(factor * _bounds(term, analyzer)[0] for term, factor in terms.items())
        if 0 <= least < -constant:
            dtype = condition.a.dtype
            var = Var("sum", dtype)
            analyzer.bind(var, Range(const(least, dtype), const(-constant - least, dtype)))
            found.append((var, terms))
    return found


def _bind_below(var: Var, end: int, analyzer: Analyzer) -> None:
    """Restrict `var` to its values below `end`, if there are any."""
    least, most = _bounds(var, analyzer)
    if least < end <= most:
        values = Range(const(least, var.dtype), const(end - least, var.dtype))
        analyzer.bind(var, values, override=True)


def _by_sums(terms: dict[Expr, int], sums: list[tuple[Var, dict[Expr, int]]]) -> dict[Expr, int]:
    """`terms` with each multiple of a bounded sum replaced by a multiple of its variable."""
    for var, parts in sums:
        term, least = next(iter(parts.items()))
        times = terms.get(term, 0) // least
        if times > 0 and all(terms.get(t, 0) == times * c for t, c in parts.items()):
            terms = {t: c for t, c in terms.items() if t not in parts} | {var: times}
    return terms


def _bounds(e: Expr, analyzer: Analyzer) -> tuple[int, int]:
    """The least and greatest value of `e`, rounded inwards to multiples of what divides it."""
    bound, known = analyzer.const_int_bound(e), analyzer.modular_set(e)
    least, most = bound.min_value, bound.max_value
    if isinstance(e, Call) and e.op == "bitwise_xor":  # xor changes only the low bits
        (_, high), (low_mask, mask) = (_bounds(part, analyzer) for part in e.args)
        if low_mask >= 0:
            most = min(most, high | ((1 << mask.bit_length()) - 1))
    if known.coeff < 2 or known.base % known.coeff:
        return least, most
    step = known.coeff
    return -(-least // step) * step, most // step * step


def _plain(e: Expr) -> Expr:
    """`e` with shifts, masks and truncating remainders as floor divisions and remainders.

    A truncating remainder is equal for values that are not negative, which `_counts_up` checks.
    """
    if isinstance(e, Mod):
        return FloorMod(e.a, e.b)
    found = as_division(e)
    return e if found is None else found
