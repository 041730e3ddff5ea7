"""Upper bounds of sums of minima and maxima, operand by operand.

A read at min(i + k, 63) or max(i - 1, 0) needs fewer elements at the border than elsewhere: the
least and the largest index are bounded by the same variables, which cancel in their difference.
"""

from __future__ import annotations

from autosched.arith.analyzer import Analyzer
from autosched.arith.const_int_bound import POS_INF
from autosched.tir.dtype import DType
from autosched.tir.expr import Call, Expr, FloorDiv, IntImm, Max, Min, Select
from autosched.tir.linear import combine, linear, sum_of
from autosched.tir.op import floordiv

Linear = tuple[int, dict[Expr, int]]
_MOST_CHOICES = 8
"""So many minima and maxima of a sum are bounded by their operands: each doubles the work."""


def largest_value(e: Expr, analyzer: Analyzer) -> int | None:
    """A value that the index `e` never exceeds; None if none is known.

    `analyzer` knows the variables of `e`. Minima and maxima are bounded operand by operand, so that
    variables in several of them cancel:

    >>> from autosched.tir.expr import Range, Var
    >>> from autosched.tir.op import const, max_, min_
    >>> i = Var("i")
    >>> analyzer = Analyzer()
    >>> analyzer.bind(i, Range(const(0), const(8)))
    >>> largest_value(min_(i * 8 + 8, 63) - max_(i * 8 - 1, 0), analyzer)
    9
    """
    return _largest(linear(analyzer.simplify(e)), e.dtype, analyzer, _MOST_CHOICES)


def _largest(value: Linear, dtype: DType, analyzer: Analyzer, choices: int) -> int | None:
    constant, terms = value
    chosen = [atom for atom in terms if is_chosen(atom)] if choices else []
    if not chosen:
        total = analyzer.simplify(sum_of(terms, constant, dtype))
        high = analyzer.const_int_bound(total).max_value
        return None if high >= POS_INF else high

    def exceeds_neither(atom: Expr) -> bool:
        return _chooser(atom) is (Min if terms[atom] > 0 else Max)

    # Cases come first: the bounds of the others are then the least for each case by itself.
    atom = min(chosen, key=exceeds_neither)
    rest = constant, {a: factor for a, factor in terms.items() if a is not atom}
    found = [
        _largest(combine(rest, linear(x), terms[atom]), dtype, analyzer, choices - 1)
        for x in _operands(atom)
    ]
    known = [bound for bound in found if bound is not None]
    if exceeds_neither(atom):
        return min(known, default=None)
    return max(known) if len(known) == len(found) else None


def is_chosen(e: Expr) -> bool:
    """Whether `e` is the minimum, the maximum or a selection of others, or a quotient of one."""
    return bool(_operands(e))


def _chooser(e: Expr) -> type[Expr]:
    """The class of `e`, or of the minimum or maximum of which it is the quotient."""
    return _chooser(e.a) if isinstance(e, FloorDiv) else e.__class__


def _operands(e: Expr) -> tuple[Expr, ...]:
    """The values of which `e` is the minimum, the maximum or a selection; none for other `e`."""
    match e:
        case Min(a, b) | Max(a, b) | Select(_, a, b) | Call("if_then_else", (_, a, b)):
            return a, b
        case FloorDiv(a, IntImm(divisor)) if divisor > 0:
            return tuple(floordiv(x, divisor) for x in _operands(a))
    return ()
