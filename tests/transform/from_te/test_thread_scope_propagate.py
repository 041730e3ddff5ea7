import pytest

from autosched import te
from autosched.tir.expr import IterVar
from autosched.transform.from_te.thread_scope_propagate import infer_scope

BLOCK = te.thread_axis((0, 4), "blockIdx.y")
THREAD = te.thread_axis((0, 4), "threadIdx.x")


@pytest.mark.parametrize(
    ("scope", "threads", "expected"),
    [
        ("", [], "global"),
        ("", [BLOCK], "shared"),
        ("", [BLOCK, THREAD], "local"),
        ("", [THREAD, BLOCK], "shared"),
        ("wmma.accumulator", [BLOCK, THREAD], "wmma.accumulator"),
        ("global", [BLOCK], "global"),
    ],
)
def test_scope(scope: str, threads: list[IterVar], expected: str) -> None:
    assert infer_scope(scope, threads) == expected
