"""What a statement accesses of a buffer while its loops run: boxes inside, around, and exact.

The region of one iteration is a box, one range for each dimension; all iterations for which the
predicate holds together access the union A of these boxes.

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
    """The box that is exactly what is accessed: one set for each dimension; None if unknown.

    `region` is the box of one iteration, `var_dom` the range of each loop, `predicate` the
    condition under which an iteration accesses anything. Ends mention variables outside of
    `var_dom`, of which `analyzer` may know something. A set that is nothing: there is no access.
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
    """A box of which every element is accessed; None if none is found.

    It is the exact one where that is known; otherwise some loops are left at their first or last
    iteration. The arguments are those of `estimate_region_strict_bound`. A box with a set that is
    nothing is empty: nothing is accessed in the iterations looked at.
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
        # The first iteration, unless nothing is accessed in it.
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
    """A box that contains everything that is accessed; there always is one.

    It is the exact one where that is known, of all dimensions or of one alone; otherwise a
    dimension has the interval of its indices over the loops, shortened by what the predicate says
    of single loops. The arguments are those of `estimate_region_strict_bound`.
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
    """Take the values away from the only loop in `condition` for which it does not hold."""
    inside = [v for v in sets if v in free_vars(condition)]
    if len(inside) != 1:
        return
    (var,) = inside
    solution = solve(analyzer, var, condition)
    if solution.exact and not solution.values.is_nothing:
        common = intersect_set([sets[var], solution.values], analyzer)
        if not common.is_nothing:
            sets[var] = common
