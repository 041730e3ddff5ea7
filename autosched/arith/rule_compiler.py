"""Rewrite rules written as text, compiled to one matching function per node class.

A table is a text of lines `pattern -> result [if condition]`:

* `x`, `y`, ... match any expression, `c`, `c1`, ... an integer constant, and a number the constant
  of that value; a name used twice must match the same object (nodes are interned, so that is deep
  equality);
* `+ - * // %`, comparisons, `and or not`, `min max select tdiv tmod if_then_else` are the nodes;
* `=>` instead of `->` simplifies the result again, `~` in front adds the pattern with the operands
  of commutative operators exchanged, in every combination;
* in a condition the constants are Python ints, and `lo(x)` (lower bound), `below(x, n)` (x is
  in [0, n)), `divides(x)` (x may be taken as nonzero) and `prove(x)` query the analyzer;
  parts of a result made of constants are computed as ints.

Lines are tried top to bottom; the first that matches and whose condition holds is applied. If its
result needs a constant that the type cannot hold, no rule is applied.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from autosched.arith import exact
from autosched.tir import expr as nodes
from autosched.tir import op
from autosched.tir.expr import Expr


class RuleScope(Protocol):
    """The queries that rules may make: bounds, proofs, and simplifying again."""

    def lo(self, e: Expr) -> int:
        """The lower bound of `e`."""

    def below(self, e: Expr, limit: int) -> bool:
        """Whether `e` is in [0, limit)."""

    def divides(self, e: Expr) -> bool:
        """Whether `e` may be taken as nonzero."""

    def prove(self, e: Expr) -> bool:
        """Whether the condition `e` is provable."""

    def again(self, e: Expr) -> Expr:
        """`e`, the result of a rule, simplified again."""


RuleFn = Callable[[Any, RuleScope], Expr | None]

_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "Add",
    ast.Sub: "Sub",
    ast.Mult: "Mul",
    ast.Div: "Div",
    ast.FloorDiv: "FloorDiv",
    ast.Mod: "FloorMod",
    ast.Lt: "LT",
    ast.LtE: "LE",
    ast.Gt: "GT",
    ast.GtE: "GE",
    ast.Eq: "EQ",
    ast.NotEq: "NE",
    ast.And: "And",
    ast.Or: "Or",
}
_CALLS = {"min": "Min", "max": "Max", "tdiv": "Div", "tmod": "Mod", "select": "Select"}
_COMMUTATIVE = frozenset(("Add", "Mul", "Min", "Max", "EQ", "NE", "And", "Or"))
_BUILD = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "truncdiv",
    "Mod": "truncmod",
    "FloorDiv": "floordiv",
    "FloorMod": "floormod",
    "LT": "lt",
    "LE": "le",
    "GT": "gt",
    "GE": "ge",
    "EQ": "eq",
    "NE": "ne",
    "And": "and_",
    "Or": "or_",
    "Min": "min_",
    "Max": "max_",
    "Not": "not_",
    "Select": "select",
    "if_then_else": "if_then_else",
}
_QUERIES = frozenset(("lo", "below", "divides", "prove"))

Tree = str | int | tuple[Any, ...]
"""A parsed pattern or result: a name, a number, or (node class name, operands...)."""


def _tree(node: ast.expr) -> Tree:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=bool() | int() as value):
            return int(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _tree(operand)
            return -inner if isinstance(inner, int) else ("Sub", 0, inner)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ("Not", _tree(operand))
        case ast.BinOp(left=left, op=operator, right=right):
            return (_BINARY[type(operator)], _tree(left), _tree(right))
        case ast.BoolOp(op=junction, values=values):
            result = _tree(values[0])
            for operand in values[1:]:
                result = (_BINARY[type(junction)], result, _tree(operand))
            return result
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return (_BINARY[type(operator)], _tree(left), _tree(right))
        case ast.Call(func=ast.Name(id=name), args=args):
            return (_CALLS.get(name, name), *map(_tree, args))
    raise ValueError(f"not part of a rewrite rule: {ast.unparse(node)}")


def _variants(tree: Tree) -> Iterator[Tree]:
    """All variants of the tree with the operands of commutative operators in either order."""
    if not isinstance(tree, tuple):
        yield tree
        return
    for operands in itertools.product(*(tuple(_variants(t)) for t in tree[1:])):
        yield (tree[0], *operands)
        if tree[0] in _COMMUTATIVE:
            yield (tree[0], operands[1], operands[0])


def _is_const_name(name: str) -> bool:
    return name[0] == "c" and (len(name) == 1 or name[1:].isdigit())


def _all_const(tree: Tree) -> bool:
    if isinstance(tree, tuple):
        return all(map(_all_const, tree[1:]))
    return isinstance(tree, int) or _is_const_name(tree)


class _Rule:
    """A pattern with its result and condition, compiled to Python source (`source`)."""

    def __init__(
        self, pattern: Tree, result: ast.expr, condition: ast.expr | None, again: bool
    ) -> None:
        assert isinstance(pattern, tuple)
        self.root: str = pattern[0]
        self.paths: dict[str, str] = {}
        self.tests: list[str] = []
        self.equalities: list[str] = []
        self.sample = ""
        self._match(pattern)
        tree = _tree(result)
        boolean = self.root in ("LT", "LE", "EQ", "NE", "And", "Or", "Not")
        if boolean and isinstance(tree, int):
            built = "TRUE" if tree else "FALSE"
        else:
            built = self._build(tree)
        if again:
            built = f"s.again({built})"
        tests = self.tests + self.equalities
        if condition is not None:
            tests.append(f"({self._condition(condition)})")
        head = " and ".join(tests)
        self.source = f"    if {head}:\n        return {built}" if head else f"    return {built}"

    def _match(self, pattern: tuple[Any, ...]) -> None:
        queue: list[tuple[Tree, str]] = list(zip(pattern[1:], _fields("e", pattern[0])))
        for tree, path in queue:
            kind = f"t{path}" if len(path) == 1 else f"{path}.__class__"
            if isinstance(tree, tuple):
                self.tests.append(f"{kind} is {tree[0]}")
                queue += zip(tree[1:], _fields(path, tree[0]))
            elif isinstance(tree, int):
                self.tests.append(f"{kind} is IntImm and {path}.value == {tree}")
            elif tree in self.paths:
                self.equalities.append(f"{path} is {self.paths[tree]}")
            else:
                self.paths[tree] = path
                if _is_const_name(tree):
                    self.tests.append(f"{kind} is IntImm")
                self.sample = self.sample or path

    def _build(self, tree: Tree) -> str:
        if _all_const(tree):
            return f"const({self._int(tree)}, {self.sample}.dtype)"
        if isinstance(tree, tuple):
            return f"{_BUILD[tree[0]]}({', '.join(map(self._build, tree[1:]))})"
        return self.paths[str(tree)]

    def _int(self, tree: Tree) -> str:
        if isinstance(tree, str):
            return f"{self.paths[tree]}.value"
        if isinstance(tree, int):
            return str(tree)
        left, right = map(self._int, tree[1:])
        symbols = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%"}
        if tree[0] in symbols:
            return f"({left} {symbols[tree[0]]} {right})"
        return f"{tree[0].lower()}({left}, {right})"

    def _condition(self, condition: ast.expr) -> str:
        rule = self

        class Bind(ast.NodeTransformer):
            def visit_Call(self, node: ast.Call) -> ast.AST:
                if isinstance(node.func, ast.Name) and node.func.id in _QUERIES:
                    built = [rule._build(_tree(node.args[0]))]
                    built += [rule._int(_tree(arg)) for arg in node.args[1:]]
                    text = f"s.{node.func.id}({', '.join(built)})"
                    return ast.parse(text, mode="eval").body
                return self.generic_visit(node)

            def visit_Name(self, node: ast.Name) -> ast.AST:
                path = rule.paths.get(node.id)
                if path is None:
                    return node
                text = f"{path}.value" if _is_const_name(node.id) else path
                return ast.parse(text, mode="eval").body

        return ast.unparse(Bind().visit(condition))


def _fields(path: str, cls: str) -> tuple[str, ...]:
    if cls == "Select":
        names: tuple[str, ...] = ("condition", "true_value", "false_value")
    elif cls == "Not":
        names = ("a",)
    else:
        names = ("a", "b")
    return names if path == "e" else tuple(f"{path}.{name}" for name in names)


def _parse_rules(root: str, table: str) -> Iterator[_Rule]:
    """The rules of `table` for nodes of class `root`."""
    for raw in table.splitlines():
        line = raw.split("#")[0].strip()
        if not line:
            continue
        arrow = "=>" if "=>" in line else "->"
        left, right = line.split(arrow, 1)
        pattern = _tree(ast.parse(left.lstrip("~").strip(), mode="eval").body)
        if not isinstance(pattern, tuple) or pattern[0] != root:
            continue
        right, _, text = right.partition(" if ")
        result = ast.parse(right.strip(), mode="eval").body
        variants = _variants(pattern) if left.startswith("~") else (pattern,)
        for variant in dict.fromkeys(variants):
            condition = ast.parse(text.strip(), mode="eval").body if text else None
            yield _Rule(variant, result, condition, arrow == "=>")


def compile_rules(root: type[Expr], *tables: str) -> RuleFn:
    """Compile the rules in `tables` for nodes of class `root` to one function.

    The function takes the node (its children simplified) and a RuleScope, and returns the rewritten
    expression or None. Raises ValueError for a line that is not a rule.
    """
    name = root.__name__
    body = [rule.source for table in tables for rule in _parse_rules(name, table)]
    head = [f"    {n} = e.{n}\n    t{n} = {n}.__class__" for n in _fields("e", name)]
    code = compile("\n".join(["def rules(e, s):", *head, *body]), f"<rules of {name}>", "exec")
    scope: dict[str, Any] = {**vars(nodes), **{f: getattr(op, f) for f in _BUILD.values()}}
    scope |= {f: getattr(exact, f) for f in ("const", "add", "sub", "mul")}
    scope |= {"TRUE": op.const(True), "FALSE": op.const(False)}
    exec(code, scope)  # safe: the source comes from the literal tables of this package only
    function: RuleFn = scope["rules"]

    def rules(e: Any, s: RuleScope) -> Expr | None:
        try:
            return function(e, s)
        except (exact.DoesNotFitError, ZeroDivisionError):
            return None

    return rules


def rules_for(root: type[Expr], *tables: str) -> RuleFn:
    """`compile_rules`, deferred to the first call of the function: most programs need few."""
    function: RuleFn | None = None

    def apply(e: Any, s: RuleScope) -> Expr | None:
        nonlocal function
        if function is None:
            function = compile_rules(root, *tables)
        return function(e, s)

    return apply
