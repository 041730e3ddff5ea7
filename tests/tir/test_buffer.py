"""Buffers: declaration, views and indexing."""

from __future__ import annotations

from typing import Any

import pytest

from autosched.tir import op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import float32, handle
from autosched.tir.expr import BufferLoad, IntImm, Range, Var
from autosched.tir.printer import to_text
from autosched.tir.stmt import BufferRegion


def test_declaration() -> None:
    n = Var("n")
    buffer = decl_buffer((n, 4), "float32", "A", "shared")
    assert buffer.shape == (n, IntImm(4))
    assert buffer.scope == buffer.data.scope == "shared"
    assert buffer.data.dtype is handle
    assert buffer.data.element is float32


def test_a_view_shares_the_pointer() -> None:
    a = decl_buffer((4, 4), name="A")
    flat = decl_buffer((16,), name="F", data=a.data)
    assert flat.data is a.data
    assert repr(flat) == "Buffer(F: float32[16], global)"


def test_indexing() -> None:
    a, i = decl_buffer((4, 4), name="A"), Var("i")
    assert a[i, 1] is BufferLoad(a, (i, IntImm(1)))
    assert decl_buffer((4,))[i].indices == (i,)


@pytest.mark.parametrize("separators", [(0,), (3,), (2, 1), (1, 1)])
def test_axis_separators_lie_between_dimensions(separators: tuple[int, ...]) -> None:
    assert decl_buffer((2, 3, 4), axis_separators=[1, 2]).axis_separators == (1, 2)
    with pytest.raises(ValueError, match="axis_separators must rise from 1 to 2"):
        decl_buffer((2, 3, 4), axis_separators=separators)


N = Var("n")


@pytest.mark.parametrize(
    ("buffer", "given", "shown"),
    [
        (decl_buffer((4, 8), name="A"), {}, "0.0, A, 0, 32, 1"),
        (decl_buffer((4, 8), name="A"), {"offset": 8}, "0.0, A, 8, 24, 1"),
        (decl_buffer((4, 8), name="A"), {"offset": 8, "extent": 2}, "0.0, A, 8, 2, 1"),
        (decl_buffer((4, N), name="A"), {"offset": N}, "0.0, A, n, 4 * n - n, 1"),
        (decl_buffer((), name="A"), {}, "0.0, A, 0, 1, 1"),
        (
            decl_buffer((4, 8), "int8", "A", elem_offset=N),
            {"offset": 1},
            "int8(0), A, n + 1, 31, 1",
        ),
        (decl_buffer((4, 8), name="A", strides=(N, 1)), {}, "0.0, A, 0, 1 + 3 * n + 7, 1"),
    ],
)
def test_access_pointers(buffer: Buffer, given: dict[str, Any], shown: str) -> None:
    assert to_text(buffer.access_ptr("r", **given)) == f"tvm_access_ptr({shown}, dtype=handle)"


def test_access_modes() -> None:
    a = decl_buffer((4,), name="A")
    masks = [a.access_ptr(mode).args[-1] for mode in ("r", "w", "rw")]
    assert list(map(repr, masks)) == ["1", "2", "3"]
    with pytest.raises(ValueError, match="access_ptr of A: expected one of r, w, rw, found 'x'"):
        a.access_ptr("x")
    with pytest.raises(TypeError, match=r"access_ptr of A: offset: expected an integer"):
        a.access_ptr("r", offset=0.5)  # type: ignore[arg-type]  # what the check is for


def test_regions_of_seed_document_002() -> None:
    """It makes them of (min, extent) pairs that are the (begin, end) of what it means."""
    a = decl_buffer((8, 8), name="A")
    region = BufferRegion(a, (Range.of(4, 0), Range.of(4, 2)))
    assert to_text(region) == "A[0:4, 2:6]"
    assert to_text(BufferRegion.full(a)) == "A[0:8, 0:8]"


@pytest.mark.parametrize(
    ("view", "alike"),
    [
        (decl_buffer((4, 4), name="same"), True),
        (decl_buffer((2, 4), name="fewer rows"), True),
        (decl_buffer((8, 2), name="short rows"), False),
        (decl_buffer((4, 4), "int32", "other type"), False),
        (decl_buffer((4, 4), name="later", elem_offset=4), False),
        (decl_buffer((4, 4), name="apart", strides=(8, 1)), False),
    ],
)
def test_where_equal_indices_are_equally_far(view: Buffer, alike: bool) -> None:
    plain = decl_buffer((4, 4), name="A")
    assert view.is_laid_out_as(plain) is plain.is_laid_out_as(view) is alike


def test_buffers_are_not_iterated() -> None:
    """It never ended."""
    with pytest.raises(TypeError, match="not iterable"):
        iter(decl_buffer((4,)))
    with pytest.raises(TypeError, match=r"found Buffer .* its address, buffer"):
        op.as_expr(decl_buffer((4,)))
