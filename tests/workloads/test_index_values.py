"""Tensors read as indices get values with which every read stays inside."""

from collections.abc import Callable

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.errors import ConfigError
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Expr, Var
from autosched.workloads.index_values import drawn_values, index_values
from autosched.workloads.workload import random_inputs
from kit.types import Array

Index = Callable[[Expr, Var], Expr]


def gather(index: Index, dtype: str = "int32", size: int = 16) -> list[Tensor]:
    """What `index` makes of an element of I and the loop over it reads a table of `size`."""
    table = te.placeholder((size,), name="T")
    where = te.placeholder((8,), dtype, name="I")
    return [where, table, te.compute((8,), lambda i: table[index(where[i], i)], name="G")]


@pytest.mark.parametrize(
    ("index", "values"),
    [
        (lambda v, i: v, range(16)),
        (lambda v, i: v + 3, range(13)),
        (lambda v, i: 2 * v + 1, range(8)),
        (lambda v, i: v + i, range(9)),
        (lambda v, i: 15 - v, range(16)),
        (lambda v, i: v - 3, range(3, 19)),
        (lambda v, i: (v.astype("int64") - 3).astype("int32"), range(3, 19)),
        (lambda v, i: 2 * v - 3, range(2, 10)),
        (lambda v, i: 20 - v, range(5, 21)),
        (lambda v, i: 41 - 2 * v, range(13, 21)),
    ],
)
def test_values_of_an_index_tensor_stay_inside(index: Index, values: range) -> None:
    where, table, gathered = gather(index)
    assert index_values([where, table, gathered]) == {where: values}
    drawn = drawn_values([where, table, gathered])
    assert drawn == {where: values}
    array, other = random_inputs([where, table], 3, drawn)
    assert array.min() >= values.start and array.max() < values.stop and other.dtype.kind == "f"


def test_an_index_tensor_that_cannot_stay_inside() -> None:
    with pytest.raises(ConfigError, match="which is outside its axis of length"):
        index_values(gather(lambda v, i: 16 - i * 0 + v))


def test_two_reads_that_no_value_keeps_inside() -> None:
    where, table, _ = gather(lambda v, i: v)
    both = te.compute((8,), lambda i: table[where[i] - 20] + table[where[i]], name="G")
    with pytest.raises(
        ConfigError, match=r"reads T at I\[i\]: no value of I keeps all reads that depend"
    ):
        index_values([where, table, both])


