"""Bounds the region of a buffer that a statement accesses in its loops: exactly, below and above.

The region of one iteration is a box, with one range for each dimension. The accessed region is the
union of these boxes over all iterations for which the predicate holds.

    for i in range(4): for j in range(8): A[i * 8 + j]     accesses exactly A[0:32]
    for i in range(4): for j in range(8): A[i * 9 + j]     accesses some of A[0:35], all of A[0:8]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.arith.analyzer import Analyzer
from autosched.arith.deduce_bound import solve
from autosched.arith.digits import Digits
from autosched.arith.exact import DoesNotFitError
from autosched.arith.facts import conjuncts_of
from autosched.arith.index_places import UnknownBoxError
from autosched.arith.interval_eval import eval_set
from autosched.arith.intset import IntSet, intersect_set
from autosched.tir.expr import Expr, Range, Var
from autosched.tir.op import add, const, gt, not_, sub
from autosched.tir.walk import free_vars, substitute

Box = tuple[IntSet, ...]
_TRUE = const(True)


def estimate_region_strict_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: Expr = _TRUE,
    analyzer: Analyzer | None = None,
) -> Box | None:
    """The box of exactly the accessed elements: one set for each dimension; None if unknown.

    `region` is the box of one iteration, `var_dom` the range of each loop, `predicate` the
    condition under which an iteration accesses anything. The ends of the box may mention variables
    outside of `var_dom`, about which `analyzer` may have knowledge. If nothing is accessed, all
    sets are empty.
    """
    try:
        return Digits(region, var_dom, predicate, analyzer).box()
    except (UnknownBoxError, DoesNotFitError):
        return None


def estimate_region_lower_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: Expr = _TRUE,
    analyzer: Analyzer | None = None,
) -> Box | None:
    """A box all of whose elements are accessed; None if none is found.

    It is the exact box where that is known; otherwise the exact box with some loops fixed at their
    first or last iteration. The arguments are those of `estimate_region_strict_bound`. A box with
    an empty set means that nothing is accessed in these iterations.
    """
    dom = dict(var_dom)
    ranges, condition = list(region), predicate
    while True:
        try:
            return Digits(ranges, dom, condition, analyzer).box()
        except DoesNotFitError:
            return None
        except UnknownBoxError as unknown:
            culprit = next((v for v in dom if v in unknown.variables), None)
        if culprit is None:
            return None
        # Fix the loop at its first iteration, or at its last if the first accesses nothing.
        values = dom.pop(culprit)
        last = sub(add(values.min, values.extent), 1)
        known = analyzer or Analyzer()
        if not known.can_prove(gt(values.extent, 0)):
            return None
        at = values.min
        if known.can_prove(not_(substitute(condition, {culprit: at}))):
            at = last
        ranges = [_at(r, culprit, at) for r in ranges]
        dom = {v: _at(r, culprit, at) for v, r in dom.items()}
        condition = substitute(condition, {culprit: at})


def _at(r: Range, var: Var, value: Expr) -> Range:
    table = {var: value}
    return Range(substitute(r.min, table), substitute(r.extent, table))


def estimate_region_upper_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: Expr = _TRUE,
    analyzer: Analyzer | None = None,
) -> Box:
    """A box that contains all accessed elements; there always is one.

    It is the exact box where that is known, for all dimensions together or for a single one.
    Otherwise a dimension gets the interval of its indices over the loops, whose ranges are reduced
    by conjuncts of the predicate on single loops. The arguments are those of
    `estimate_region_strict_bound`.
    """
    exact = estimate_region_strict_bound(region, var_dom, predicate, analyzer)
    if exact is not None:
        return exact
    known = analyzer or Analyzer()
    with known.scope():
        sets = {v: IntSet.from_range(r) for v, r in var_dom.items()}
        for v, r in var_dom.items():
            known.bind(v, r, override=True)
        for condition in conjuncts_of(predicate):
            _shorten(condition, sets, known)
        box: list[IntSet] = []
        for r in region:
            alone = None
            if len(region) > 1:
                alone = estimate_region_strict_bound([r], var_dom, predicate, analyzer)
            if alone is not None:
                box += alone
                continue
            first, extent = known.simplify(r.min), known.simplify(r.extent)
            low = eval_set(first, sets, known)
            high = eval_set(sub(add(first, extent), 1), sets, known)
            box.append(IntSet.interval(low.min_value, high.max_value))
    return tuple(box)


def _shorten(condition: Expr, sets: dict[Var, IntSet], analyzer: Analyzer) -> None:
    """If `condition` depends on one loop only, remove the loop's values for which it is false."""
    inside = [v for v in sets if v in free_vars(condition)]
    if len(inside) != 1:
        return
    (var,) = inside
    solution = solve(analyzer, var, condition)
    if solution.exact and not solution.values.is_nothing:
        common = intersect_set([sets[var], solution.values], analyzer)
        if not common.is_nothing:
            sets[var] = common
