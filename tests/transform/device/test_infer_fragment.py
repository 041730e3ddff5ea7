"""What is said about fragments, and which contradictions are refused."""

from __future__ import annotations

import textwrap

import pytest

from autosched.errors import ScheduleError
from autosched.tir.expr import StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import Allocate, AttrStmt
from autosched.tir.walk import stmts
from autosched.transform.device.infer_fragment import InferFragment

HEAD = """\
def main():
    launch(threadIdx.x, 32)
    S = allocate((256,), float16, "shared")
    a = allocate((256,), float16, "wmma.matrix_a")
    b = allocate((256,), float16, "wmma.matrix_b")
    c = allocate((256,), float32, "wmma.accumulator")
"""


def fill(name: str, shape: str = "16, 16, 16") -> str:
    return f"tvm_fill_fragment({name}, {shape}, 0, 0.0, dtype=handle)\n"


def move(
    name: str, layout: str = "row_major", kind: str = "load", shape: str = "16, 16, 16"
) -> str:
    call = f"tvm_{kind}_matrix_sync"
    return f'{call}({name}, {shape}, 0, address_of(S[0]), 16, "{layout}", dtype=handle)\n'


MULTIPLY = "tvm_mma_sync(c, 0, a, 0, b, 0, c, 0, dtype=handle)\n"


def function(body: str) -> PrimFunc:
    return parse_func(HEAD + textwrap.indent(body, "    "))


def said(func: PrimFunc) -> dict[str, list[tuple[str, str]]]:
    """The attributes around each allocation, the outermost first."""
    found: dict[str, list[tuple[str, str]]] = {}
    for s in stmts(func.body):
        if isinstance(s, AttrStmt) and isinstance(s.node, Var) and isinstance(s.value, StringImm):
            found.setdefault(s.node.name, []).append((s.key, s.value.value))
            inner = s.body.body if isinstance(s.body, AttrStmt) else s.body
            assert isinstance(inner, Allocate)
            assert inner.buffer_var is s.node
    return found


SHAPE = ("fragment_shape", "16, 16, 16")


def test_the_product_of_the_seed() -> None:
    """Layouts are of a and b, and of an accumulator that is filled first."""
    body = fill("c") + move("a") + move("b", "col_major") + MULTIPLY + move("c", "", "store")
    assert said(InferFragment()(function(body))) == {
        "a": [("fragment_layout", "row_major"), SHAPE],
        "b": [("fragment_layout", "col_major"), SHAPE],
        "c": [("fragment_layout", "row_major"), SHAPE],
    }


def test_an_accumulator_that_is_loaded_has_no_layout() -> None:
    body = move("c", "row_major") + move("a") + move("b") + MULTIPLY + fill("c")
    assert said(InferFragment()(function(body)))["c"] == [SHAPE]


def test_other_shapes() -> None:
    found = said(InferFragment()(function(move("a", shape="8, 32, 16"))))
    assert found == {"a": [("fragment_layout", "row_major"), ("fragment_shape", "8, 32, 16")]}


def test_code_without_fragments_stays() -> None:
    func = function("S[threadIdx.x] = float16(0.0)\n")
    assert InferFragment()(func) is func


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (fill("c") + move("a") + MULTIPLY, "fragment b must be filled or loaded before use"),
        (move("a") + move("a", "col_major"), "a has the layouts row_major and col_major"),
        (fill("a") + move("a", "col_major"), "a has the layouts row_major and col_major"),
        (
            move("a") + move("a", shape="8, 32, 16"),
            r"a has the shapes \(16, 16, 16\) and \(8, 32, 16\)",
        ),
        (
            fill("c") + move("a") + move("b", shape="8, 32, 16") + MULTIPLY,
            r"need one shape, found c \(16, 16, 16\), a \(16, 16, 16\), b \(8, 32, 16\)",
        ),
        (
            "for n in range(4):\n    " + fill("c", "n, 16, 16"),
            "the shape of c must be constant",
        ),
        (
            "tvm_fill_fragment(c, 16, 16, 16, 0, dtype=handle)\n",
            "tvm_fill_fragment takes 6 arguments, found 5",
        ),
        (fill("7"), "argument 0 of tvm_fill_fragment must be a fragment, found 7"),
        (move("a").replace('"row_major"', "7"), "the layout of a must be a string"),
    ],
)
def test_contradictions(body: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        InferFragment()(function(body))
