"""Objects of wrong types are refused by the function of te that gets them, in words."""

from collections.abc import Callable
from typing import Any

import pytest

from autosched import te

Make = Callable[[Any], object]


def rows(*, name: str = "A") -> Any:
    return te.placeholder((8, 4), name=name)


def call(ins: Any, outs: Any) -> Any:
    return te.call_extern("f", ins[0].data, outs[0].data)


def scanned(**given: Any) -> object:
    x, state = rows(), rows(name="state")
    parts = {
        "init": te.compute((1, 4), lambda _, i: x[0, i]),
        "update": te.compute((8, 4), lambda t, i: state[t - 1, i] + x[t, i]),
        "state_placeholder": state,
        "inputs": [x],
    }
    return te.scan(**{**parts, **given})


def declared(fcompute: Any = call, **options: Any) -> object:
    described = te.compute((8, 4), lambda i, j: rows()[i, j] * 2.0)
    return te.decl_tensor_intrin(described.op, fcompute, **options)


def reduced(value: Any) -> object:
    return te.sum(value, axis=te.reduce_axis((0, 4), "k"))


CASES: list[tuple[Make, Any, str]] = [
    (te.var, 8, r"te\.var: a name is text, found 8 \(int\)"),
    (te.size_var, None, r"te\.size_var: a name is text, found None"),
    (lambda x: te.reduce_axis((0, 4), x), 4, r"te\.reduce_axis: a name is text, found 4"),
    (lambda x: te.thread_axis((0, 4), x), 1, r"te\.thread_axis: a tag is text, found 1"),
    (lambda x: te.compute((4,), abs, axis_names=[x]), 3, r"axis_names\[0\]: expected a str"),
    (lambda x: te.compute((4,), abs, "B", tag=x), 3, "B: a tag is text, found 3"),
    (lambda x: te.compute((4,), abs, "B", attrs=x), [1], "B: attrs are names and values"),
    (lambda x: te.comm_reducer(x, abs), 3, r"comm_reducer reduce: fcombine is a function, e\.g\."),
    (lambda x: te.comm_reducer(max, x), 0, "comm_reducer reduce: fidentity is a function"),
    (reduced, "A", r'te\.sum reduces numbers, found the text "A"'),
    (lambda x: te.cast("int32", x), "A", 'cast to int32: expected a number, found the text "A"'),
    (te.const, "1.5", r"const: expected a number, found '1\.5' \(str\)"),
    (te.decl_buffer, None, "decl_buffer buffer: shape: expected a list of integers, found None"),
    (te.decl_buffer, (4, 2.5), r"decl_buffer buffer: shape\[1\]: expected an integer, found 2\.5"),
    (lambda x: te.decl_buffer((4,), name=x), 3, "decl_buffer: a name is text"),
    (lambda x: te.decl_buffer((4,), scope=x), None, "decl_buffer buffer: a scope is text"),
    (lambda x: te.decl_buffer((4,), data=x), "A", "data is the pointer of another buffer"),
    (lambda x: te.decl_buffer((4,), strides=x), 1.0, "strides: expected a list of integers"),
    (lambda x: te.decl_buffer((4,), elem_offset=x), 1.5, "elem_offset: expected an integer"),
    (lambda x: te.decl_buffer((4, 4), axis_separators=x), "1", "axis_separators: expected one int"),
    (lambda x: te.extern((4,), x, call), "A", r"te\.extern extern: inputs: expected one Tensor or"),
    (
        lambda x: te.extern((4,), [x], call),
        None,
        r"extern: inputs\[0\]: expected a Tensor, found N",
    ),
    (lambda x: te.extern((4,), [rows()], x), None, "fcompute is a function, .* found None"),
    (
        lambda x: te.extern((4,), rows(), call, in_buffers=x),
        [1],
        r"in_buffers\[0\]: expected a Buf",
    ),
    (lambda x: te.extern((4,), rows(), call, out_buffers=x), 3, "out_buffers: expected one Buffer"),
    (lambda x: scanned(init=x), "A", r"te\.scan scan: init: expected one Tensor or a list of them"),
    (lambda x: scanned(state_placeholder=x), [None], r"state_placeholder\[0\]: expected a Tensor"),
    (lambda x: scanned(inputs=x), [1], r"te\.scan scan: inputs\[0\]: expected a Tensor, found 1"),
    (declared, None, "decl_tensor_intrin tensor_intrin: fcompute is a function"),
    (lambda x: declared(name=x), None, "decl_tensor_intrin: a name is text"),
    (lambda x: declared(binds=x), [rows()], "tensor_intrin: binds are tensors and buffers"),
    (lambda x: declared(scalar_params=x), [1], r"scalar_params\[0\]: expected a Var, found 1"),
    (lambda x: declared(default_buffer_params=x), 1, "default_buffer_params are names and values"),
]


@pytest.mark.parametrize(("make", "given", "message"), CASES)
def test_objects_of_wrong_types(make: Make, given: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(given)


def test_a_negative_number_of_threads() -> None:
    with pytest.raises(ValueError, match=r"te\.thread_axis threadIdx\.x: .* \(0, -1\), which ends"):
        te.thread_axis(-1, "threadIdx.x")


def test_reducing_nothing() -> None:
    with pytest.raises(ValueError, match=r"te\.sum reduces one value or several, found \(\)"):
        reduced(())


def test_what_is_taken() -> None:
    n = te.var("n")
    assert te.decl_buffer(8).shape == te.decl_buffer((8,)).shape
    assert te.decl_buffer((4, n), strides=(n, 1), elem_offset=n * 4).strides[0] is n
