"""Ranges of index arithmetic, exact enough to check int32 overflow and tensor bounds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

Interval = tuple[float, float]
Leaf = Callable[[ast.expr], Interval | None]

OF_INDICES = ("max", "min", "clip", "abs", "square")
"""Functions of integers that are index arithmetic."""

_INT32 = 2**31
_MOST_EXPONENT = 64


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
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(n))) if n >= 0:
            return _power(go(left), n)
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = go(left), go(right)
            return None if a is None or b is None else _binary(operator, a, b)
        case ast.Call(func=ast.Name(id=name), args=args) if name in OF_INDICES:
            ranges = [found for found in map(go, args) if found is not None]
            return _called(name, ranges) if len(ranges) == len(args) else None
        case ast.IfExp(body=left, orelse=right):
            a, b = go(left), go(right)
            return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
    return leaf(e)


def _power(a: Interval | None, exponent: int) -> Interval | None:
    if a is None or exponent > _MOST_EXPONENT:
        return None
    ends = a[0] ** exponent, a[1] ** exponent
    within = exponent > 0 and exponent % 2 == 0 and a[0] < 0 < a[1]
    return 0 if within else min(ends), max(ends)


def _called(name: str, args: Sequence[Interval]) -> Interval | None:
    """The range of a function of OF_INDICES; None for a wrong number of arguments."""
    match name, args:
        case ("max", [a, b]):
            return max(a[0], b[0]), max(a[1], b[1])
        case ("min", [a, b]):
            return min(a[0], b[0]), min(a[1], b[1])
        case ("clip", [a, low, high]):
            return _called("min", [(max(a[0], low[0]), max(a[1], low[1])), high])
        case ("abs", [a]):
            ends = abs(a[0]), abs(a[1])
            return 0 if a[0] < 0 < a[1] else min(ends), max(ends)
        case ("square", [a]):
            return _power(a, 2)
    return None


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
