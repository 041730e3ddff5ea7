"""Which operations jump with floats: the last bit of an operand decides for another result.

    floor(A[i] / 0.1)        another whole number
    A[i] / 3 * 3 > A[i]      the other truth value

Code generators round every product, sum and quotient in such operands by itself, as NumPy does:
fused, or by a reciprocal, they would be other floats.
"""

from __future__ import annotations

from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    Let,
    Mod,
    Var,
)
from autosched.tir.kinds import bits_of, kinds_in
from autosched.tir.stmt import LetStmt, Stmt
from autosched.tir.walk import free_vars, stmts, unique_exprs

ROUNDINGS = frozenset(("floor", "ceil", "round", "nearbyint", "trunc"))
"""Calls that give whole numbers."""

_LET = bits_of(Let)


def jumps(e: Expr) -> bool:
    """Whether `e` makes whole numbers of floats, or compares floats."""
    match e:
        case Cast(value):
            return value.dtype.is_float and e.dtype.is_integral
        case EQ(a) | NE(a) | LT(a) | LE(a) | GT(a) | GE(a):
            return a.dtype.is_float
        case FloorDiv() | FloorMod() | Mod():
            return e.dtype.is_float
        case Call(name):
            return name in ROUNDINGS or name == "fmod"
    return False


def makes_whole(e: Expr) -> bool:
    """Whether `e`, which jumps, is its one operand rounded to a whole number."""
    match e:
        case Cast():
            return not e.dtype.is_bool
        case Call(name):
            return name in ROUNDINGS
    return False


def deciding_variables(body: Stmt) -> frozenset[Var]:
    """The variables of floats that `body` binds and operands of jumps are made of."""
    values = {s.var: s.value for s in stmts(body) if isinstance(s, LetStmt)}
    if not values and not kinds_in(body) & _LET:
        return frozenset()
    found: set[Var] = set()
    for e in unique_exprs(body):
        if isinstance(e, Let):
            values[e.var] = e.value
        elif jumps(e):
            found |= free_vars(e)
    waiting = list(found)
    while waiting:
        value = values.get(waiting.pop())
        new = free_vars(value) - found if value is not None else frozenset()
        found |= new
        waiting += new
    return frozenset(var for var in found if var in values and var.dtype.is_float)
