"""benchmarks/winners.py: when winners of repeated runs agree."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

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


def test_the_five_best_of_a_run(winners: ModuleType) -> None:
    """The winner, then those of its race, by their times there, those of a heat, the others."""

    def record(steps: int, cost: float, valid: bool = True) -> SimpleNamespace:
        return SimpleNamespace(steps=steps, result=SimpleNamespace(valid=valid, cost=cost))

    records = [record(0, 3.0), record(1, 5.0), record(2, 4.0), record(3, 1.0), record(4, 6.0)]
    records += [record(5, 7.0), record(6, 0.5, valid=False)]
    rivals = [
        SimpleNamespace(record=records[k], raced=records[k].result, heat=k == 3) for k in (3, 1, 2)
    ]
    found = SimpleNamespace(best=records[0], records=records, race=SimpleNamespace(rivals=rivals))
    assert winners.five_best(found) == [0, 2, 1, 3, 4]
