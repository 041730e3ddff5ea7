"""The guards that a stage's stores need: conditions under which an iteration is inside the tensor.

A split whose factor does not divide the extent makes iterations that must be skipped, and so does
a computed region that exceeds the tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from autosched.arith import Analyzer, IntSet
from autosched.arith.interval_eval import eval_set
from autosched.te.bounds.const_interval import ConstIntervals, Interval
from autosched.te.relations import Fuse, Rebase, Split
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar, Range, Var
from autosched.tir.op import ge, lt, mul, sub

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage


class BoundFacts:
    """The domains of loops, and proofs about values over them.

    The forms in which proofs need the domains (sets, an Analyzer, constant intervals) are built
    when first used.
    """

    __slots__ = ("_analyzer", "_constants", "_sets", "domains")

    def __init__(self, domains: Mapping[IterVar, Range]) -> None:
        self.domains = domains
        self._constants: ConstIntervals | None = None
        self._sets: dict[Var, IntSet] | None = None
        self._analyzer: Analyzer | None = None

    @property
    def sets(self) -> dict[Var, IntSet]:
        """The domain of every loop variable, as a set."""
        if self._sets is None:
            self._sets = {iv.var: IntSet.from_range(r) for iv, r in self.domains.items()}
        return self._sets

    @property
    def analyzer(self) -> Analyzer:
        """An Analyzer that knows the domain of every loop variable."""
        if self._analyzer is None:
            self._analyzer = Analyzer(as_ansor=True)
            for iv, dom in self.domains.items():
                self._analyzer.bind(iv.var, dom, override=True)
        return self._analyzer

    def constants(self, value: Expr) -> Interval | None:
        """The smallest and largest value of `value`, when constant domains suffice to tell.

        None when `value` depends on a symbolic domain, or `ConstIntervals` has no rule for it.
        """
        if self._constants is None:
            self._constants = ConstIntervals(self.domains.items())
        return self._constants(value)

    def below(self, value: Expr, extent: Expr) -> bool:
        """True when `value` is provably less than `extent` over all the domains."""
        ends = self.constants(value)
        if ends is not None and isinstance(extent, IntImm):
            return ends[1] < extent.value
        values = eval_set(value, self.sets, self.analyzer)
        if not values.has_upper_bound or values.max_value.dtype is not value.dtype:
            return False
        return self.analyzer.can_prove(lt(values.max_value, extent))

    def not_negative(self, value: Expr) -> bool:
        """True when `value` is provably at least 0 over all the domains."""
        ends = self.constants(value)
        if ends is not None:
            return ends[0] >= 0
        values = eval_set(value, self.sets, self.analyzer)
        if not values.has_lower_bound or values.min_value.dtype is not value.dtype:
            return False
        return self.analyzer.can_prove(ge(values.min_value, 0))


def pass_up_bound_check(stage: Stage, dom_map: Mapping[IterVar, Range]) -> set[IterVar]:
    """The axes whose values may exceed their domain while the leaf loops stay within theirs."""
    flagged: set[IterVar] = set()
    for relation in reversed(stage.relations):
        if isinstance(relation, Split):
            if (
                relation.outer in flagged
                or relation.inner in flagged
                or not (relation.disable_predication or _divides(relation, dom_map))
            ):
                flagged.add(relation.parent)
        elif isinstance(relation, Fuse):
            if relation.fused in flagged:
                flagged |= {relation.outer, relation.inner}
        elif isinstance(relation, Rebase) and relation.rebased in flagged:
            flagged.add(relation.parent)
    return flagged


def _implied(
    stage: Stage, dom_map: Mapping[IterVar, Range], skip_iter: Collection[IterVar]
) -> set[IterVar]:
    """The axes whose split divides evenly, so that they need no guard of their own.

    Such an axis is within its domain where both of its parts are within theirs. An axis with a part
    in `skip_iter`, for which there is no guard, is left out.
    """
    return {
        relation.parent
        for relation in stage.relations
        if isinstance(relation, Split)
        and relation.outer not in skip_iter
        and relation.inner not in skip_iter
        and _divides(relation, dom_map)
    }


def _divides(split: Split, dom_map: Mapping[IterVar, Range]) -> bool:
    parent, outer, inner = (dom_map.get(iv) for iv in (split.parent, split.outer, split.inner))
    if parent is None or outer is None or inner is None:
        return False
    product = mul(inner.extent, outer.extent)
    if isinstance(parent.extent, IntImm) and isinstance(product, IntImm):
        return parent.extent.value == product.value
    return Analyzer(as_ansor=True).can_prove_equal(parent.extent, product)


def make_bound_check(
    stage: Stage,
    dom_map: Mapping[IterVar, Range],
    value_map: Mapping[IterVar, Expr],
    skip_ivar_domain: bool,
    skip_iter: Collection[IterVar],
    facts: BoundFacts | None = None,
) -> list[Expr]:
    """The guards of `stage` that cannot be proven to hold always, in Ansor's order.

    First come the guards of splits that do not divide evenly, over all axes in the order in which
    they were made. Unlike in Ansor, an axis whose own split divides evenly gets no guard: the
    guards of its parts imply it. Then, unless `skip_ivar_domain`, come the guards of root axes
    whose inferred domain differs from the declared one. Axes in `skip_iter` get none. Calls with
    the same `dom_map` may share `facts`.
    """
    facts = facts or BoundFacts(dom_map)
    predicates: list[Expr] = []
    flagged = pass_up_bound_check(stage, dom_map)
    if flagged:
        implied = _implied(stage, dom_map, skip_iter)
        for iv in stage.all_iter_vars:
            if iv in implied:
                continue
            if iv in flagged and iv not in skip_iter and iv.kind != IterKind.OPAQUE:
                dom = dom_map[iv]
                value = sub(value_map[iv], dom.min)
                if not facts.below(value, dom.extent):
                    predicates.append(lt(value, dom.extent))
    if skip_ivar_domain:
        return predicates
    for iv in stage.op.root_iter_vars:
        declared = iv.dom
        if iv in skip_iter or iv.kind == IterKind.OPAQUE or declared is None:
            continue
        if _same_range(declared, dom_map[iv]):
            continue
        value = sub(value_map[iv], declared.min)
        if not facts.not_negative(value):
            predicates.append(ge(value, 0))
        if not facts.below(value, declared.extent):
            predicates.append(lt(value, declared.extent))
    return predicates


def _same_range(a: Range, b: Range) -> bool:
    return a is b or (_same(a.min, b.min) and _same(a.extent, b.extent))


def _same(a: Expr, b: Expr) -> bool:
    """True when the declared `a` equals the inferred `b`, which is simplified already."""
    if a is b:
        return True
    if isinstance(a, IntImm):
        return isinstance(b, IntImm) and a.value == b.value
    return Analyzer(as_ansor=True).can_prove_equal(a, b)
