from __future__ import annotations

import ast
import random
from typing import Any

import pytest

from autosched.arith import (
    Analyzer,
    rules_add_sub,
    rules_bool,
    rules_compare,
    rules_min_max,
    rules_mul_div,
)
from autosched.arith.rule_compiler import Tree, _tree, _variants, compile_rules
from autosched.tir import expr as nodes
from autosched.tir.expr import Expr, IntImm, Range, Var

TABLES = (
    rules_add_sub.ADD,
    rules_add_sub.SUB,
    rules_mul_div.MUL,
    rules_mul_div.FLOORDIV,
    rules_mul_div.FLOORMOD,
    rules_mul_div.TRUNC,
    rules_min_max.ROUNDED,
    rules_min_max.MIN,
    rules_min_max.MAX,
    rules_compare.LESS,
    rules_compare.EQUAL,
    rules_bool.AND,
    rules_bool.OR,
    rules_bool.NOT,
)
LINES = [line.strip() for table in TABLES for line in table.splitlines() if line.strip()]


def build(tree: Tree, names: dict[str, Expr]) -> Expr:
    """The pattern as raw nodes, nothing folded."""
    if isinstance(tree, int):
        return IntImm(tree)
    if isinstance(tree, str):
        return names[tree]
    made: Expr = getattr(nodes, tree[0])(*(build(t, names) for t in tree[1:]))
    return made


def names_of(tree: Tree) -> set[str]:
    if isinstance(tree, tuple):
        return set().union(*map(names_of, tree[1:]))
    return {tree} if isinstance(tree, str) else set()


def is_condition(tree: Tree, name: str, inside: str = "") -> bool:
    """True when `name` stands for a condition in the pattern, an operand of and/or/not."""
    if isinstance(tree, tuple):
        return any(is_condition(t, name, tree[0]) for t in tree[1:])
    return tree == name and inside in ("And", "Or", "Not")


@pytest.mark.parametrize("line", LINES)
def test_rule_keeps_the_value(line: str, evaluate: Any, all_points: Any, expressions: Any) -> None:
    rng = random.Random(line)
    arrow = "=>" if "=>" in line else "->"
    text = line.split(arrow, 1)[0]
    pattern = _tree(ast.parse(text.lstrip("~").strip(), mode="eval").body)
    assert isinstance(pattern, tuple)
    rules = compile_rules(getattr(nodes, pattern[0]), line)
    applied = 0
    for attempt in range(600):
        variables = [Var("i"), Var("j")]
        low = 1 if attempt % 2 else rng.randrange(-3, 2)
        domains = {v: range(low, low + rng.randrange(2, 6)) for v in variables}
        analyzer = Analyzer()
        for v, r in domains.items():
            analyzer.bind(v, Range.of(len(r), r.start))
        tree = rng.choice(list(_variants(pattern))) if line.startswith("~") else pattern
        make = expressions(rng, variables)
        names: dict[str, Expr] = {}
        for name in sorted(names_of(pattern)):
            if name[0] == "c":
                names[name] = IntImm(rng.choice((-8, -4, -3, -2, -1, 1, 2, 2, 3, 4, 4, 5, 8, 0)))
            elif is_condition(pattern, name):
                names[name] = make.condition(1)
            else:
                names[name] = rng.choice(variables) if rng.random() < 0.7 else make.integer(1)
        if "c1 == -c2" in line and rng.random() < 0.8:
            names["c2"] = IntImm(-names["c1"].value)  # type: ignore[attr-defined]
        if "c3 == c1 * c2" in line:
            names["c3"] = IntImm(names["c1"].value * names["c2"].value)  # type: ignore[attr-defined]
        node = build(tree, names)
        try:
            result = rules(node, analyzer.rewrite)
        except ZeroDivisionError:
            continue  # a divisor that was drawn as 0
        if result is None:
            continue
        applied += 1
        for point in all_points(domains):
            try:
                before = evaluate(node, point)
            except ZeroDivisionError:
                continue  # the rules take divisors for non-zero
            assert evaluate(result, point) == before, f"{node!r} -> {result!r} at {point}"
        if applied >= 12:
            break
    assert applied > 0, "the rule never matched"


def test_a_line_that_is_no_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="not part of a rewrite rule"):
        compile_rules(nodes.Add, "x[0] + y -> x")
