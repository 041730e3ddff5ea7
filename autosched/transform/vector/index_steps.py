"""Strides, along loops, of indices that have quotients and remainders."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autosched.tir.expr import Expr, FloorDiv, FloorMod, IntImm, Var
from autosched.tir.linear import linear
from autosched.tir.walk import free_vars


def step_along(terms: Mapping[Expr, int], var: Var) -> tuple[int, int]:
    """The step of an index along `var`, and the length of the blocks inside which it is constant.

    `terms` has the coefficients of the index. The length is 0 if the step is the same everywhere.

    i * 3               -> 3, 0
    i // 8 * 20 + i % 8 -> 1, 8     (in blocks of 8 the quotient stays and the remainder rises)
    i * i               -> 0, 1
    """
    step, block = terms.get(var, 0), 0
    for term, factor in terms.items():
        if isinstance(term, Var) or var not in free_vars(term):
            continue
        own, length = _inside_block(term, var)
        step += factor * own
        block = math.gcd(block, length)
    return step, block


def _inside_block(term: Expr, var: Var) -> tuple[int, int]:
    """The step along `var` and block length of a quotient or remainder; (0, 1) for others."""
    match term:
        case FloorDiv(inner, IntImm(divisor)) | FloorMod(inner, IntImm(divisor)) if divisor > 0:
            constant, terms = linear(inner)
            own = terms.pop(var, 0)
            if own <= 0 or any(var in free_vars(t) for t in terms):
                return 0, 1
            block = math.gcd(divisor, constant - constant % own, *terms.values())
            if block % own:
                return 0, 1
            return own if isinstance(term, FloorMod) else 0, block // own
    return 0, 1
