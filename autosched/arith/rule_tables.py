"""The compiled rewrite rules, by the class of the node that they rewrite."""

from __future__ import annotations

from autosched.arith.rule_compiler import RuleFn, rules_for
from autosched.arith.rules_add_sub import ADD, SUB
from autosched.arith.rules_bool import AND, NOT, OR
from autosched.arith.rules_compare import EQUAL, LESS
from autosched.arith.rules_min_max import MAX, MIN, ROUNDED
from autosched.arith.rules_modular import MODULAR
from autosched.arith.rules_mul_div import FLOORDIV, FLOORMOD, MUL, TRUNC
from autosched.tir.expr import (
    EQ,
    LT,
    Add,
    And,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Sub,
)

INDEX_RULES: dict[type[Expr], RuleFn] = {
    Add: rules_for(Add, ADD),
    Sub: rules_for(Sub, SUB),
    Mul: rules_for(Mul, MUL),
    FloorDiv: rules_for(FloorDiv, FLOORDIV),
    FloorMod: rules_for(FloorMod, FLOORMOD),
    Div: rules_for(Div, TRUNC),
    Mod: rules_for(Mod, TRUNC),
    Min: rules_for(Min, ROUNDED, MIN),
    Max: rules_for(Max, ROUNDED, MAX),
    LT: rules_for(LT, LESS),
    EQ: rules_for(EQ, EQUAL),
}
"""The rules for int32 and int64 scalars whose arithmetic is exact."""

MODULAR_RULES: dict[type[Expr], RuleFn] = {
    cls: rules_for(cls, MODULAR) for cls in (Add, Sub, Mul, Min, Max)
}
"""The rules for integers of any type and number of lanes, whose arithmetic may wrap."""

BOOL_RULES: dict[type[Expr], RuleFn] = {
    And: rules_for(And, AND),
    Or: rules_for(Or, OR),
    Not: rules_for(Not, NOT),
}
"""The rules for conditions whose comparisons are of integers."""
