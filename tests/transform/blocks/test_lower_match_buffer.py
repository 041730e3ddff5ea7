"""Views and alignment, memory that is not flat, what nothing makes."""

from __future__ import annotations

import pytest

from autosched.errors import ScheduleError
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.blocks.lower_match_buffer import LowerMatchBuffer
from autosched.transform.blocks.plan_and_update_buffer_allocation_location import (
    PlanAndUpdateBufferAllocationLocation,
)

VIEW = """
def main(A: Buffer((16, 16), float32, align=ALIGN, axis_separators=[1]), B: Buffer((4,), int32)):
    for i in range(4):
        with block(""):
            reads()
            writes()
            S = alloc((4,), float32)
            M = match[at: int32](A[i * 4:i * 4 + 4, 0:16], (4, 16), float32, elem_offset=at)
            M[0, 0] = 1.0
            B[i] = at
"""


def test_a_view_aligned_better_than_its_source_is_warned_of() -> None:
    """Its offset is none where the memory has two dimensions: no number says where it begins."""
    with pytest.warns(UserWarning, match="M is aligned to 64 bytes, but A, .* to 16"):
        after = LowerMatchBuffer()(parse_func(VIEW.replace("ALIGN", "16")))
    text = to_text(after)
    assert "A[i * 4, 0] = 1.0" in text and "B[i] = 0" in text


def test_a_match_of_nothing_is_refused() -> None:
    func = parse_func(VIEW.replace("ALIGN", "64"))
    without = func.__class__((), func.body, {}, func.attrs)
    with pytest.raises(ScheduleError, match="M matches a part of A, which nothing makes"):
        PlanAndUpdateBufferAllocationLocation()(without)
