"""Operators of truth values mean what NumPy's mean, compiled and interpreted, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower
from autosched.runtime.cpu import build_artifact, load
from autosched.target import cpu_target
from autosched.tir import interp
from autosched.tir.dtype import DType, bool_
from autosched.tir.expr import Add, Call, Expr, Mul
from autosched.tir.function import PrimFunc
from kit.te import compute_of
from kit.tir import value_of
from kit.types import Array

COUNT = 16
A = np.resize([False, False, True, True], COUNT)
B = np.resize([False, True, False, True], COUNT)
Operator = Callable[[Any, Any], Any]


def bits(op: str, result: str = "bool") -> Operator:
    return lambda a, b: Call(DType(result), op, (a,))


def both(op: str) -> Operator:
    return lambda a, b: Call(bool_, op, (a, b))


OPERATORS: dict[str, tuple[Operator, Operator]] = {
    "a + b": (lambda a, b: a + b, np.add),
    "a * b": (lambda a, b: a * b, np.multiply),
    "a node of a sum": (Add, np.add),
    "a node of a product": (Mul, np.multiply),
    "a + b + not a": (lambda a, b: a + b + te.logical_not(a), lambda a, b: a + b + ~a),
    "max": (te.max, np.maximum),
    "min": (te.min, np.minimum),
    "abs": (lambda a, b: te.abs(a), lambda a, b: np.abs(a)),
    "<": (lambda a, b: a < b, np.less),
    "<=": (lambda a, b: a <= b, np.less_equal),
    ">": (lambda a, b: a > b, np.greater),
    ">=": (lambda a, b: a >= b, np.greater_equal),
    "==": (te.eq, np.equal),
    "!=": (te.ne, np.not_equal),
    "and": (te.all, np.logical_and),
    "or": (te.any, np.logical_or),
    "not": (lambda a, b: te.logical_not(a), lambda a, b: ~a),
    "select": (lambda a, b: te.select(a, b, a), lambda a, b: np.where(a, b, a)),
    "if_then_else": (lambda a, b: te.if_then_else(b, a, b), lambda a, b: np.where(b, a, b)),
    "&": (te.bitwise_and, np.bitwise_and),
    "|": (te.bitwise_or, np.bitwise_or),
    "^": (te.bitwise_xor, np.bitwise_xor),
    "a node of &": (both("bitwise_and"), np.bitwise_and),
    "a node of |": (both("bitwise_or"), np.bitwise_or),
    "a node of ^": (both("bitwise_xor"), np.bitwise_xor),
    "~": (bits("bitwise_not"), lambda a, b: np.invert(a)),
    "clz": (bits("clz", "int32"), lambda a, b: 1 - a),
    "popcount": (bits("popcount", "int32"), lambda a, b: 1 * a),
    "a + 1": (lambda a, b: a + 1, lambda a, b: a + np.int32(1)),
    "a * 2.5": (lambda a, b: a * 2.5, lambda a, b: a * np.float32(2.5)),
    "int8(a) - b": (lambda a, b: a.astype("int8") - b, lambda a, b: a.astype(np.int8) - b),
    "bool(a + 1)": (lambda a, b: (a + 1).astype("bool"), lambda a, b: a | True),
}
REFUSED: dict[str, tuple[Operator, str]] = {
    "a - b": (lambda a, b: a - b, r"- of the truth values A\[i\] and B\[i\]: .*te.ne is"),
    "a - False": (lambda a, b: a - False, "- of the truth values"),
    "-a": (lambda a, b: -a, r"- of the truth value A\[i\]: te.logical_not is its opposite"),
    "-True": (lambda a, b: -te.const(True), "- of the truth value"),
    "a // b": (lambda a, b: a // b, "// of the truth values"),
    "a % b": (lambda a, b: a % b, "% of the truth values"),
    "a / b": (lambda a, b: a / b, "/ on bool is ambiguous"),
    "truncdiv": (te.truncdiv, "truncdiv of the truth values"),
    "truncmod": (te.truncmod, "truncmod of the truth values"),
    "<<": (te.shift_left, "te.shift_left takes integers, found bool"),
    ">>": (te.shift_right, "te.shift_right takes integers, found bool"),
    "power": (te.power, "te.power takes floats, found bool"),
    "fmod": (te.fmod, "te.fmod takes floats, found bool"),
}


def _kernel(operator: Operator, lanes: int) -> tuple[PrimFunc, DType]:
    a, b = (te.placeholder((COUNT,), "bool", name) for name in "AB")
    c = te.compute((COUNT,), lambda i: operator(a[i], b[i]), "C")
    sch = te.create_schedule(c.op)
    if lanes > 1:
        _, inner = sch[c].split(compute_of(c).axis[0], lanes)
        sch[c].vectorize(inner)
    return lower(sch, [a, b, c], cpu_target(1)), c.dtype


def _results(func: PrimFunc, inputs: list[Array], out: Array) -> list[Array]:
    """What the compiled kernel writes, and the interpreted one."""
    ours, theirs = out.copy(), out.copy()
    load(build_artifact(func, cpu_target(1), "light"))(*inputs, ours)
    interp.run(func, [*inputs, theirs])
    return [ours, theirs]


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_those_of_numpy(name: str, lanes: int) -> None:
    operator, reference = OPERATORS[name]
    func, dtype = _kernel(operator, lanes)
    wanted = reference(A, B)
    for found in _results(func, [A, B], np.zeros(COUNT, dtype.numpy)):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_does_not_have_is_refused(name: str) -> None:
    operator, message = REFUSED[name]
    with pytest.raises(TypeError, match=message):
        _kernel(operator, 1)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_reductions(name: str) -> None:
    a, k = te.placeholder((4, COUNT), "bool", "A"), te.reduce_axis((0, COUNT), "k")
    c = te.compute((4,), lambda i: getattr(te, name)(a[i, k], axis=k), "C")
    data = np.stack([A, B, np.zeros_like(A), np.ones_like(A)])
    fold = np.logical_or if name in ("sum", "max") else np.logical_and
    func = lower(te.create_schedule(c.op), [a, c], cpu_target(1))
    for found in _results(func, [data], np.zeros(4, bool)):
        np.testing.assert_array_equal(found, fold.reduce(data, axis=1))


def test_constants_are_folded_in_the_same_way() -> None:
    for a in (False, True):
        for b in (False, True):
            x, y = te.const(a), te.const(b)
            assert value_of(x + y) == (a or b)
            assert value_of(x * y) == (a and b)


def test_tensors_are_added_as_their_elements() -> None:
    a, b = (te.placeholder((COUNT,), "bool", name) for name in "AB")
    total = a + b
    assert total.dtype is bool_
    func = lower(te.create_schedule(total.op), [a, b, total], cpu_target(1))
    for found in _results(func, [A, B], np.zeros(COUNT, bool)):
        np.testing.assert_array_equal(found, A | B)


CONDITIONS: dict[str, tuple[Callable[[Expr], Any], str]] = {
    "all": (lambda x: te.all(x, x), "te.all takes a condition"),
    "all of one": (lambda x: te.all(x), "te.all takes a condition"),
    "any": (lambda x: te.any(x < 1, x), "te.any takes a condition"),
    "any of one": (lambda x: te.any(x), "te.any takes a condition"),
    "not": (te.logical_not, "te.logical_not takes a condition"),
    "select": (lambda x: te.select(x, 1, 2), "te.select takes a condition"),
    "if_then_else": (lambda x: te.if_then_else(x, 1, 2), "te.if_then_else takes a condition"),
    "likely": (te.likely, "te.likely takes a condition"),
}


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_numbers_are_no_conditions(name: str, dtype: str) -> None:
    make, message = CONDITIONS[name]
    with pytest.raises(TypeError, match=rf"{message} \(bool\), found x of {dtype}.*te.ne\(..., 0"):
        make(te.var("x", dtype))


def test_a_number_does_not_say_which_terms_of_a_sum_count() -> None:
    k = te.reduce_axis((0, 4), "k")
    with pytest.raises(TypeError, match=r"te.sum: where takes a condition \(bool\), found k"):
        te.sum(te.const(1), axis=k, where=k.var)
