"""Elementwise functions make calls of the right type and refuse the wrong one."""

import pytest

from autosched import te
from autosched.tir.expr import Call, Select, StringImm


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
