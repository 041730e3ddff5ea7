"""SerializeLoops: parallel loops on one thread."""

from __future__ import annotations

from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.loops.serialize_loops import SerializeLoops
from kit.types import SameResult

TEXT = """\
def main(A: Buffer((8, 8, 8), int32)):
    for i in parallel(8):
        for j in parallel(8):
            for k in unrolled(8):
                A[i, j, k] = i * j + k
"""


def test_every_parallel_loop_and_no_other(same_result: SameResult) -> None:
    before = parse_func(TEXT)
    after = SerializeLoops()(before)
    assert to_text(after) == TEXT.replace("parallel", "range").rstrip("\n")
    assert SerializeLoops()(after) is after
    same_result(before, after)
