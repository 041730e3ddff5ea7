"""Reads outside of a tensor are refused, and indices that leave their type."""

from collections.abc import Callable

import pytest

from autosched import te
from autosched.errors import ConfigError
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Expr, Not, Var
from autosched.workloads.reads import check_overflow, check_reads, check_variables


def program(index: Callable[[Var], Expr], size: int = 16, length: int = 16) -> list[Tensor]:
    a = te.placeholder((size,), name="A")
    return [a, te.compute((length,), lambda i: a[index(i)], name="B")]


INSIDE = [
    lambda i: i,
    lambda i: 15 - i,
    lambda i: i // 2 + 8,
    lambda i: (i * 7) % 16,
    lambda i: i // 4 * 4,
    lambda i: i - i % 3,
    lambda i: te.max(i - 3, 0),
    lambda i: te.if_then_else(i > 3, i, i + 4),
    lambda i: i ^ 15,
    lambda i: (i * 1.5).astype("int32") // 2,
]
OUTSIDE = [
    (lambda i: i + 1, r"reads A at i \+ 1, elements 1\.\.16 of an axis of length 16"),
    (lambda i: i - 1, r"elements -1\.\.14"),
    (lambda i: 2 * i, r"elements 0\.\.30"),
    (lambda i: i + 100000, r"elements 100000\.\.100015"),
    (lambda i: i // 2 + 16, r"elements 16\.\.23"),
    (lambda i: i // 2 + 9, r"elements 9\.\.16"),
    (lambda i: i % -3, r"elements -2\.\.0"),
    (lambda i: i // -3, r"elements -5\.\.0"),
    (lambda i: te.abs(i - 20), r"elements 5\.\.20"),
    (lambda i: i ^ 16, r"elements 16\.\.31"),
    (lambda i: i << 1, r"elements 0\.\.30"),
    (lambda i: i * i, r"elements 0\.\.225"),
    (lambda i: ~i, r"elements -16\.\.-1"),
    (lambda i: te.min(te.max(3 * i, 0), 16), r"elements 0\.\.16"),
    (lambda i: te.if_then_else(i > 3, i, i + 13), r"elements 4\.\.16"),
    (lambda i: (i * 1.5).astype("int32"), r"elements 0\.\.22"),
]


@pytest.mark.parametrize("index", INSIDE)
def test_what_stays_inside(index: Callable[[Var], Expr]) -> None:
    check_reads("p", program(index))


@pytest.mark.parametrize(("index", "message"), OUTSIDE)
def test_what_leaves_the_tensor_is_refused(index: Callable[[Var], Expr], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_reads("p", program(index))


def test_a_condition_may_guard_a_read() -> None:
    a = te.placeholder((16,), name="A")
    guarded = te.compute(
        (18,), lambda i: te.if_then_else(te.all(i >= 1, i < 17), a[i - 1], 0.0), name="P"
    )
    check_reads("p", [a, guarded])
    with pytest.raises(ConfigError, match="elements -1"):
        bare = te.compute((16,), lambda i: te.if_then_else(a[i - 1] > 0.0, 1.0, 0.0), name="Q")
        check_reads("p", [a, bare])


@pytest.mark.parametrize(("bound", "last"), [(4, 9), (5, 16)])
def test_a_condition_on_an_index_that_is_no_sum_of_axes_is_worked_out(
    bound: int, last: int
) -> None:
    a = te.placeholder((16,), name="A")
    tensors = [a, te.compute((16,), lambda i: te.if_then_else(i < bound, a[i * i], 0.0), name="B")]
    if last < 16:
        check_reads("p", tensors)
    else:
        with pytest.raises(ConfigError, match=r"elements 0\.\.16 .*let the condition around it"):
            check_reads("p", tensors)


def test_long_axes_are_worked_out_in_pieces() -> None:
    """The last of 3 million rows alone leaves the tensor."""
    rows, columns = 3_000_001, 2
    a = te.placeholder((rows, columns), name="A")

    def read(shift: int) -> list[Tensor]:
        return [a, te.compute((rows, columns), lambda i, j: a[te.max(i + j - shift, 0), j])]

    check_reads("p", read(1))
    with pytest.raises(ConfigError, match=r"elements 0\.\.3000001 of an axis of length 3000001"):
        check_reads("p", read(0))


def test_indices_of_data_are_not_worked_out() -> None:
    a = te.placeholder((16,), name="A")
    at = te.placeholder((16,), "int32", name="I")
    check_reads("p", [a, at, te.compute((16,), lambda i: a[te.max(at[i] * 2, i)], name="B")])
    chosen = te.compute((16,), lambda i: te.if_then_else(at[i] > 3, a[i * i], 0.0), name="C")
    check_reads("p", [a, at, chosen])


BIG = 60_000
FITS: list[Callable[[Var], Expr]] = [
    lambda i: i * i // 4,
    lambda i: i * 70_000 - i * 69_999,
    lambda i: (i * 35_791) // BIG,
]
WRAPS: list[tuple[Callable[[Var], Expr], str]] = [
    (lambda i: i * i // 100_000, r"i \* i reaches from 0 to 3599880001, more than int32 holds"),
    (lambda i: (i + 2_147_483_000) % BIG, "more than int32 holds"),
    (lambda i: te.floormod(i * 70_000, BIG), "write it in int64"),
    (lambda i: te.max(te.min(-i * 40_000, 0), 0), "-2399960000 to 0"),
    (lambda i: (i + 5 * (i * 50_000 % 7)) % 9, "2999950000"),
]


@pytest.mark.parametrize("index", FITS)
def test_arithmetic_on_indices_that_fits(index: Callable[[Var], Expr]) -> None:
    check_overflow("p", program(index, BIG, 40_000))


@pytest.mark.parametrize(("index", "message"), WRAPS)
def test_arithmetic_on_indices_that_would_wrap_is_refused(
    index: Callable[[Var], Expr], message: str
) -> None:
    """In reads and in values: the reference computes without limits, a kernel in int32."""
    with pytest.raises(ConfigError, match=message):
        check_overflow("p", program(index, BIG, BIG))
    a = te.placeholder((BIG,), name="A")
    value = te.compute((BIG,), lambda i: a[i] + index(i).astype("float32"), name="B")
    with pytest.raises(ConfigError, match=message):
        check_overflow("p", [a, value])
    late = te.compute((BIG,), lambda i: a[i] + (index(i).astype("int64") * 2 + 1), name="B")
    with pytest.raises(ConfigError, match=message):
        check_overflow("p", [a, late])
    wide = te.compute((BIG,), lambda i: a[i] + index(i.astype("int64")).astype("float32"), name="B")
    check_overflow("p", [a, wide])


def test_data_may_wrap() -> None:
    a = te.placeholder((16,), "int32", name="A")
    check_overflow("p", [a, te.compute((16,), lambda i: a[i] * a[i] + i, name="B")])


def test_arithmetic_on_what_is_chosen() -> None:
    """Values of if_then_else were taken for any of their type."""
    n, p = 16, 3
    mirrored = te.placeholder((n,), name="A")

    def inside(i: Var) -> Expr:
        j = te.if_then_else(i - p < 0, p - i, i - p)
        return te.if_then_else(j >= n, 2 * (n - 1) - j, j)

    check_overflow("p", [mirrored, te.compute((n + 2 * p,), lambda i: mirrored[inside(i)])])


def test_what_is_no_axis_of_the_operation_is_refused() -> None:
    """It was a KeyError of NumPy's evaluation, or of a sketch rule."""
    n = te.var("n")
    j, k = (te.reduce_axis((0, 4), name) for name in "jk")
    A = te.placeholder((4, 4), name="A")
    for body, names in (
        (lambda i: A[i, k], "k"),
        (lambda i: te.sum(A[j, k], axis=k), "j"),
        (lambda i: A[i, 0] * (n + j), "j, n"),
    ):
        C = te.compute((4,), body, name="C")
        D = te.compute((4,), lambda i, C=C: C[i] + 1, name="D")
        with pytest.raises(
            ConfigError, match=rf"^t: C uses {names}, which is not one of its axes; reduce over"
        ):
            check_variables("t", [A, D])
    good = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    check_variables("t", [A, good])


def chosen(condition: Callable[[Var], Expr], index: Callable[[Var], Expr]) -> list[Tensor]:
    a, n = te.placeholder((6,), name="A"), te.placeholder((1,), "int32", name="n")
    zero = te.const(0.0)

    def value(i: Var) -> Expr:
        wanted = te.all(condition(i), n[0] > 3) if condition is data else condition(i)
        return te.if_then_else(wanted, a[index(i)], zero)

    return [a, n, te.compute((14,), value, name="B")]


def data(i: Var) -> Expr:
    return i < 13


@pytest.mark.parametrize(
    ("condition", "index", "elements"),
    [
        (lambda i: te.all(i >= 1, i < 13), lambda i: i - 0, r"1\.\.12"),
        (lambda i: te.all(i >= 1, i < 7), lambda i: i, r"1\.\.6"),
        (lambda i: te.all(i >= 1, i <= 6), lambda i: i - 2, r"-1\.\.4"),
        (lambda i: Not(te.any(i < 3, i > 9)), lambda i: i, r"3\.\.9"),
        (lambda i: i * 2 < 14, lambda i: i, r"0\.\.6"),
    ],
)
def test_a_condition_that_lets_a_read_leave_its_tensor(
    condition: Callable[[Var], Expr], index: Callable[[Var], Expr], elements: str
) -> None:
    """It was taken without a word, and kernels read what is behind the array."""
    wanted = rf"reads A at .*, elements {elements} of an axis of length 6; let the condition around"
    with pytest.raises(ConfigError, match=wanted):
        check_reads("p", chosen(condition, index))


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        (lambda i: te.all(i >= 1, i < 7), lambda i: i - 1),
        (lambda i: i // 2 < 3, lambda i: i),  # not known: no bound of i alone
        (lambda i: i < 0, lambda i: i + 50),  # it never holds
        (data, lambda i: i),  # nor is what data say
    ],
)
def test_a_condition_that_may_keep_a_read_inside(
    condition: Callable[[Var], Expr], index: Callable[[Var], Expr]
) -> None:
    check_reads("p", chosen(condition, index))


@pytest.mark.parametrize("rows", [3, 4])
def test_reads_that_decide_the_length_of_a_sum(rows: int) -> None:
    starts, values = te.placeholder((4,), "int32", name="P"), te.placeholder((9,), name="V")

    def body(i: Var) -> Expr:
        k = te.reduce_axis((starts[i], starts[i + 1]), "k")
        found: Expr = te.sum(values[k.var], axis=k)
        return found

    sums = te.compute((rows,), body, name="S")
    if rows == 3:
        check_reads("p", [starts, values, sums])
        return
    with pytest.raises(ConfigError, match=r"S reads P at i \+ 1, elements 1\.\.4 of an axis of"):
        check_reads("p", [starts, values, sums])