@pytest.mark.parametrize(
    ("index", "dtype", "size", "values"),
    [
        (lambda v, i: v, "int8", 500, range(128)),
        (lambda v, i: v, "uint8", 500, range(256)),
        (lambda v, i: v, "int16", 40_000, range(32_768)),
        (lambda v, i: v + 1, "int8", 500, range(127)),
        (lambda v, i: v * 100, "int8", 500, range(2)),
        (lambda v, i: 4 - v, "uint8", 5, range(5)),
        (lambda v, i: v // 2, "int32", 5, range(10)),
        (lambda v, i: te.max(v, 2), "int32", 5, range(5)),
        (lambda v, i: v // 2 + i, "int8", 9, range(4)),
        (lambda v, i: te.shift_right(v, te.const(1, v.dtype)), "int32", 5, range(10)),
        (lambda v, i: v // 64, "int8", 2, range(128)),
    ],
)
def test_drawn_values_fit_their_type_and_stay_inside(
    index: Index, dtype: str, size: int, values: range
) -> None:
    where, table, gathered = gather(index, dtype, size)
    assert drawn_values([where, table, gathered]) == {where: values}


@pytest.mark.parametrize(
    "index", [lambda v, i: v % 5, lambda v, i: te.max(te.min(v - 1, 4), 0), lambda v, i: i]
)
def test_what_stays_inside_anyway_has_any_value(index: Index) -> None:
    assert drawn_values(gather(index, size=8)) == {}


def test_a_stage_between() -> None:
    where, table, _ = gather(lambda v, i: v)
    shifted = te.compute((8,), lambda i: where[7 - i] // 2 + 3, name="S")
    gathered = te.compute((8,), lambda i: table[shifted[i]], name="G")
    assert drawn_values([where, table, gathered])[where] == range(26)


def test_a_guard_lets_the_smallest_values_be_chosen_but_not_drawn() -> None:
    where, table, _ = gather(lambda v, i: v)
    guarded = te.compute(
        (8,), lambda i: te.if_then_else(where[i] > 0, table[where[i] - 1], 0.0), name="G"
    )
    assert index_values([where, table, guarded])[where] == range(17)
    assert drawn_values([where, table, guarded])[where] == range(1, 17)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize(
    ("expr", "index", "size"),
    [
        ("I[i] * 100", lambda v: v * 100, 401),
        ("4 - I[i]", lambda v: 4 - v, 5),
        ("I[i] - 3", lambda v: v - 3, 5),
        ("I[i] + 100", lambda v: v + 100, 250),
    ],
)
def test_arithmetic_of_expressions_on_narrow_indices_does_not_wrap(
    expr: str, index: Callable[[Array], Array], size: int, dtype: str
) -> None:
    task = autosched.Task.from_expression(
        f"G[i] = T[{expr}]", {"T": (size,), "I": (64,)}, dtype={"T": "float32", "I": dtype}
    )
    table, where = task.inputs()
    place = index(where.astype(int))
    assert len(set(place.tolist())) > 3 and place.min() >= 0 and place.max() < size
    np.testing.assert_array_equal(task.reference([table, where])[0], table[place])


Domain = Callable[[Tensor, Var], tuple[Expr | int, Expr | int]]


def segments(domain: Domain, factor: int = 1, dtype: str = "int32") -> Tensor:
    """Sums of every `factor`-th of 16 values, each over a `domain` that data decides."""
    table = te.placeholder((16,), name="T")
    lengths = te.placeholder((4,), dtype, name="L")

    def body(i: Var) -> Expr:
        k = te.reduce_axis(domain(lengths, i), "k")
        found: Expr = te.sum(table[k.var.astype("int64") * factor], axis=k)
        return found

    found: Tensor = te.compute((3,), body, name="S")
    return found


@pytest.mark.parametrize(
    ("domain", "factor", "values"),
    [
        (lambda lengths, i: (0, lengths[i]), 1, range(17)),
        (lambda lengths, i: (0, lengths[i].astype("int32") + 3), 1, range(14)),
        (lambda lengths, i: (0, lengths[i]), 3, range(7)),
        (lambda lengths, i: (lengths[i], lengths[i + 1]), 1, range(17)),
        (lambda lengths, i: (lengths[i].astype("int32") - 2, 16), 1, range(2, 19)),
        (lambda lengths, i: (0, lengths[i].astype("int32") // 2), 1, range(34)),
    ],
)
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_ends_of_sums_stay_inside(domain: Domain, factor: int, values: range, dtype: str) -> None:
    sums = segments(domain, factor, dtype)
    assert [*drawn_values([sums]).values()] == [values]


def test_any_value_may_decide_a_sum_that_is_cut_off() -> None:
    assert drawn_values([segments(lambda lengths, i: (0, te.min(lengths[i], 16)))]) == {}


def test_a_condition_keeps_a_sum_inside_for_any_end() -> None:
    table, lengths = te.placeholder((16,), name="T"), te.placeholder((4,), "int32", name="L")

    def body(i: Var) -> Expr:
        k = te.reduce_axis((0, lengths[i]), "k")
        found: Expr = te.sum(table[k.var], axis=k, where=k.var < 16)
        return found

    sums = te.compute((4,), body, name="S")
    assert index_values([sums]) == {}
    assert drawn_values([sums]) == {lengths: range(17)}
