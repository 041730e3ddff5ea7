"""What only copies vectors, and how far UnrollLoop copies it."""

from __future__ import annotations

import pytest

from autosched.tir.parser import parse_func
from autosched.tir.stmt import BufferStore, For, Stmt
from autosched.tir.walk import stmts
from autosched.transform.loops.unroll_loop import UnrollLoop
from autosched.transform.loops.vector_copies import only_copies_vectors
from autosched.transform.pipeline import cpu_pipeline
from kit.types import SameResult

FUNC = """\
def main(A: Buffer((512,), float32), B: Buffer((512,), float32)):
    for i in range(64):
        pragma(i, "auto_unroll_max_step", 64)
        for j in range(32):
            {}
"""


def loop_of(body: str, extent: int = 32) -> For:
    text = FUNC.format(body).replace("j in range(32)", f"j in range({extent})")
    found = [s for s in stmts(parse_func(text).body) if isinstance(s, For)]
    return found[-1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("B[j * 8:j * 8 + 8] = A[j * 16:j * 16 + 8]", True),
        ("B[j * 8:j * 8 + 8] = A[j + i // 8 * 8:j + i // 8 * 8 + 8]", True),
        ("B[j * 8:j * 8 + 8] = broadcast(0.0, 8)", True),
        ("B[j * 8:j * 8 + 8] = broadcast(A[j], 8)", True),
        ("B[j * 8:j * 8 + 8] = A[j * 8:j * 8 + 8] + broadcast(1.0, 8)", False),
        ("B[j * 8:j * 8 + 8] = A[j // 2 * 8:j // 2 * 8 + 8]", False),
        ("B[j % 2 * 8:j % 2 * 8 + 8] = A[j * 8:j * 8 + 8]", False),
        ("B[j % 2 * 8:j % 2 * 8 + 8] = broadcast(0.0, 8)", False),
        ("B[j] = A[j]", False),
        ("B[j] = 0.0", False),
    ],
)
def test_only_copies_vectors(body: str, expected: bool) -> None:
    loop = loop_of(body)
    assert only_copies_vectors(loop.body, loop.loop_var) is expected


def test_storage_that_may_become_registers_is_not_copied_in_a_loop() -> None:
    text = """\
def main(A: Buffer((512,), float32), B: Buffer((512,), float32)):
    acc = allocate((256,), float32, "local")
    for j in range(32):
        {}
"""
    for body in (
        "acc[j * 8:j * 8 + 8] = A[j * 8:j * 8 + 8]",
        "B[j * 8:j * 8 + 8] = acc[j * 8:j * 8 + 8]",
    ):
        loop = next(s for s in stmts(parse_func(text.format(body)).body) if isinstance(s, For))
        assert not only_copies_vectors(loop.body, loop.loop_var)


def stores(s: Stmt) -> int:
    return sum(isinstance(found, BufferStore) for found in stmts(s))


def test_copies_of_vectors_are_unrolled_to_a_limit_of_their_own(same_result: SameResult) -> None:
    copied = parse_func(FUNC.format("B[j * 8:j * 8 + 8] = A[j * 8:j * 8 + 8]"))
    computed = parse_func(
        FUNC.format("B[j * 8:j * 8 + 8] = A[j * 8:j * 8 + 8] + broadcast(1.0, 8)")
    )
    assert stores(UnrollLoop()(copied).body) == 32
    assert stores(UnrollLoop(copy_steps=32)(copied).body) == 32
    kept = UnrollLoop(copy_steps=31)(copied)
    assert stores(kept.body) == 1
    same_result(copied, kept)
    assert stores(UnrollLoop(copy_steps=31)(computed).body) == 32


def test_copies_through_wide_registers_are_unrolled_further() -> None:
    limits = {
        width: [p.copy_steps for p in cpu_pipeline(width) if isinstance(p, UnrollLoop)]
        for width in (16, 32, 64)
    }
    assert limits == {16: [32], 32: [32], 64: [64]}
