"""Indices that are read from memory, and what is begun from there: in every place of a producer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import op
from autosched.tir.expr import Expr
from kit.te import compute_of
from kit.types import Array, Check

N, M = 9, 13


def _row(value: Expr) -> Expr:
    """A row that there is."""
    return op.max_(op.min_(value, N - 1), 0)


def _place(s: Schedule, producer: Tensor, reader: Tensor, where: str) -> None:
    if where != "root":
        axes = compute_of(s[reader]).axis
        s[producer].compute_at(s[reader], axes[0 if where == "outside" else -1])


@pytest.mark.parametrize("where", ["root", "outside", "inside"])
@pytest.mark.parametrize("index", ["input", "computed", "of itself", "later"])
def test_one_row_of_a_producer(index: str, where: str, check: Check) -> None:
    """Which row is known where the index is there, and the producer may be computed before."""
    A, at = te.placeholder((N, M), name="A"), te.placeholder((2,), "int32", name="at")
    B = te.compute((N, M), lambda i, j: A[i, j] * 2.0, name="B")
    F = te.compute((1,), lambda i: at[1 - i], name="F")
    L = te.compute((1,), lambda i: te.cast("int32", B[2, 3]), name="L")
    rows: dict[str, Callable[[], Expr]] = {
        "input": lambda: at[1],
        "computed": lambda: F[0],
        "of itself": lambda: te.cast("int32", B[2, 3]),
        "later": lambda: L[0],
    }
    C = te.compute((3, M), lambda i, j: B[_row(rows[index]()), j] + A[i, j], name="C")
    s = te.create_schedule(C)
    if index != "later":  # L reads B, too
        _place(s, B, C, where)

    def reference(a: Array, given: Array) -> Array:
        row = int(given[1]) if index in ("input", "computed") else int(2 * a[2, 3])
        found: Array = 2 * a[min(max(row, 0), N - 1)] + a[:3]
        return found

    inputs = [A, at] if index in ("input", "computed") else [A]
    check(s, [*inputs, C], reference if len(inputs) == 2 else lambda a: reference(a, a))


def test_a_length_that_is_one_element_of_memory(check: Check) -> None:
    A, L = te.placeholder((N, M), name="A"), te.placeholder((1,), "int32", name="L")
    D = te.compute((N, M), lambda i, j: A[i, j] * 2.0, name="D")
    k = te.reduce_axis((0, L[0] + 5), "k")
    C = te.compute((N,), lambda i: te.sum(D[i, k], axis=k), name="C")
    s = te.create_schedule(C)
    s[D].compute_at(s[C], compute_of(C).axis[0])
    check(s, [A, L, C], lambda a, n: 2 * a[:, : int(n[0]) + 5].sum(1))


Index = Callable[[Expr], Expr]
WRAPPING: dict[str, tuple[Index, Callable[[Array], Array]]] = {
    "int8": (lambda i: te.cast("int8", i * 40), lambda i: (i * 40).astype("int8")),
    "uint8": (lambda i: te.cast("uint8", i * 40), lambda i: (i * 40).astype("uint8")),
    "product": (
        lambda i: te.cast("uint8", i) * te.const(100, "uint8"),
        lambda i: i.astype("uint8") * np.uint8(100),
    ),
    "difference": (
        lambda i: te.cast("int8", i) - te.const(-125, "int8"),
        lambda i: i.astype("int8") - np.int8(-125),
    ),
}


@pytest.mark.parametrize("where", ["root", "outside"])
@pytest.mark.parametrize("name", WRAPPING)
def test_indices_that_wrap(name: str, where: str, check: Check) -> None:
    """The values of a range are not between its ends in a type that does not hold them."""
    index, of_arrays = WRAPPING[name]
    low = 0 if name in ("uint8", "product") else 128
    A = te.placeholder((256,), name="A")
    B = te.compute((256,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((2, 9), lambda o, i: B[te.cast("int32", index(i)) + low], name="C")
    s = te.create_schedule(C)
    _place(s, B, C, where)
    rows = of_arrays(np.arange(9)).astype(int) + low
    check(s, [A, C], lambda a: np.stack([2 * a[rows]] * 2))


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "int16", "int64"])
def test_indices_of_several_types(dtype: str, check: Check) -> None:
    """-1 beside an index that has no sign is no large number."""
    A = te.placeholder((N,), name="A")
    B = te.compute((N,), lambda i: A[i] * 2.0, name="B")
    two = te.const(2, dtype)
    C = te.compute((N,), lambda i: te.if_then_else(i >= 1, B[i - 1], 0.0) + B[two], name="C")
    for where in ("root", "outside"):
        s = te.create_schedule(C)
        _place(s, B, C, where)
        check(s, [A, C], lambda a: 2 * (np.concatenate([[0], a[:-1]]) + a[2]))


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_a_table_is_looked_up_by_numbers_without_a_sign(
    dtype: str, vectorized: bool, check: Check
) -> None:
    """255 is not -1, and 200 + 100 is 44 among bytes."""
    A = te.placeholder((256,), name="A")
    at = te.placeholder((16,), dtype, name="at")
    byte = te.const(255, dtype)

    def element(i: Expr) -> Expr:
        low = te.bitwise_and(at[i], byte)
        return A[low] + A[te.bitwise_and(low * te.const(100, dtype) - byte, byte)]

    C = te.compute((16,), element, name="C")
    s = te.create_schedule(C)
    if vectorized:
        s[C].vectorize(compute_of(C).axis[0])

    def reference(a: Array, given: Array) -> Array:
        low = given.astype(np.int64) & 255
        found: Array = a[low] + a[(low * 100 - 255) & 255]
        return found

    check(s, [A, at, C], reference)
