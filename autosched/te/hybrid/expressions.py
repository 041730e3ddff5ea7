"""Python's expressions with the meaning that they have in a function of te.hybrid.

    a and b, a or b, not a      te.all(a, b), te.any(a, b), te.logical_not(a)
    x if c else y               te.if_then_else(c, x, y)
    0 <= i < n                  te.all(0 <= i, i < n)

What is known while the function is read stays Python's: `a.shape[0] > 4 and ...` of constants.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from autosched.tir.expr import Expr
from autosched.tir.op import all_, any_, as_condition, if_then_else, not_
from autosched.tir.operators import Comparison

Late = Callable[[], Any]


def is_late(value: Any) -> bool:
    """Whether `value` is known only when the kernel runs."""
    return isinstance(value, Expr | Comparison) and constant(value) is None


def constant(value: Any) -> Any:
    """The number of a constant expression, or None."""
    e = value.condition() if isinstance(value, Comparison) else value
    return getattr(e, "value", None) if isinstance(e, Expr) and not e.children() else None


def _truth(value: Any) -> bool:
    number = constant(value)
    return bool(value if number is None else number)


def _joined(join: Callable[..., Expr], stops: bool, *tests: Late) -> Any:
    """`and` or `or`; what comes after a test that decides, and is known, is not asked for."""
    late: list[Any] = []
    for test in tests:
        value = test()
        if is_late(value):
            late.append(value)
        elif _truth(value) is stops:
            return value if not late else join(*late, stops)
    return join(*late) if late else value


def _both(*tests: Late) -> Any:
    return _joined(all_, False, *tests)


def _either(*tests: Late) -> Any:
    return _joined(any_, True, *tests)


def _negated(value: Any) -> Any:
    return not_(as_condition("not", value)) if is_late(value) else not _truth(value)


def _chosen(test: Any, then: Late, otherwise: Late) -> Any:
    if not is_late(test):
        return then() if _truth(test) else otherwise()
    return if_then_else(as_condition("if", test), then(), otherwise())


MEANINGS: dict[str, Callable[..., Any]] = {
    "__both__": _both,
    "__either__": _either,
    "__negated__": _negated,
    "__chosen__": _chosen,
}


def _late(node: ast.expr) -> ast.expr:
    none = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(none, node)


def _call(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


class Meaning(ast.NodeTransformer):
    """Replaces what Python would decide while the function is read by calls of `MEANINGS`."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`and` and `or`."""
        name = "__both__" if isinstance(node.op, ast.And) else "__either__"
        return _call(name, *(_late(self.visit(v)) for v in node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """`not`."""
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return _call("__negated__", operand)
        return ast.UnaryOp(node.op, operand)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """`x if c else y`."""
        then, otherwise = _late(self.visit(node.body)), _late(self.visit(node.orelse))
        return _call("__chosen__", self.visit(node.test), then, otherwise)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Chains of comparisons, each operand evaluated where it stands."""
        values = [self.visit(v) for v in (node.left, *node.comparators)]
        each: list[ast.expr] = [
            ast.Compare(a, [op], [b])
            for a, op, b in zip(values, node.ops, values[1:], strict=False)
        ]
        return each[0] if len(each) == 1 else _call("__both__", *map(_late, each))


def evaluated(node: ast.expr, known: dict[str, Any]) -> Any:
    """The value of the expression, where `known` says what names mean; a Python object or Expr."""
    tree = ast.Expression(Meaning().visit(node))
    code = compile(ast.fix_missing_locations(tree), "<te.hybrid>", "eval")
    return eval(code, {**known, **MEANINGS})
