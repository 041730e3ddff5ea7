"""benchmarks/winners.py: when winners of repeated runs agree."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from autosched.state.steps import steps_from_json

ROOT = Path(__file__).resolve().parent.parent
STEPS = [steps_from_json([["SP", 2, 0, 16, [k], 1]]) for k in (1, 2, 4)]


@pytest.fixture
def winners(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("winners")
    del sys.modules["winners"]


@pytest.mark.parametrize(
    ("runs", "seconds", "good"),
    [  # of each run its winner, and what ties with it
        ([(0,), (0,)], [1.0, 1.0], True),
        ([(0,), (1,)], [1.0, 1.04], True),
        ([(0,), (1,)], [1.0, 1.06], False),
        ([(0,), (1,)], [1.06, 1.0], False),
        ([(0, 1), (1,)], [1.0, 1.06], True),
        ([(0,), (1, 0)], [1.0, 1.06], True),
        ([(0, 2), (1, 2), (2,)], [1.0, 1.06, 1.06], False),
    ],
)
def test_winners_agree(
    winners: ModuleType, runs: list[tuple[int, ...]], seconds: list[float], good: bool
) -> None:
    found = [winners.Winner(STEPS[k], 1.0, tuple(STEPS[t] for t in ties)) for k, *ties in runs]
    assert winners.agree(found, seconds) == good
