"""The stores of padded copies by rule are those that the passes make."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from autosched.features.batched.autosched_1.border_leaves import copies_by_rule
from autosched.features.batched.autosched_1.border_trees import Axis, Border, Digit

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def borders(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("borders")
    del sys.modules["borders"]


def test_random_copies(borders: ModuleType) -> None:
    """benchmarks/borders.py compares thousands."""
    found: Counter[str] = Counter()
    for seed in range(8):
        found += borders.compare(seed, Counter())
    assert not found["differ"]
    assert found["same"] > 100


def test_a_branch_without_a_quotient() -> None:
    """1 <= tile // 2 * 4 + row: where tile // 2 is 0, tile % 2 is tile."""
    row = Axis((Digit(1, 1, 0, 1), Digit(2, 2, 0, 4)), 0, 1, None)
    column = Axis((Digit(2, 1, 2, 7),), 0, None, None)
    border = Border((2, 5, 14), (0, 0), (row, column), ((0, -1), (1, 0)), True, True)
    found = copies_by_rule(border)
    assert found is not None
    inside, outside = found
    assert (inside.share, outside.share) == (6 / 7, 1 / 7)
    assert [place for _, place in inside.loaded] == [
        (("1", 1, 1 << 40, 1), ("2", 2, 1 << 40, 4)),
        (("2", 1, 2, 7),),
    ]
    assert [place for _, place in outside.loaded] == [
        (("1", 1, 1 << 40, 1),),
        (("2", 1, 1 << 40, 7),),
    ]
    assert (inside.guarded, outside.guarded) == (False, True)
    assert copies_by_rule(border._replace(placed=False)) is None


def test_a_cut_loop_that_is_not_simplified_counts_what_is_added() -> None:
    axis = Axis((Digit(0, 1, 0, 1),), 0, 1, 57)
    found = copies_by_rule(Border((58,), (0,), (axis,), ((0, -1),), True, False))
    assert found is not None
    assert [copied.counts[8] for copied in found] == [0, 2, 0]
    assert [copied.extents for copied in found] == [(0,), (56,), (0,)]
