"""Statements over buffers of their own, put on regions of tensors."""

from typing import Any

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.buffer_binding import Binding, bind_buffers, storage_of
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import float32
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Range, Var, pointer
from autosched.tir.stmt import BufferStore, Evaluate
from kit.tir import value_of


def ranges(*pairs: tuple[int, int]) -> tuple[Range, ...]:
    return tuple(Range(IntImm(a), IntImm(b)) for a, b in pairs)


def ints(exprs: tuple[Expr, ...]) -> list[int]:
    return [value_of(e) for e in exprs]


@pytest.mark.parametrize(
    ("aligned", "strides"),
    [((), [32, 8, 1]), (((1, 16, 0),), [64, 16, 1]), (((1, 5, 2),), [48, 12, 1])],
)
def test_strides_of_a_realized_region(
    aligned: tuple[tuple[int, int, int], ...], strides: list[int]
) -> None:
    buffer = decl_buffer((9, 9, 9))
    assert ints(storage_of(buffer, ranges((1, 2), (2, 4), (0, 8)), aligned).strides) == strides


def declared(shape: tuple[int, ...], **options: Any) -> Buffer:
    data = pointer("d", float32)
    return Buffer(data, float32, tuple(map(IntImm, shape)), **options)


def test_loads_and_stores_are_moved_to_the_region() -> None:
    whole = decl_buffer((4, 8), name="whole")
    part = declared((8,))
    storage = storage_of(whole, ranges((0, 4), (0, 8)))
    stmt = BufferStore(part, BufferLoad(part, (IntImm(1),)), (IntImm(2),))
    bound = bind_buffers(stmt, [Binding(part, storage, ranges((3, 1), (0, 8)))], "here")
    assert repr(bound) == "whole[3, 2] = whole[3, 1]"


def test_offset_and_strides_become_numbers() -> None:
    whole = decl_buffer((4, 8), name="whole")
    offset, stride = Var("offset"), Var("stride")
    part = declared((2, 4), strides=(stride, IntImm(1)), elem_offset=offset)
    storage = storage_of(whole, ranges((0, 4), (0, 8)))
    call = te.call_extern("f", part.data, offset, stride)
    bound = bind_buffers(Evaluate(call), [Binding(part, storage, ranges((1, 2), (4, 4)))], "here")
    assert isinstance(bound, Evaluate) and isinstance(bound.value, Call)
    assert bound.value.args[-3:] == (whole.data, IntImm(12), IntImm(8))


@pytest.mark.parametrize(
    ("part", "region", "message"),
    [
        (declared((4,)), ((0, 4), (0, 8)), "dimension 0 of whole.*has extent 4"),
        (declared((1, 4)), ((0, 1), (0, 8)), "extent 1 4, but .* 8"),
        (declared((4, 8), strides=(IntImm(9), IntImm(1))), ((0, 4), (0, 8)), "stride 0 9"),
        (declared((2, 4), elem_offset=Var("o")), ((0, 2), (0, 4)), "declared compact"),
        (declared((1, 8)), ((2, 1), (0, 8)), "element offset 0, but .* 16"),
        (declared((1, 1, 1)), ((0, 1), (0, 1)), "more dimensions"),
        (
            declared((1, 4), elem_offset=Var("o"), offset_factor=8),
            ((0, 1), (4, 4)),
            "multiple of 8",
        ),
        (
            declared((1, 8), elem_offset=Var("o")),
            ((2, 1), (0, 8)),
            r"d\.data is that of all of whole, .* at element 16; give .*address_of\(d\[0, 0\]\)",
        ),
    ],
)
def test_refusals(
    part: Buffer, region: tuple[tuple[int, int], tuple[int, int]], message: str
) -> None:
    whole = decl_buffer((4, 8), name="whole")
    storage = storage_of(whole, ranges((0, 4), (0, 8)))
    stmt = Evaluate(te.call_extern("f", part.data))
    with pytest.raises(ScheduleError, match=f"here: .*{message}"):
        bind_buffers(stmt, [Binding(part, storage, ranges(*region))], "here")


def test_an_address_is_that_of_the_region_which_must_be_compact() -> None:
    """Functions were given the pointer of a whole tensor, or rows apart, without a word."""
    whole = decl_buffer((4, 8), name="whole")
    storage = storage_of(whole, ranges((0, 4), (0, 8)))
    part = declared((2, 4), elem_offset=Var("o"))
    stmt = Evaluate(te.call_extern("f", te.address_of(part[0, 0])))
    with pytest.raises(ScheduleError, match=r"declared compact, .*strides 8, 1; declare it with"):
        bind_buffers(stmt, [Binding(part, storage, ranges((2, 2), (0, 4)))], "here")
    part = declared((2, 4), elem_offset=Var("o"), strides=(Var("s"), IntImm(1)))
    stmt = Evaluate(te.call_extern("f", te.address_of(part[0, 0])))
    bound = bind_buffers(stmt, [Binding(part, storage, ranges((2, 2), (0, 4)))], "here")
    assert "address_of(whole[2, 0]" in repr(bound)
    with pytest.raises(TypeError, match=r"te\.address_of: expected an element .*found Buffer"):
        te.address_of(part)  # type: ignore[arg-type]  # that is the mistake


def test_extern_between_two_stages() -> None:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    E = te.extern((16,), [B], lambda i, o: te.call_extern("sort", i[0].data, o[0].data), name="E")
    D = te.compute((16,), lambda i: E[i] * 2.0, name="D")
    text = repr(schedule_to_prim_func(te.create_schedule(D.op), [A, D]))
    assert 'call_extern("sort", B, E' in text
