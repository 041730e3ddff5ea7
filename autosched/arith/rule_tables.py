"""All tables of rewrite rules, compiled, by the class of the node they rewrite."""

from __future__ import annotations

from autosched.arith import rules_add_sub, rules_bool, rules_compare, rules_min_max, rules_mul_div
from autosched.arith.rule_compiler import compile_rules

INDEX_RULES = compile_rules(
    rules_add_sub.ADD,
    rules_add_sub.SUB,
    rules_mul_div.MUL,
    rules_mul_div.FLOORDIV,
    rules_mul_div.FLOORMOD,
    rules_mul_div.TRUNC,
    rules_min_max.ROUNDED,
    rules_min_max.MIN,
    rules_min_max.MAX,
    rules_compare.LT,
    rules_compare.EQ,
)
"""For int32 and int64 scalars."""

FLOAT_RULES = compile_rules(rules_add_sub.FLOAT_SUB)
"""For float scalars."""

BOOL_RULES = compile_rules(rules_bool.AND, rules_bool.OR, rules_bool.NOT)
"""For conditions whose comparisons are of integers."""
