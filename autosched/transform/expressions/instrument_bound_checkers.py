"""InstrumentBoundCheckers: checks in front of the accesses that may be outside of their buffer.

before:
    def main(A: Buffer((8,), float32), n: int32):
        for i in range(8):
            A[i] = A[7 - i]
        A[n] = 1.0
after:
    def main(A: Buffer((8,), float32), n: int32):
        for i in range(8):
            A[i] = A[7 - i]
        assert n >= 0 and n < 8, "store to A[n]: the index is outside of A, which has 8 elements"
        A[n] = 1.0

Where a load is conditional, so is its check: that of `if_then_else(c, A[n], 0.0)` is
`if_then_else(c, n >= 0 and n < 8, True)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import bool_
from autosched.tir.expr import BufferLoad, Call, Expr, Let, Select
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, kinds
from autosched.tir.op import and_, ge, lt
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AllocateConst,
    AssertStmt,
    BufferRealize,
    BufferStore,
    Stmt,
    While,
    nop,
    seq,
)
from autosched.tir.walk import direct_exprs, same
from autosched.transform.expressions.effects import has_side_effect
from autosched.transform.expressions.facts import Facts, holding
from autosched.transform.expressions.memory_bounds import MemoryBounds
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_LOAD = bits_of(BufferLoad)
_Wrap = Callable[[Expr], Expr]


@dataclass(frozen=True)
class InstrumentBoundCheckers(FunctionPass):
    """Puts an AssertStmt in front of each statement with an access that may be outside.

    An access is inside if its offset, row-major, is in the memory of its buffer: a parameter
    without strides and offset, or an allocation. Where that is proven there is no check. A load in
    an arm of a Select or if_then_else, or in a store with a predicate, is checked if its condition
    holds; `and` and `or` evaluate both sides. The condition of a `while` is checked before each
    round.

    Not checked are accesses through pointers (by calls, and addresses), those whose index has a
    side effect, and of vectors, which schedules have none of here, those with a mask, under a
    condition with lanes, or whose index is no ramp. With `by_config` the pass runs if the context
    sets `tir.instrument_bound_checkers`.
    """

    name: ClassVar[str] = "InstrumentBoundCheckers"
    by_config: bool = False

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if self.by_config and not ctx.setting("tir.instrument_bound_checkers"):
            return func
        return func.with_body(_Instrumenter(func).stmt(func.body))


class _Instrumenter:
    """One walk over a function; `facts` hold at the current statement or expression.

    - `checks`: the checks of the current statement with their messages, in order of evaluation.
    - `wraps`: what makes a check here one of the statement, the outermost first.
    - `seen`: the expressions that were looked at under these `wraps`.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.facts = Facts(func)
        self.memory = MemoryBounds(func, self.facts.analyzer)
        self.checks: dict[Expr, str] = {}
        self.wraps: tuple[_Wrap, ...] = ()
        self.seen: set[Expr] = set()

    # -- statements

    def stmt(self, s: Stmt) -> Stmt:
        checks = self._checks_of(s)
        if isinstance(s, Allocate | AllocateConst | BufferRealize):
            self.memory.add(s)
        new = self.facts.map_children(s, self.stmt, same)
        if isinstance(new, While) and checks:
            new = While(new.condition, seq(new.body, _checked(checks, nop())))
        return _checked(checks, new)

    def _checks_of(self, s: Stmt) -> dict[Expr, str]:
        """The checks that precede `s`, without those of its sub-statements."""
        self.checks, self.seen = {}, set()
        if isinstance(s, BufferStore):
            predicate = s.predicate
            if predicate is None or predicate.dtype.lanes > 1:
                self._store(s)
            else:
                self._expr(predicate)
                self._arm(predicate, lambda: self._store(s))
        else:
            for e in direct_exprs(s):
                self._expr(e)
        return self.checks

    def _store(self, s: BufferStore) -> None:
        for e in (s.value, *s.indices):
            self._expr(e)
        if s.predicate is None or s.predicate.dtype.lanes == 1:
            self._access("store to", s.buffer, s.indices)

    # -- expressions

    def _expr(self, e: Expr) -> None:
        """Add the checks of the loads in `e`."""
        if not kinds(e) & _LOAD or e in self.seen:
            return
        self.seen.add(e)
        match e:
            case Select() | Call(op="if_then_else"):
                condition, value, other = e.children()
                self._expr(condition)
                if condition.dtype.lanes == 1:
                    self._arm(condition, lambda: self._expr(value))
                    self._arm(condition, lambda: self._expr(other), holds=False)
            case Let():
                self._expr(e.value)
                self.facts.define(e.var, None)
                self._within(lambda check: Let(e.var, e.value, check), lambda: self._expr(e.body))
            case Call(op="address_of"):
                for index in e.args[0].children():
                    self._expr(index)
            case BufferLoad():
                self._load(e)
            case _:
                for child in e.children():
                    self._expr(child)

    def _load(self, load: BufferLoad) -> None:
        for child in load.children():
            self._expr(child)
        if load.predicate is None:
            self._access("load of", load.buffer, load.indices)
        elif load.predicate.dtype.lanes == 1:
            self._arm(load.predicate, lambda: self._access("load of", load.buffer, load.indices))

    def _arm(self, condition: Expr, add: Callable[[], None], *, holds: bool = True) -> None:
        """Call `add`, which adds the checks of what is only evaluated where `condition` holds."""

        def wrap(check: Expr) -> Expr:
            arms = (check, TRUE) if holds else (TRUE, check)
            return Call(bool_, "if_then_else", (condition, *arms))

        known = holding(condition) if holds else self.facts.failing(condition)
        self.facts.under(known, lambda inside: self._within(wrap, inside), add)

    def _within(self, wrap: _Wrap, add: Callable[[], None]) -> None:
        outer = self.wraps, self.seen
        self.wraps, self.seen = (*self.wraps, wrap), set()
        add()
        self.wraps, self.seen = outer

    def _access(self, what: str, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        places = self.memory.places(buffer, indices)
        if places is None:
            return
        inside = (test for at in places.offsets for test in (ge(at, 0), lt(at, places.size)))
        unsure = [test for test in inside if not self.facts.analyzer.can_prove(test)]
        if not unsure:
            return
        check = reduce(lambda inner, wrap: wrap(inner), reversed(self.wraps), reduce(and_, unsure))
        if not has_side_effect(check):
            message = f"the index is outside of {buffer.name}, which has {places.size!r} elements"
            self.checks.setdefault(check, f"{what} {BufferLoad(buffer, indices)!r}: {message}")


def _checked(checks: dict[Expr, str], s: Stmt) -> Stmt:
    for check, message in reversed(checks.items()):
        s = AssertStmt(check, message, s)
    return s
