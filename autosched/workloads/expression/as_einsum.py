"""Recognise expressions that are a single call of `numpy.einsum`."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator, Mapping, Sequence

from autosched.workloads.expression.statement import Statement, index_list, tensor_of

Operand = tuple[str, tuple[str, ...]]


def as_einsum(
    statements: Sequence[Statement],
    inputs: Sequence[str],
    shapes: Mapping[str, tuple[int, ...]],
) -> str | None:
    """The einsum subscripts for the inputs in their order; None unless it is one sum of products.

    `C[i, j] = sum(k, A[i, k] * B[k, j])` is "ab,bc->ac" up to the letters. None for shifted or
    repeated reads, reads of a part of an axis, other reductions, and numbers.
    """
    if len(statements) != 1 or statements[0].reducer not in ("", "sum"):
        return None
    (statement,) = statements
    found: dict[str, tuple[str, ...]] = {}
    for factor in _factors(statement.body):
        operand = _operand(factor)
        if operand is None or operand[0] in found:
            return None
        if shapes[operand[0]] != tuple(statement.extents.get(i) for i in operand[1]):
            return None
        found[operand[0]] = operand[1]
    names = list(dict.fromkeys(i for operand in found.values() for i in operand))
    results = (*statement.indices, *statement.reduce_indices)
    if set(names) != set(results) or len(names) > len(string.ascii_letters):
        return None
    letter = dict(zip(names, string.ascii_letters, strict=False))
    parts = ["".join(letter[i] for i in found[name]) for name in inputs]
    return f"{','.join(parts)}->{''.join(letter[i] for i in statement.indices)}"


def _factors(e: ast.expr) -> Iterator[ast.expr]:
    if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Mult):
        yield from _factors(e.left)
        yield from _factors(e.right)
    else:
        yield e


def _operand(e: ast.expr) -> Operand | None:
    if not isinstance(e, ast.Subscript):
        return None
    indices = [i.id for i in index_list(e) if isinstance(i, ast.Name)]
    return (tensor_of(e), tuple(indices)) if len(indices) == len(index_list(e)) else None
