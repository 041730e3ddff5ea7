"""Find statements that only copy vectors, which gain nothing from being unrolled far."""

from __future__ import annotations

from autosched.tir.expr import (
    Add,
    Broadcast,
    BufferLoad,
    Expr,
    FloatImm,
    IntImm,
    Mul,
    Ramp,
    Sub,
    Var,
)
from autosched.tir.stmt import BufferStore, SeqStmt, Stmt
from autosched.tir.walk import free_vars

_LINEAR = (Add, Sub, Mul, Ramp, Broadcast, IntImm, Var)


def only_copies_vectors(s: Stmt, var: Var) -> bool:
    """Whether `s` only stores vectors that are loaded or constant, at indices linear in `var`.

        B[i * 8:i * 8 + 8] = A[i * 16:i * 16 + 8]            # yes
        B[i * 8:i * 8 + 8] = broadcast(0.0, 8)               # yes
        B[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8] + 1.0        # no: it computes
        B[i % 2 * 8:i % 2 * 8 + 8] = A[i * 8:i * 8 + 8]      # no: i % 2 is a constant once unrolled

    False for memory of scope `local`, too: its elements become registers when the loops over them
    vanish.
    """
    if isinstance(s, SeqStmt):
        return all(only_copies_vectors(part, var) for part in s.stmts)
    if not isinstance(s, BufferStore) or s.value.dtype.lanes == 1 or s.buffer.scope == "local":
        return False
    value: Expr = s.value
    if isinstance(value, Broadcast):
        value = value.value
    if isinstance(value, BufferLoad):
        if value.buffer.scope == "local":
            return False
        return all(_linear(index, var) for index in (*s.indices, *value.indices))
    constant = isinstance(value, FloatImm | IntImm)
    return constant and all(_linear(index, var) for index in s.indices)


def _linear(index: Expr, var: Var) -> bool:
    if isinstance(index, _LINEAR):
        return all(_linear(part, var) for part in index.children())
    return var not in free_vars(index)
