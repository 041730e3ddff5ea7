"""What cannot be followed is left alone."""

from __future__ import annotations

import pytest

from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.dataflow.memory import memory_of
from autosched.transform.loops.remove_no_op import RemoveNoOp

HEAD = "def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):\n"


def followed(body: str, attrs: str = "") -> set[str]:
    func = parse_func(HEAD + attrs + body)
    return {v.name for v in memory_of(func).followed}


ALLOCATED = '    T = allocate((4,), float32, "{}")\n    T[0] = 1.0\n    A[0] = T[0]\n'


def test_memory_that_is_followed() -> None:
    assert followed(ALLOCATED.format("global")) == {"A", "B", "T"}
    assert followed(ALLOCATED.format("global"), "    attrs(tir.noalias=False)\n") == {"T"}
    handed_on = ALLOCATED.format("global") + '    call_extern("f", T, dtype=float32)\n'
    assert followed(handed_on) == {"A", "B"}
    assert followed(ALLOCATED.format("local") + "    A[1] = 0.0\n") == {"A", "B", "T"}


@pytest.mark.parametrize(("scope", "expected"), [("shared", set()), ("local", {"T"})])
def test_of_a_kernel_only_what_each_thread_has_for_itself(scope: str, expected: set[str]) -> None:
    assert followed("    launch(threadIdx.x, 4)\n" + ALLOCATED.format(scope)) == expected


@pytest.mark.parametrize(
    ("between", "kept"),
    [
        ("B[0] = 5.0", False),
        ("B[0] = A[0]", True),
        ("B[0] = A[1]", False),
        ('call_extern("f", dtype=float32)', True),  # may return, or print
        ("B[0] = exp(B[1])", False),
    ],
)
def test_what_lies_between_two_stores(between: str, kept: bool) -> None:
    before = f"{HEAD}    A[0] = 1.0\n    {between}\n    A[0] = 2.0"
    after = to_text(RemoveNoOp(dataflow=True)(parse_func(before)))
    assert ("A[0] = 1.0" in after) is kept
    assert "A[0] = 2.0" in after


def test_an_opaque_call_keeps_nothing_but_private_memory_known() -> None:
    body = (
        '    T = allocate((4,), float32, "global")\n    T[0] = 1.0\n    A[0] = 1.0\n'
        '    call_extern("f", dtype=float32)\n'
        "    if T[0] == 1.0:\n        B[0] = 3.0\n    if A[0] == 1.0:\n        B[1] = 3.0"
    )
    after = to_text(RemoveNoOp(dataflow=True)(parse_func(HEAD + body)))
    assert "T[0] ==" not in after and "if A[0] == 1.0" in after
