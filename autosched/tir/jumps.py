"""Finds discontinuous float operations, where the last bit of an operand changes the result.

    floor(A[i] / 0.1)        a different integer
    A[i] / 3 * 3 > A[i]      the opposite truth value

Such operations are said to jump. Code generators round every product, sum and quotient in their
operands individually, as NumPy does: fused operations or reciprocals would give other floats. That
also holds for operands that are held in a variable or in memory, which the schedule decides, not
the program.
"""

from __future__ import annotations

from collections.abc import Iterator

from autosched.tir.buffer import Buffer
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Let,
    Mod,
    Mul,
    Sub,
    Var,
)
from autosched.tir.kinds import bits_of, exprs_with, kinds, loads_in, nodes_with
from autosched.tir.stmt import BufferStore, Evaluate, LetStmt, Stmt
from autosched.tir.walk import distinct, free_vars, stmts

ROUNDINGS = frozenset(("floor", "ceil", "round", "nearbyint", "trunc"))
"""The intrinsics that round to a whole number."""

_ORDERED = (Call, Cast, EQ, GE, GT, LE, LT, NE, FloorDiv, FloorMod, Mod)
_KINDS, _JUMPING = frozenset(_ORDERED), bits_of(*_ORDERED)
_LET = bits_of(Let)
_SUMS, _FUSED = bits_of(Add, Sub), bits_of(Mul, Div)


def jumps(e: Expr) -> bool:
    """Whether `e` rounds a float to a whole number, or compares floats."""
    if type(e) not in _KINDS:  # fast path: most expressions are of other kinds
        return False
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


def made_whole(e: Expr) -> frozenset[Expr]:
    """The operand that the jumping `e` rounds to a whole number; empty if `e` is no rounding.

    If it rounds to nearest or toward zero, the terms of a sum are included: the errors of terms
    below 2**-36 do not matter there.
    """
    match e:
        case Cast(value) if not e.dtype.is_bool:
            return frozenset(_terms(value))
        case Call("floor" | "ceil", (value,)):
            return frozenset((value,))
        case Call(name, (value,)) if name in ROUNDINGS:
            return frozenset(_terms(value))
    return frozenset()


def _terms(e: Expr) -> Iterator[Expr]:
    """The sums and differences that make up `e`, and their operands."""
    return distinct(e, lambda term: term.children() if isinstance(term, Add | Sub) else ())


def is_sum(s: BufferStore, buffer: Buffer | None = None) -> bool:
    """Whether `s` accumulates products into the element it stores to; these may be fused.

    The order of such a sum is not defined anyway. A stage computed in place of its operand stores
    to another buffer object, and a step of a scan reads another element, so neither counts. With
    `buffer` the question is whether `s` would accumulate if it stored to that buffer.
    """
    if not kinds(s.value) & _FUSED:
        return False
    sums = (e for e in nodes_with(s.value, _SUMS) if isinstance(e, Add | Sub))
    terms = (term for e in sums for term in (e.a, e.b))
    own = s.buffer if buffer is None else buffer
    return any(
        isinstance(e, BufferLoad) and e.buffer is own and e.indices == s.indices for e in terms
    )


def deciding_variables(*bodies: Stmt, through_sums: bool = False) -> frozenset[Var]:
    """The variables and pointers, bound or stored in `bodies`, on which operands of jumps depend.

    `bodies` are the bodies of functions that share memory. Values accumulated by `is_sum` stores
    are only followed with `through_sums`.
    """
    found: set[Var] = set()
    for body in bodies:
        for e in exprs_with(body, _JUMPING):
            if jumps(e):
                found |= _read(e)
    if not found:
        return frozenset()
    made_of: dict[Var, set[Var]] = {}
    for body in bodies:
        for var, value in _values(body, through_sums):
            made_of.setdefault(var, set()).update(_read(value))
    waiting = list(found)
    while waiting:
        new = made_of.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return frozenset(found & made_of.keys())


def _read(e: Expr) -> frozenset[Var]:
    """The variables in `e`, and the pointers that it loads through."""
    return free_vars(e).union(load.buffer.data for load in loads_in(e))


def _values(body: Stmt, sums: bool) -> Iterator[tuple[Var, Expr]]:
    """The pairs of a variable and its value, and of a pointer and a value stored through it."""
    for s in stmts(body):
        if isinstance(s, LetStmt):
            yield s.var, s.value
        elif isinstance(s, BufferStore) and (sums or not is_sum(s)):
            yield s.buffer.data, s.value
        elif isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.op == "ptx_cp_async":
            target, _, source, *_ = s.value.args
            yield from ((var, source) for var in free_vars(target))
    for e in exprs_with(body, _LET):
        if isinstance(e, Let):
            yield e.var, e.value
