"""Restrict loops to the iterations whose variables have chosen remainders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autosched.tir.copy_stmt import copy_stmt
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.linear import sum_of
from autosched.tir.loops import count_from_zero
from autosched.tir.op import add, const, floormod, mul
from autosched.tir.stmt import BufferStore, For, IfThenElse, SeqStmt, Stmt, is_nop, nop, seq
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import map_children
from autosched.transform.loops.known_zeros import Residue


@dataclass(frozen=True, slots=True)
class Class:
    """The iterations start, start + period, ... of a loop, where start is below the period."""

    start: Expr
    period: int


def periods(residues: Iterable[Residue], variables: Iterable[Var]) -> dict[Var, int]:
    """The number of steps of each of `variables` after which all residues repeat.

    Variables that no residue depends on are left out.
    """
    found: dict[Var, int] = {}
    wanted = list(variables)
    for residue in residues:
        for var in wanted:
            factor = residue.terms.get(var, 0)
            if factor:
                period = residue.modulus // math.gcd(factor, residue.modulus)
                found[var] = math.lcm(found.get(var, 1), period)
    return found


def choices(period_of: Mapping[Var, int]) -> Iterator[dict[Var, int]]:
    """Every combination of remainders of the variables, each below its period."""
    for starts in itertools.product(*map(range, period_of.values())):
        yield dict(zip(period_of, starts, strict=True))


def holds(residue: Residue, starts: Mapping[Var, int]) -> bool:
    """Whether a residue that depends on no other variables holds in the classes with `starts`."""
    return _inside(residue, starts)[0] % residue.modulus == 0


def solved(residue: Residue, var: Var, starts: Mapping[Var, int]) -> Class:
    """The class of `var` in which `residue` holds, in terms of the variables that have no start.

    The factor of `var` must have an inverse modulo the modulus of the residue.
    """
    modulus = residue.modulus
    times = -pow(residue.terms[var], -1, modulus)
    constant, outside = _inside(residue, starts)
    terms = {t: f * times % modulus for t, f in outside.items() if t is not var}
    start = sum_of(terms, constant * times % modulus, var.dtype)
    return Class(floormod(start, modulus), modulus)


def _inside(residue: Residue, starts: Mapping[Var, int]) -> tuple[int, dict[Expr, int]]:
    """The residue's constant plus the terms of variables with a start, and the other terms."""
    total, outside = residue.constant, dict(residue.terms)
    for var, start in starts.items():
        total += outside.pop(var, 0) * start
    return total, outside


def constant_class(start: int, period: int, var: Var) -> Class:
    """The class with a constant start."""
    return Class(const(start, var.dtype), period)


@dataclass(frozen=True, slots=True)
class Restriction:
    """A restriction of loops to some of their iterations.

    `classes` has the class of each restricted loop, by variable. The statement `at` is copied for
    each of `alternatives`, which have classes for loops from there on inwards. The store `old`
    becomes `new`.
    """

    classes: Mapping[Var, Class]
    at: Stmt | None
    alternatives: Sequence[Mapping[Var, Class]]
    old: BufferStore
    new: BufferStore

    def stmt(self, s: Stmt) -> Stmt:
        """`s` with the chosen iterations alone."""
        if s is self.at:
            within = [
                replace(self, classes={**self.classes, **more}, at=None).stmt(s)
                for more in self.alternatives
            ]
            return seq(*within[:1], *(copy_stmt(c, {}) for c in within[1:]))
        if isinstance(s, BufferStore):
            return self.new if s is self.old else s
        if isinstance(s, For):
            return self._loop(s)
        if isinstance(s, SeqStmt):
            return seq(*map(self.stmt, s.stmts))
        found = map_children(s, self.stmt)
        inner = found.then_case if isinstance(found, IfThenElse) else getattr(found, "body", found)
        return nop() if is_nop(inner) else found

    def _loop(self, loop: For) -> Stmt:
        body, var = self.stmt(loop.body), loop.loop_var
        chosen = self.classes.get(var)
        if is_nop(body):
            return nop()
        if chosen is None:
            return loop if body is loop.body else loop.with_(body=body)
        extent = iterations(count_from_zero(loop), chosen)
        if extent <= 0:
            return nop()
        if extent == 1:
            return substitute_stmt(body, {var: chosen.start})
        index = add(mul(var, const(chosen.period, var.dtype)), chosen.start)
        body = substitute_stmt(body, {var: index})
        return loop.with_(extent=const(extent, var.dtype), body=body)


def iterations(extent: int, chosen: Class) -> int:
    """The number of iterations of a loop that are in the class.

    A class whose start is not constant has the same number for every start, because the period
    divides the extent.
    """
    start = chosen.start.value if isinstance(chosen.start, IntImm) else 0
    return -(-(extent - start) // chosen.period)
