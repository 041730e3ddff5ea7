"""Remedies in messages for users who come from NumPy, einsum or loops."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable

_NUMPY = ("np", "numpy", "jnp", "torch", "tf", "math")

_NAMES = {
    "dot": "a matrix product is sum(k, A[i, k] * B[k, j])",
    "matmul": "a matrix product is sum(k, A[i, k] * B[k, j])",
    "einsum": 'write `einsum: "ij,jk->ik"` instead of expr',
    "softmax": "use the built-in softmax, or exp and sum in statements of their own",
    "maximum": "the larger of two values is max(a, b)",
    "minimum": "the smaller of two values is min(a, b)",
    "power": "write a ** b",
    "add": "write a + b",
    "multiply": "write a * b",
    "any": "write max(k, where(c, 1, 0))",
    "all": "write min(k, where(c, 1, 0))",
    "transpose": "swap the indices: T[i, j] = A[j, i]",
    "range": "an index runs over its whole axis; its length follows from the shapes",
    "len": "lengths are constants; write the number",
    "fabs": "the absolute value is abs(a)",
    "exponential": "it is called exp",
}


def unknown_function(name: str, known: Iterable[str]) -> str:
    """Say why `name(...)` is refused, and what to write."""
    known = list(dict.fromkeys(known))
    if name in _NAMES:
        return f"unknown function {name}: {_NAMES[name]}"
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"unknown function {name}; {hint}known are {', '.join(known)}"


def refusal(node: ast.AST) -> str:
    """Say why a piece of syntax is refused, and what to write."""
    match node:
        case ast.BinOp(op=ast.MatMult()) | ast.MatMult():
            return "@ is not allowed; a matrix product is sum(k, A[i, k] * B[k, j])"
        case ast.Attribute(attr="T" | "mT"):
            return "Attribute is not allowed; a transposed read swaps its indices: A[j, i]"
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _NUMPY:
            return f"Attribute is not allowed; write {name}(...) without {module}."
        case ast.Attribute(attr=name):
            return (
                "Attribute is not allowed; a function is called by its name, e.g. exp(A[i]), "
                f"not .{name}"
            )
        case ast.Slice():
            return "slices are not allowed; every axis has an index, e.g. A[i, j]"
        case ast.Constant(value=None):
            return "None is not a number, and adds no axis; every axis has an index, e.g. A[i, j]"
        case ast.Constant(value=value) if value is Ellipsis:
            return "... is not allowed; every axis has an index, e.g. A[i, j]"
        case ast.Constant(value=value):
            return f"{value!r} is not a number"
        case ast.GeneratorExp() | ast.ListComp() | ast.SetComp() | ast.DictComp():
            return f"{type(node).__name__} is not allowed; a reduction is sum(k, A[i, k])"
        case ast.List():
            return "a table of numbers is a statement of its own: w[i] = [1, 2, 1]"
        case ast.Is() | ast.IsNot() | ast.In() | ast.NotIn():
            return f"{type(node).__name__} is not allowed; compare with == or !="
    return f"{type(node).__name__} is not allowed; docs/expressions.md has the grammar"


def left_side(node: ast.stmt) -> str:
    """Say why a statement is not an assignment to NAME[indices], and what to write."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return (
                f"the left side must be NAME[index, ...]; for a single number give it an axis of "
                f"length 1, {name}[o], and shapes: {{{name}: [1]}}"
            )
        case ast.Assign(targets=[ast.Tuple(), *_]):
            return "the left side must be NAME[index, ...]; write one statement for each result"
        case ast.Assign(targets=[_, _, *_]):
            return "the left side must be NAME[index, ...]; write one statement for each result"
        case ast.Assign() | ast.AugAssign():
            return "the left side must be NAME[index, ...]"
        case ast.For() | ast.While() | ast.If():
            return "expected NAME[indices] = value: loops follow from the indices, write none"
        case ast.Expr():
            return "expected NAME[indices] = value, e.g. C[i, j] = sum(k, A[i, k] * B[k, j])"
    return "expected NAME[indices] = value"
