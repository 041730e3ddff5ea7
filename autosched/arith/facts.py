"""The facts about expressions that follow from a condition that holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import TYPE_CHECKING, Any

from autosched.arith.const_int_bound import NEG_INF, POS_INF, Bound
from autosched.arith.modular_set import ModularSet, residues
from autosched.arith.sum_form import LinearFact, Sum, Term, emit, representable
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Call,
    Expr,
    FloorMod,
    IntImm,
    Not,
    Or,
    SizeVar,
    Var,
)

if TYPE_CHECKING:
    from autosched.arith.analyzer import Analyzer

_NEGATED: dict[type[Expr], type[Any]] = {EQ: NE, NE: EQ, LT: GE, GE: LT, LE: GT, GT: LE}


@dataclass(slots=True)
class Facts:
    """Facts that a condition implies.

    `literals` maps conditions to their truth, `bounds` are bounds of expressions, `residues` maps
    variables to residue classes, and `linear` are bounds of sums.
    """

    literals: dict[Expr, bool] = field(default_factory=dict)
    bounds: list[tuple[Expr, Bound]] = field(default_factory=list)
    residues: dict[Var, ModularSet] = field(default_factory=dict)
    linear: list[LinearFact] = field(default_factory=list)


def facts_of(analyzer: Analyzer, condition: Expr) -> Facts | None:
    """The facts that follow from `condition`; None when `analyzer` can decide all its conjuncts."""
    conjuncts = conjuncts_of(condition)
    simplified: list[Expr] = []
    for conjunct in conjuncts:
        simple: Any = analyzer.simplify(conjunct)
        if simple.__class__ is IntImm:
            continue
        simplified += [c for c in conjuncts_of(simple) if c is not conjunct]
        simplified.append(conjunct)
    if not simplified:
        return None
    facts = Facts()
    for conjunct in simplified:
        facts.literals[conjunct] = True
        _add_negation(facts, conjunct)
        _add_bounds(analyzer, facts, conjunct)
    return facts


def conjuncts_of(condition: Any) -> list[Expr]:
    """The conjuncts of `condition`, without likely() and double negations.

    `not` is pushed into `or`, and into comparisons that are not of floats.
    """
    cls = condition.__class__
    if cls is And:
        return conjuncts_of(condition.a) + conjuncts_of(condition.b)
    if cls is Call and condition.op == "likely":
        return conjuncts_of(condition.args[0])
    if cls is Not:
        inner = condition.a
        if inner.__class__ is Or:
            return conjuncts_of(Not(inner.a)) + conjuncts_of(Not(inner.b))
        if inner.__class__ is Not:
            return conjuncts_of(inner.a)
        if inner.__class__ is Call and inner.op == "likely":
            return conjuncts_of(Not(inner.args[0]))
        negated = _NEGATED.get(inner.__class__)
        if negated is not None and not inner.a.dtype.is_float:
            return [negated(inner.a, inner.b)]
    return [condition]


def _add_negation(facts: Facts, condition: Any) -> None:
    cls = condition.__class__
    negated = _NEGATED.get(cls)
    if cls is Not:
        facts.literals[condition.a] = False
        return
    facts.literals[Not(condition)] = False
    if negated is None:
        return
    a, b = condition.a, condition.b
    if cls in (EQ, NE):
        facts.literals[cls(b, a)] = True
        facts.literals[negated(a, b)] = False
        facts.literals[negated(b, a)] = False
    elif not a.dtype.is_float:
        facts.literals[negated(a, b)] = False
        facts.literals[_mirrored(cls)(b, a)] = True
        facts.literals[_mirrored(negated)(b, a)] = False


def _mirrored(cls: type[Any]) -> type[Any]:
    return {LT: GT, GT: LT, LE: GE, GE: LE}[cls]


def _add_bounds(analyzer: Analyzer, facts: Facts, condition: Any) -> None:
    cls = condition.__class__
    if cls not in _NEGATED or cls is NE or not condition.a.dtype.is_index:
        return
    a, b = condition.a, condition.b
    if cls is EQ:
        _add_residue(facts, a, b)
    if cls in (GT, GE):
        a, b = b, a
    # The bound of a - b: at most 0, less for a strict comparison, exactly 0 for ==.
    terms: list[Term] = []
    base = analyzer.canonical.gather(a, 1, terms) + analyzer.canonical.gather(b, -1, terms)
    terms = [t for t in terms if t.scale]
    high = -base - (cls in (LT, GT))
    low = -base if cls is EQ else NEG_INF
    if terms:
        _add_linear(analyzer, facts, terms, (low, high), a.dtype)
    # A side compared with a constant also gets a bound as it is written.
    if b.__class__ is IntImm:
        top = b.value - (cls in (LT, GT))
        facts.bounds.append((a, (b.value if cls is EQ else NEG_INF, top)))
    elif a.__class__ is IntImm:
        bottom = a.value + (cls in (LT, GT))
        facts.bounds.append((b, (bottom, a.value if cls is EQ else POS_INF)))


def _add_linear(
    analyzer: Analyzer, facts: Facts, terms: list[Term], bound: Bound, dtype: DType
) -> None:
    """Add the bound of a sum without constant, of its negation, and of both over their gcd."""
    if len(terms) > 1:
        multiples = not analyzer.as_ansor
        facts.linear.append(LinearFact(tuple(terms), *bound, multiples))
    for sign in (1, -1):
        signed = [t._replace(scale=t.scale * sign) for t in terms]
        low, high = bound if sign == 1 else (-bound[1], -bound[0])
        if not representable(Sum(tuple(signed), 0), dtype):
            continue
        total = emit(signed, 0, dtype)
        if analyzer.bounds.wraps(total):
            continue  # a sum that may wrap need not have the exact sum's value
        facts.bounds.append((total, (low, high)))
        factor = gcd(*(t.scale for t in terms))
        if factor > 1:
            reduced = [t._replace(scale=t.scale // factor) for t in signed]
            low = low if low <= NEG_INF else -(-low // factor)
            high = high if high >= POS_INF else high // factor
            facts.bounds.append((emit(reduced, 0, dtype), (low, high)))


def _add_residue(facts: Facts, a: Any, b: Any) -> None:
    if (
        a.__class__ is FloorMod
        and a.a.__class__ in (Var, SizeVar)
        and a.b.__class__ is IntImm
        and b.__class__ is IntImm
        and a.b.value > 0
    ):
        facts.residues[a.a] = residues(a.b.value, b.value)
