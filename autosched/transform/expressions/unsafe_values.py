"""Operations besides loads that must not be executed speculatively."""

from __future__ import annotations

from autosched.arith import Analyzer
from autosched.tir.data import is_data
from autosched.tir.expr import (
    BufferLoad,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
)
from autosched.tir.intrin import EFFECTS, Effect
from autosched.tir.kinds import bits_of
from autosched.tir.lanes import scalar_of
from autosched.tir.op import gt, lt

UNSAFE = bits_of(BufferLoad, Call, Div, FloorDiv, FloorMod, Mod)
"""The kinds of nodes that may be unsafe, loads among them: values without any are safe."""


def is_opaque(e: Expr) -> bool:
    """Whether `e` is a call that reads memory or has a side effect."""
    if not isinstance(e, Call):
        return False
    return EFFECTS.get(e.op, Effect.OPAQUE) in (Effect.READ, Effect.OPAQUE)


def divides_by_unknown(e: Expr, analyzer: Analyzer | None = None) -> bool:
    """Whether `e` divides integers by an index that might be zero.

    Such a division must stay behind its condition, although the IR defines `x // 0` as 0: code that
    divides by an index and tests it for 0 means a branch.
    """
    if not isinstance(e, Div | Mod | FloorDiv | FloorMod) or e.dtype.is_float:
        return False
    divisor = scalar_of(e.b)
    if isinstance(divisor, IntImm):
        return divisor.value == 0
    if is_data(divisor):
        return False
    if analyzer is None or divisor.dtype.lanes > 1:
        return True
    return not (analyzer.can_prove(gt(divisor, 0)) or analyzer.can_prove(lt(divisor, 0)))
