"""Elementwise functions make calls of the right type and refuse the wrong one."""

import numpy as np
import pytest

from autosched import te
from autosched.driver import build_func, lower
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.tir import interp
from autosched.tir.expr import Call, Select, StringImm
from autosched.workloads.evaluate import evaluate
from kit.types import Array


def test_float_functions_keep_the_type() -> None:
    x = te.var("x", "float16")
    call = te.exp(x)
    assert isinstance(call, Call)
    assert (call.op, str(call.dtype), call.args) == ("exp", "float16", (x,))
    power = te.power(x, 2.0)
    assert isinstance(power, Call) and power.args[1].dtype is x.dtype


def test_float_functions_refuse_integers() -> None:
    with pytest.raises(TypeError, match=r"te.sqrt takes a float, found int32"):
        te.sqrt(te.var("i"))


def test_abs_of_floats_and_integers() -> None:
    call = te.abs(te.var("x", "float32"))
    assert isinstance(call, Call) and call.op == "fabs"
    assert isinstance(te.abs(te.var("i")), Select)


def test_call_extern_has_the_name_first() -> None:
    call = te.call_extern("sort", te.var("i"))
    assert isinstance(call, Call) and isinstance(call.args[0], StringImm)
    assert (call.op, call.args[0].value, str(call.dtype)) == ("call_extern", "sort", "int32")


@pytest.mark.parametrize("name", ["int32", "float32", "handle", "bool"])
def test_a_type_in_place_of_the_name_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"'{name}' is a type.*te.call_extern\('f', ..., dtype"):
        te.call_extern(name, "f", 1)  # type: ignore[arg-type]  # as written in other libraries


def test_classes_of_floats() -> None:
    A = te.placeholder((4,), name="A")
    a = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    functions = ((te.isnan, np.isnan), (te.isinf, np.isinf), (te.isfinite, np.isfinite))
    for ours, numpys in functions:
        B = te.compute((4,), lambda i, ours=ours: ours(A[i]), name="B")
        assert B.dtype == "bool"
        np.testing.assert_array_equal(_run(A, B, a), numpys(a))
    with pytest.raises(TypeError, match=r"te\.isnan takes a float, found int32"):
        te.isnan(te.var("i"))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64"])
def test_bits_are_counted(dtype: str) -> None:
    A = te.placeholder((4,), dtype, name="A")
    a = np.array([0, 1, 100, 127], dtype)
    ones, zeros = te.compute((4,), lambda i: (te.popcount(A[i]), te.clz(A[i])), name="B")
    assert (ones.dtype, zeros.dtype) == (dtype, "int32")
    bits = a.dtype.itemsize * 8
    for tensor, wanted in ((ones, [0, 1, 3, 7]), (zeros, [bits - n for n in (0, 1, 7, 7)])):
        B = te.compute((4,), lambda i, tensor=tensor: tensor[i], name="C")
        np.testing.assert_array_equal(_run(A, B, a), wanted)
        assert evaluate([A, B], [a])[0].tolist() == wanted
    with pytest.raises(TypeError, match=r"te\.popcount takes an integer, found float32"):
        te.popcount(te.var("x", "float32"))


def _run(A: te.Tensor, B: te.Tensor, a: Array) -> Array:
    func = lower(te.create_schedule(B.op), [A, B], cpu_target(threads=1))
    found = np.zeros(4, B.dtype.numpy)
    interp.run(func, [a, found])
    compiled: Array = load(build_func(func, cpu_target(threads=1)))(a)
    np.testing.assert_array_equal(found, compiled)
    return found
