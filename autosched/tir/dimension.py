"""Dimensions of arguments as text over named sizes, and solving for the sizes from array shapes.

A dimension is an int, a name such as `n`, or an expression of names: `n + 2`, `m * 4`, `n // x`.
A size is known if it is an argument itself or a dimension by itself; otherwise it is solved from
a dimension that is an affine function of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import lru_cache

from autosched.tir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Var

Dimension = int | str

_INFIX = {Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%"}
_CALLS = {Min: "min", Max: "max"}


def as_dimension(e: Expr, names: Mapping[Var, str]) -> Dimension:
    """`e` as a dimension over the names of its variables; ValueError for other expressions."""
    if isinstance(e, IntImm):
        return e.value
    return _text(e, names)


def _text(e: Expr, names: Mapping[Var, str]) -> str:
    match e:
        case IntImm(value):
            return str(value) if value >= 0 else f"({value})"
        case Var():
            return names[e]
        case Add() | Sub() | Mul() | FloorDiv() | FloorMod():
            sides = [
                f"({_text(x, names)})" if type(x) in _INFIX else _text(x, names) for x in (e.a, e.b)
            ]
            return f"{sides[0]} {_INFIX[type(e)]} {sides[1]}"
        case Min() | Max():
            return f"{_CALLS[type(e)]}({_text(e.a, names)}, {_text(e.b, names)})"
    raise ValueError(f"not a dimension of an argument: {e!r}")


@lru_cache(maxsize=256)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def sizes_in(dimension: Dimension) -> frozenset[str]:
    """The names of the sizes in `dimension`."""
    if isinstance(dimension, int):
        return frozenset()
    called = {n.func for n in ast.walk(_parsed(dimension)) if isinstance(n, ast.Call)}
    return frozenset(
        n.id for n in ast.walk(_parsed(dimension)) if isinstance(n, ast.Name) and n not in called
    )


def value_of(dimension: Dimension, known: Mapping[str, int]) -> int:
    """The value of `dimension` for the sizes `known`; ZeroDivisionError if it divides by 0."""
    return dimension if isinstance(dimension, int) else _value(_parsed(dimension), known)


def _value(node: ast.expr, known: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, known)
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _value(left, known), _value(right, known)
            match operator:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return a // b
                case ast.Mod():
                    return a % b
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[first, second]):
            both = _value(first, known), _value(second, known)
            return min(both) if name == "min" else max(both)
    raise ValueError(f"not part of a dimension: {ast.unparse(node)}")


def _affine(node: ast.expr, name: str, known: Mapping[str, int]) -> tuple[int, int] | None:
    """(a, b) if the node equals a * name + b, with the known sizes substituted; else None."""
    match node:
        case ast.Name(id=found) if found == name:
            return 1, 0
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as operator, right=right):
            x, y = _affine(left, name, known), _affine(right, name, known)
            if x is None or y is None:
                return None
            if isinstance(operator, ast.Mult):
                if x[0] and y[0]:
                    return None
                return x[0] * y[1] + y[0] * x[1], x[1] * y[1]
            sign = 1 if isinstance(operator, ast.Add) else -1
            return x[0] + sign * y[0], x[1] + sign * y[1]
    if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node)):
        return None
    return 0, _value(node, known)


def solve(dimensions: Iterable[tuple[Dimension, int]], known: dict[str, int]) -> None:
    """Add to `known` the sizes that follow from `dimensions`, pairs of a dimension and its value.

    Does not check that all dimensions have their values for the sizes found.
    """
    rest = [(d, have) for d, have in dimensions if isinstance(d, str)]
    for d, have in rest:
        if d.isidentifier():
            known.setdefault(d, have)
    rest = [(d, have) for d, have in rest if not d.isidentifier()]
    while rest:
        left = []
        for d, have in rest:
            unknown = sizes_in(d) - known.keys()
            name = next(iter(unknown), "")
            form = _affine(_parsed(d), name, known) if len(unknown) == 1 else None
            if form is not None and form[0]:
                known[name] = (have - form[1]) // form[0]
            elif unknown:
                left.append((d, have))
        if len(left) == len(rest):
            return
        rest = left


def unsolvable(dimensions: Iterable[Dimension], given: Iterable[str]) -> tuple[str, str] | None:
    """A size that does not follow from `dimensions` and the sizes `given`, and a dimension with it.

    None when all sizes follow.
    """
    dimensions = list(dimensions)
    # Whether a size is solvable does not depend on the values; large ones make no factor 0.
    known = {name: 10007 + 2 * k for k, name in enumerate(sorted(given))}
    solve(((d, 10**9 + 7) for d in dimensions), known)
    for d in dimensions:
        for name in sorted(sizes_in(d) - known.keys()):
            return name, str(d)
    return None
