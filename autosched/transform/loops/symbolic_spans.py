"""Cut a loop's range where conditions with symbolic limits begin or cease to hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.tir.expr import Expr, Var
from autosched.tir.op import max_, min_
from autosched.transform.loops.loop_interval import Condition, lower_limit, upper_limit


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The iterations [low, high), in which the conditions `holds` hold and `fails` fail.

    Each condition in `not_throughout` fails for at least one iteration of the loops inside.
    """

    low: Expr
    high: Expr
    holds: tuple[Condition, ...] = ()
    fails: tuple[Condition, ...] = ()
    not_throughout: tuple[Condition, ...] = ()


def symbolic_spans(
    var: Var, low: Expr, high: Expr, conditions: Sequence[Condition], *, nested: bool
) -> list[Span]:
    """Split [low, high) into spans before, in and after the interval where all `conditions` hold.

    The spans follow one another; a span is empty where its limit lies beyond the next one. With
    `nested`, the range after the interval is cut again if several conditions set an upper limit:
    `k` conditions make at most `2 * k + 1` spans.

    For `i < n` and `i < m` with i in [0, e) the spans are: [0, min(e, n, m)), where both hold; up
    to max(min(e, n), ..), where only i < n holds; up to max(min(e, m), ..), where only i < m holds;
    the rest, where both fail.
    """
    limits = [(c, p) for c in conditions for p in c.parts]
    lows = [(c, e) for c, p in limits if (e := lower_limit(p, var)) is not None]
    highs = [(c, e) for c, p in limits if (e := upper_limit(p, var)) is not None]
    first = low
    for _, limit in lows:
        first = max_(first, limit)
    first = min_(first, high) if lows else first
    last = high
    for _, limit in highs:
        last = min_(last, limit)
    last = max_(last, first) if highs else last

    spans: list[Span] = []
    if first is not low:
        spans.append(_outside(low, first, (), [c for c, _ in lows]))
    if last is not first:
        spans.append(Span(first, last, tuple(conditions)))
    if last is high:
        return spans
    above = [c for c, _ in highs]
    below = tuple(c for c in conditions if c not in above)
    if nested and len(above) > 1 and not lows:
        spans += _after(var, last, high, highs)
    else:
        spans.append(_outside(last, high, below, above))
    return spans


def _outside(
    low: Expr, high: Expr, holds: tuple[Condition, ...], limiting: list[Condition]
) -> Span:
    """A span where one of `limiting` fails; which one is known only if there is just one."""
    if len(limiting) > 1:
        return Span(low, high, holds)
    return _failing(low, high, holds, limiting[0])


def _failing(low: Expr, high: Expr, holds: tuple[Condition, ...], condition: Condition) -> Span:
    if any(p.slack for p in condition.parts):
        return Span(low, high, holds, not_throughout=(condition,))
    return Span(low, high, holds, (condition,))


def _after(var: Var, low: Expr, high: Expr, highs: list[tuple[Condition, Expr]]) -> list[Span]:
    """The spans after the least of several upper limits: up to the first limit, and beyond it."""
    (first, limit), *others = highs
    middle = max_(min_(high, limit), low)
    only = others[0][0] if len(others) == 1 else None
    ahead = Span(low, middle, (first,)) if only is None else _failing(low, middle, (first,), only)
    behind = symbolic_spans(var, middle, high, [c for c, _ in others], nested=True)
    lacking = _failing(middle, high, (), first)
    return [
        ahead,
        *(
            Span(
                s.low,
                s.high,
                s.holds,
                s.fails + lacking.fails,
                s.not_throughout + lacking.not_throughout,
            )
            for s in behind
        ),
    ]
