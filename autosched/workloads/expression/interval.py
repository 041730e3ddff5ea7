"""Ranges of index arithmetic, exact enough to check int32 overflow and tensor bounds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

Interval = tuple[float, float]
Leaf = Callable[[ast.expr], Interval | None]

_INT32 = 2**31


def interval(e: ast.expr, extents: Mapping[str, int], leaf: Leaf) -> Interval | None:
    """The least and largest value of `e` where each index runs from 0 to its extent - 1.

    `leaf` gives the range of a subexpression that is neither an index nor arithmetic (a tensor's
    element). None when nothing is known.
    """

    def go(child: ast.expr) -> Interval | None:
        return interval(child, extents, leaf)

    match e:
        case ast.Constant(value=int(value)):
            return value, value
        case ast.Name(id=name) if name in extents:
            return 0, extents[name] - 1
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = go(operand)
            return None if inner is None else (-inner[1], -inner[0])
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return go(operand)
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = go(left), go(right)
            return None if a is None or b is None else _binary(operator, a, b)
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=[left, right]):
            a, b = go(left), go(right)
            if a is None or b is None:
                return None
            pick = max if name == "max" else min
            return pick(a[0], b[0]), pick(a[1], b[1])
        case ast.IfExp(body=left, orelse=right):
            a, b = go(left), go(right)
            return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
    return leaf(e)


def _binary(operator: ast.operator, a: Interval, b: Interval) -> Interval | None:
    match operator:
        case ast.Add():
            return a[0] + b[0], a[1] + b[1]
        case ast.Sub():
            return a[0] - b[1], a[1] - b[0]
        case ast.Mult():
            products = [x * y for x in a for y in b]
            return min(products), max(products)
        case ast.FloorDiv() if b[0] > 0:
            quotients = [x // y for x in a for y in b]
            return min(quotients), max(quotients)
        case ast.Mod() if b[0] > 0:
            whole = a[0] // b[1] == a[1] // b[1] and b[0] == b[1]
            return (a[0] % b[1], a[1] % b[1]) if whole else (0, b[1] - 1)
    return None


def leaves_int32(e: ast.expr, extents: Mapping[str, int]) -> bool:
    """Whether a part of the index arithmetic `e` may exceed int32."""
    for node in ast.walk(e):
        if isinstance(node, ast.expr):
            found = interval(node, extents, lambda _: None)
            if found is not None and max(map(abs, found)) >= _INT32:
                return True
    return False
