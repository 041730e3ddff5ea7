"""The conditions that LoopPartition knows at a place of a program, and those marked likely()."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from autosched.tir.expr import Call, Expr, IntImm, Var
from autosched.tir.op import all_
from autosched.tir.stmt import AttrStmt, For, IfThenElse, Stmt
from autosched.tir.walk import (
    child_stmts,
    direct_exprs,
    free_vars,
    map_children,
    map_expr_children,
    stmts,
)
from autosched.transform.loops.loop_interval import (
    Condition,
    LoopConditions,
    Part,
    as_condition,
    conditions_in,
    likely_parts,
    loop_conditions,
)

HINT = "pragma_loop_partition_hint"
CONDITIONS, VALUES = "conditions of statements", "values"


def work_in(body: Stmt) -> set[str]:
    """Where `body` has a likely() or a hint: CONDITIONS of statements, VALUES, both or neither."""
    known: dict[Expr, bool] = {}
    work: set[str] = set()
    for s in stmts(body):
        if isinstance(s, AttrStmt) and s.key == HINT:
            work |= {CONDITIONS, VALUES}
        elif isinstance(s, IfThenElse):
            if _has_likely(s.condition, known):
                work.add(CONDITIONS)
        elif any(_has_likely(e, known) for e in direct_exprs(s)):
            work.add(VALUES)
    return work


def _has_likely(e: Expr, known: dict[Expr, bool]) -> bool:
    found = known.get(e)
    if found is None:
        found = isinstance(e, Call) and e.op == "likely"
        found = found or any(_has_likely(part, known) for part in e.children())
        known[e] = found
    return found


class KnownConditions:
    """What is known of conditions, from assumptions and from the ranges of variables.

    `env` has the least and the largest value of each enclosing loop variable and thread. `decided`
    has the truth of each assumed condition. The parts in `not_throughout` do not always hold. With
    `every`, conditions without a likely() count, too.
    """

    def __init__(self, in_values: bool) -> None:
        self._in_values = in_values
        self.env: dict[Var, tuple[int, int]] = {}
        self.decided: dict[Expr, bool] = {}
        self.not_throughout: list[Part] = []
        self.every = False
        self._asked: dict[Stmt, frozenset[Var]] = {}
        self._compared: dict[Expr, Condition | None] = {}

    def left_of(self, condition: Expr) -> Expr | bool:
        """`condition` without its decided conjuncts: True if none is left, False if one fails."""
        kept: list[Expr] = []
        decided = False
        for part, is_likely in likely_parts(condition):
            truth = self._truth(part) if is_likely or self.every else None
            if truth is False:
                return False
            if truth is None:
                kept.append(Call(part.dtype, "likely", (part,)) if is_likely else part)
            else:
                decided = True
        if not decided:
            return condition
        return all_(*kept) if kept else True

    def _truth(self, source: Expr) -> bool | None:
        """The truth of a condition that has no likely(); None if it is unknown."""
        known = self.decided.get(source)
        if known is not None:
            return known
        if isinstance(source, IntImm):
            return bool(source.value)
        condition = self._exact(source)
        return None if condition is None else condition.truth(self.env)

    def _exact(self, source: Expr) -> Condition | None:
        """The comparison `source`, cached because every loop around it asks for it."""
        if source not in self._compared:
            self._compared[source] = as_condition(source)
        return self._compared[source]

    def asked_in(self, s: Stmt) -> frozenset[Var]:
        """The variables that conditions in `s` mention; loops over others need no look."""
        known = self._asked.get(s)
        if known is None:
            found: set[Var] = set()
            for child in child_stmts(s):
                found |= self.asked_in(child)
            if isinstance(s, IfThenElse):
                found |= free_vars(s.condition)
            if self._in_values:
                for e in direct_exprs(s):
                    conditions_in(e, lambda condition: found.update(free_vars(condition)), set())
            known = self._asked[s] = frozenset(found)
        return known

    def undecided(self, loop: For, span: tuple[int, int] | None) -> LoopConditions:
        """The conditions in the loop's body that depend on its variable and are not decided.

        `span` is the constant range of the variable, None if the range is not constant.
        """
        found = loop_conditions(
            *(loop.loop_var, loop.body),
            every=self.every,
            in_values=self._in_values,
            exact_of=self._exact,
        )
        env = self.env if span is None else {**self.env, loop.loop_var: span}
        return LoopConditions(
            loop.loop_var,
            [c for c in found.conditions if c.source not in self.decided and c.truth(env) is None],
        )

    @contextmanager
    def assuming(
        self,
        holds: Iterable[Condition],
        fails: Iterable[Condition] = (),
        not_throughout: Iterable[Part] = (),
    ) -> Iterator[None]:
        """Assume inside the context what holds, what fails, and what does not always hold."""
        known, parts = self.decided, self.not_throughout
        self.decided = {
            **known,
            **{c.source: not c.negated for c in holds},
            **{c.source: c.negated for c in fails},
        }
        self.not_throughout = [*parts, *not_throughout]
        yield
        self.decided, self.not_throughout = known, parts


def drop_likely(body: Stmt) -> Stmt:
    """`body` with likely(x) replaced by x."""
    return _Dropper().stmt(body)


class _Dropper:
    def __init__(self) -> None:
        self.memo: dict[Expr, Expr] = {}

    def stmt(self, s: Stmt) -> Stmt:
        return map_children(s, self.stmt, self.expr)

    def expr(self, e: Expr) -> Expr:
        done = self.memo.get(e)
        if done is None:
            if isinstance(e, Call) and e.op == "likely":
                done = self.expr(e.args[0])
            else:
                done = map_expr_children(e, self.expr)
            self.memo[e] = done
        return done
