"""Tables of numbers as the value of a statement: `B[i, j] = [[1, 0, -1], [0, 1, 1]]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from autosched.tir.dtype import DType, float32, int32
from autosched.workloads.constant_tensor import Numbers

MOST = 256
"""Most numbers of a table: unless its indices are unrolled, a read tests all of them."""


class TableError(Exception):
    """Says what is wrong with a table."""


def table_of(value: ast.List) -> Numbers:
    """The numbers of a table, as integers if all of them are. Raises TableError."""
    shape = tuple(_lengths(value))
    numbers = list(_numbers(value, shape))
    if len(numbers) > MOST:
        raise TableError(
            f"a table has at most {MOST} numbers, found {len(numbers)}; make it an input"
        )
    try:
        if all(isinstance(number, int) for number in numbers):
            return np.array(numbers, np.int64).reshape(shape)
        return np.array(numbers, np.float64).reshape(shape)
    except OverflowError:
        raise TableError("a number of the table does not fit int64") from None


def type_of(numbers: Numbers, given: DType | None) -> DType:
    """The type of a table's elements: `given`, or int32 for integers and float32 for others.

    Raises TableError where the type cannot hold the numbers.
    """
    if given is None:
        given = float32 if numbers.dtype.kind == "f" else int32
    if given.is_float:
        return given
    least, most = given.min_value, given.max_value
    for number in numbers.flat:
        if not least <= number <= most or number % 1:
            raise TableError(
                f"a table of {given} holds no {number.item()}; give the tensor another type under "
                "dtype"
            )
    return given


def _lengths(value: ast.expr) -> Iterator[int]:
    """The lengths of the nested lists, outermost first."""
    while isinstance(value, ast.List):
        yield len(value.elts)
        if not value.elts:
            return
        value = value.elts[0]


def _numbers(value: ast.expr, shape: tuple[int, ...]) -> Iterator[int | float]:
    if not shape:
        yield _number(value)
        return
    if not isinstance(value, ast.List) or len(value.elts) != shape[0] or not value.elts:
        raise TableError(
            "a table has numbers, or rows of equal lengths: [1, 2, 1], [[1, 0], [0, 1]]; found "
            f"{ast.unparse(value)}"
        )
    for each in value.elts:
        yield from _numbers(each, shape[1:])


def _number(value: ast.expr) -> int | float:
    sign = 1
    while isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub | ast.UAdd):
        sign = -sign if isinstance(value.op, ast.USub) else sign
        value = value.operand
    match value:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return sign * number
    raise TableError(f"a table has numbers, found {ast.unparse(value)}")
