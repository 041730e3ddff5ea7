"""Which vector accesses are aligned for every value of their variables."""

from __future__ import annotations

import pytest

from autosched.arith import Analyzer
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import Expr, IntImm, Ramp, Var
from autosched.tir.op import call, const
from autosched.transform.device.alignment import is_aligned

I, J = Var("i"), Var("j")


def ramp(base: Expr | int, lanes: int, stride: int = 1) -> Expr:
    return Ramp(base if isinstance(base, Expr) else const(base), IntImm(stride), lanes)


@pytest.mark.parametrize(
    ("dtype", "index", "expected"),
    [
        ("float32", ramp(0, 4), True),
        ("float32", ramp(I * 4, 4), True),
        ("float32", ramp(I * 8 + J * 4 + 12, 4), True),
        ("float32", ramp(I * 2, 4), False),
        ("float32", ramp(I * 4 + 2, 4), False),
        ("float32", ramp(I * 4 + 2, 2), True),
        ("float32", ramp(I, 2), False),
        ("float32", ramp(0, 8), False),
        ("float32", ramp(0, 3), False),
        ("float32", ramp(0, 4, stride=2), False),
        ("float32", I, False),
        ("float16", ramp(I * 8, 8), True),
        ("int8", ramp(I * 16, 16), True),
        ("float64", ramp(I * 2, 2), True),
        ("float64", ramp(I * 4, 4), False),
    ],
    ids=str,
)
def test_multiples_of_the_size(dtype: str, index: Expr, expected: bool) -> None:
    assert is_aligned(decl_buffer((64,), dtype, "A"), index) == expected


def test_what_is_known_of_a_variable_counts() -> None:
    buffer, analyzer = decl_buffer((64,), "float32", "A"), Analyzer()
    assert not is_aligned(buffer, ramp(I, 4), analyzer)
    analyzer.bind(I, J * 4)
    assert is_aligned(buffer, ramp(I, 4), analyzer)


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_shifts_and_masks_are_divisions(lanes: int) -> None:
    buffer = decl_buffer((64,), "float16", "A")
    masked = call("bitwise_and", I * 12, const(31)) + call("shift_right", I, const(3)) * 8
    assert is_aligned(buffer, ramp(masked, lanes)) == (lanes <= 4)
    assert not is_aligned(buffer, ramp(call("bitwise_and", I * 12, const(30)), lanes))
    assert not is_aligned(buffer, ramp(call("shift_right", I * 8, const(3)), lanes))


@pytest.mark.parametrize(
    "index",
    [
        *(call("shift_right", I, const(count)) * 4 for count in (30, 31, 32, -1, 2**31 - 1)),
        call("bitwise_and", I, const(2**31 - 1)) * 4,
    ],
    ids=str,
)
def test_shifts_and_masks_by_all_bits(index: Expr) -> None:
    assert is_aligned(decl_buffer((64,), "float32", "A"), ramp(index, 4))


def test_offset_and_alignment_of_the_buffer_count() -> None:
    data = decl_buffer((64,), "float32", "A").data
    f32, shape = decl_buffer((1,), "float32").dtype, (const(64),)
    assert not is_aligned(Buffer(data, f32, shape, elem_offset=const(2)), ramp(0, 4))
    assert is_aligned(Buffer(data, f32, shape, elem_offset=const(8)), ramp(0, 4))
    assert not is_aligned(Buffer(data, f32, shape, data_alignment=4), ramp(0, 4))
    assert not is_aligned(Buffer(data, f32, shape, strides=(const(2),)), ramp(0, 4))
