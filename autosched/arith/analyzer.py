"""The Analyzer: knowledge about variables, and simplification and proofs of expressions by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from autosched.arith.canonical import CanonicalSimplifier
from autosched.arith.compare import compare
from autosched.arith.const_int_bound import (
    NEG_INF,
    POS_INF,
    Bound,
    BoundEvaluator,
    ConstIntBound,
    add_high,
)
from autosched.arith.facts import Facts, facts_of
from autosched.arith.modular_set import ModularEvaluator, ModularSet
from autosched.arith.rewrite import Found, RewriteSimplifier
from autosched.tir.expr import Expr, FloatImm, IntImm, Range, StringImm, Var
from autosched.tir.op import eq, sub
from autosched.tir.walk import free_vars

_CONSTANTS = frozenset((IntImm, FloatImm, StringImm))
_MAX_ROUNDS = 4
_MAX_PROOFS = 3
_State = tuple[Any, ...]
"""All knowledge and memos of an analyzer; the last item is the set of variables involved."""


class Analyzer:
    """Bounds, residues, simplification and proofs under the variables bound so far.

    `bind` and `constraint` add knowledge and invalidate the memos that it could change. An answer
    holds for all values that the variables can take.

    With `as_ansor`, simplification stops where Ansor's does. The form in which an index is left
    decides the texts of states, the operations that features count, and which loops of a GPU kernel
    count as vectorized. The default goes on while anything changes. `as_ansor` differs in five
    ways: it does one round instead of up to four; it does not merge the quotient of a sum with a
    quotient around it; it does not divide `<=` by common factors as it does `<`; a condition about
    a sum implies no bound on multiples of the sum; and integers other than int32 and int64 are only
    folded when constant.
    """

    __slots__ = (
        "_bound",
        "_left",
        "_seen",
        "_simplified",
        "_truths",
        "as_ansor",
        "bounds",
        "literals",
        "moduli",
        "nesting",
        "normalized",
        "rewritten",
        "settled",
        "values",
    )

    def __init__(self, as_ansor: bool = False) -> None:
        self.as_ansor = as_ansor
        self.values: dict[Var, Expr] = {}
        self.literals: dict[Expr, bool] = {}
        self.bounds = BoundEvaluator({}, {})
        self.moduli = ModularEvaluator({})
        self.rewritten = Found()
        self.normalized = Found()
        self.settled: set[Expr] = set()
        self.nesting = 0
        self._simplified: dict[Expr, Expr] = {}
        self._truths: frozenset[tuple[Expr, bool]] = frozenset()
        self._seen: set[Var] = set()
        # The variables bound since the last `enter`, and the states left by `leave`, by condition:
        # entering the same condition again reuses the state.
        self._bound: set[Var] = set()
        self._left: dict[Expr, _State] = {}

    @property
    def rewrite(self) -> RewriteSimplifier:
        """A simplifier that applies the rewrite rules under the present knowledge."""
        return RewriteSimplifier(self, self.rewritten)

    @property
    def canonical(self) -> CanonicalSimplifier:
        """A simplifier that makes canonical forms under the present knowledge."""
        return CanonicalSimplifier(self, self.normalized)

    # -- knowledge

    def bind(self, var: Var, value: Expr | Range, override: bool = False) -> None:
        """Record that `var` equals the expression `value`, or lies in the range `value`.

        With a range of extent 1, `var` equals the range's min. Raises ValueError when `var` is
        bound to something else already, unless `override`.
        """
        if isinstance(value, Range):
            extent = value.extent
            if extent.__class__ is IntImm and extent.value == 1:
                self._bind_value(var, value.min, override)
            else:
                low, high = self.bounds(value.min)
                high = add_high(add_high(high, self.bounds(extent)[1]), -1)
                self._bind_bound(var, (low, max(low, high)), override)
        else:
            self._bind_value(var, value, override)

    def _bind_value(self, var: Var, value: Expr, override: bool) -> None:
        value = self.simplify(value)
        old = self.values.get(var)
        if old is value:
            return
        if old is not None and not override:
            raise ValueError(f"{var.name} is bound to {old!r} already, not to {value!r}")
        bound, residues = self.bounds(value), self.moduli(value)
        self._forget(var)
        self._seen |= free_vars(value)
        self.bounds.env[var] = bound  # type: ignore[index]  # the analyzer owns the dict
        self.moduli.env[var] = residues  # type: ignore[index]
        self.values[var] = value

    def _bind_bound(self, var: Var, bound: Bound, override: bool) -> None:
        old = self.bounds.env.get(var)
        if old == bound and var not in self.values:
            return
        if old is not None and not override:
            raise ValueError(f"{var.name} is bound to {old} already, not to {bound}")
        self._forget(var)
        self.values.pop(var, None)
        self.moduli.env.pop(var, None)  # type: ignore[attr-defined]
        self.bounds.env[var] = bound  # type: ignore[index]

    def update_bound(self, var: Var, bound: ConstIntBound) -> None:
        """Record that `var` lies in `bound`, replacing all earlier knowledge about it."""
        self._bind_bound(var, (bound.min_value, bound.max_value), True)

    def _forget(self, var: Var) -> None:
        """Drop all memos if they may involve `var`."""
        self._bound.add(var)
        for condition in [c for c, state in self._left.items() if var in state[-1]]:
            del self._left[condition]
        if var in self._seen:
            self._fresh()
            self._seen = set()
            for value in self.values.values():
                self._seen |= free_vars(value)

    def _fresh(self) -> None:
        self.bounds.memo = {}
        self.moduli.memo = {}
        self.rewritten.memo = {}
        self.normalized.memo = {}
        self.normalized.forms = {}
        self.settled = set()
        self._simplified = {}
        self._left = {}

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A context that undoes the bindings made inside of it at its end."""
        saved = self._save()
        bound, self._bound = self._bound, set()
        self.values = dict(self.values)
        self.bounds.env = dict(self.bounds.env)
        self.moduli.env = dict(self.moduli.env)
        self._seen = set(self._seen)
        self._fresh()
        try:
            yield
        finally:
            self._restore(saved)
            self._bound = bound

    def constraint(self, condition: Expr) -> Constraint:
        """A context in which `condition` holds: `with analyzer.constraint(i < n): ...`."""
        return Constraint(self, condition)

    def _save(self) -> _State:
        return (
            self.values,
            self.literals,
            self._truths,
            self.bounds.env,
            self.bounds.facts,
            self.bounds.linear,
            self.bounds.fact_vars,
            self.bounds.memo,
            self.moduli.env,
            self.moduli.memo,
            self.rewritten.memo,
            self.normalized.memo,
            self.normalized.forms,
            self.settled,
            self._simplified,
            self._left,
            self._seen,
        )

    def _restore(self, saved: _State) -> None:
        (
            self.values,
            self.literals,
            self._truths,
            self.bounds.env,
            self.bounds.facts,
            self.bounds.linear,
            self.bounds.fact_vars,
            self.bounds.memo,
            self.moduli.env,
            self.moduli.memo,
            self.rewritten.memo,
            self.normalized.memo,
            self.normalized.forms,
            self.settled,
            self._simplified,
            self._left,
            self._seen,
        ) = saved

    def enter(self, condition: Expr) -> tuple[Any, ...]:
        """Assume `condition`; returns the token with which `leave` undoes it."""
        again = self._left.pop(condition, None)
        if again is not None:
            saved = self._save()
            self._restore(again)
        else:
            facts = facts_of(self, condition)
            if facts is None:
                return ()
            saved = self._save()
            self._add(facts)
        bound, self._bound = self._bound, set()
        return saved, bound, condition

    def leave(self, entered: tuple[Any, ...]) -> None:
        """Undo `enter`, whose result is `entered`; bindings made in between stay."""
        if not entered:
            return
        saved, bound, condition = entered
        inner, new = self._save(), self._bound
        self._restore(saved)
        self._bound = bound | new
        if not self._seen.isdisjoint(new):
            self._fresh()
        if not new and self.moduli.env is inner[8]:
            self._left[condition] = inner

    def _add(self, facts: Facts) -> None:
        self.literals = {**self.literals, **facts.literals}
        self._truths = frozenset(self.literals.items())
        known = dict(self.bounds.facts or {})
        for e, (low, high) in facts.bounds:
            old = known.get(e, (NEG_INF, POS_INF))
            known[e] = (max(low, old[0]), min(high, old[1]))
        self.bounds.facts = known
        self.bounds.linear += tuple(facts.linear)
        self.bounds.fact_vars = self.bounds.fact_vars.union(
            *(free_vars(e) for e, _ in facts.bounds)
        )
        if facts.residues:
            self.moduli.env = {**self.moduli.env, **facts.residues}
        self._seen = set(self._seen)
        self._fresh()

    # -- questions

    def const_int_bound(self, e: Expr) -> ConstIntBound:
        """The interval that contains all values of `e`."""
        self._seen |= free_vars(e)
        return ConstIntBound(*self.bounds(e))

    def modular_set(self, e: Expr) -> ModularSet:
        """The residue class that contains all values of `e`."""
        self._seen |= free_vars(e)
        return self.moduli(e)

    def rewrite_simplify(self, e: Expr) -> Expr:
        """`e` simplified by the rewrite rules only."""
        self._seen |= free_vars(e)
        return self.rewrite(e)

    def canonical_simplify(self, e: Expr) -> Expr:
        """`e` in canonical form."""
        self._seen |= free_vars(e)
        return self.canonical.visit(e)

    def simplify(self, e: Expr) -> Expr:
        """`e` simplified: canonical form, rewrite rules, canonical form, until nothing changes."""
        cls = e.__class__
        if cls in _CONSTANTS:
            return e
        if cls is Var:
            return self.values.get(e, e)  # type: ignore[call-overload, no-any-return]
        found = self._simplified.get(e)
        if found is None:
            variables = free_vars(e)
            self._seen |= variables
            found = self._simplified[e] = self._from_node(e, variables)
            self._simplified[found] = found
        return found

    def _from_node(self, e: Expr, variables: frozenset[Var]) -> Expr:
        """`e` simplified, cached on the node for analyzers with the same knowledge about it."""
        if self.values and not self.values.keys().isdisjoint(variables):
            return self._simplify(e)
        known = tuple(map(self.bounds.env.get, variables)), self._truths, self.as_ansor
        remembered, result = getattr(e, "_simple", (None, None))
        if remembered == known:
            return e if result is None else result
        found = self._simplify(e)
        # None stands for the node itself: a reference to itself would keep the node alive.
        e._simple = known, None if found is e else found
        if found is not e and found.__class__ not in _CONSTANTS:
            bounds = tuple(map(self.bounds.env.get, free_vars(found)))
            found._simple = (bounds, self._truths, self.as_ansor), None
        return found

    def _simplify(self, e: Expr) -> Expr:
        result = self.canonical.visit(e)
        rewrite, canonical = self.rewrite, self.canonical
        for _ in range(1 if self.as_ansor else _MAX_ROUNDS):
            if result.__class__ in _CONSTANTS or result in self.settled:
                break
            before = result
            result = rewrite(result)
            if result.__class__ in _CONSTANTS:
                break
            result = canonical.visit(result)
            if result is before:
                break
        return result

    def compare(self, a: Expr, b: Expr) -> int:
        """The possible relations of `a` to `b`, as a union of bits LESS, EQUAL, GREATER."""
        return compare(self, a, b)

    def can_prove(self, condition: Expr) -> bool:
        """True when `condition` holds for all values of the variables."""
        result: Any = self.simplify(condition)
        return result.__class__ is IntImm and result.value != 0

    def prove_nested(self, condition: Expr) -> bool:
        """`can_prove` for use inside simplification; False when proofs nest too deeply."""
        if self.nesting >= _MAX_PROOFS:
            return False
        self.nesting += 1
        result = self.can_prove(condition)
        self.nesting -= 1
        return result

    def can_prove_equal(self, a: Expr, b: Expr) -> bool:
        """True when `a` and `b` are provably equal."""
        if a is b:
            return True
        if a.__class__ is IntImm and b.__class__ is IntImm:
            return a.value == b.value
        return self.can_prove(eq(sub(a, b), 0))

    def can_prove_less(self, a: Expr, limit: int) -> bool:
        """True when `a` is provably less than `limit`."""
        return self._simple_bound(a)[1] < limit

    def can_prove_greater_equal(self, a: Expr, limit: int) -> bool:
        """True when `a` is provably at least `limit`."""
        return self._simple_bound(a)[0] >= limit

    def mark_non_negative(self, var: Var) -> None:
        """Record that `var`, a symbolic size, is at least 0, unless it is bound already."""
        if var not in self.bounds.env and var not in self.values:
            self._bind_bound(var, (0, POS_INF), False)

    def _simple_bound(self, e: Expr) -> Bound:
        if e.__class__ is IntImm:
            value: int = e.value
            return value, value
        self._seen |= free_vars(e)
        return self.bounds(self.rewrite(e))


class Constraint:
    """A context manager in which a condition is assumed to hold."""

    __slots__ = ("_analyzer", "_condition", "_entered")

    def __init__(self, analyzer: Analyzer, condition: Expr) -> None:
        self._analyzer = analyzer
        self._condition = condition
        self._entered: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        self._entered = self._analyzer.enter(self._condition)

    def __exit__(self, *_: object) -> None:
        self._analyzer.leave(self._entered)
