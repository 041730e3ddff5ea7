"""Programs of values of all types, at random schedules: `benchmarks/random_kernels.py` in short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from autosched.process.worker import Worker
from kit.random_programs import Outcome

SEED, COUNT, LIMIT = 7, 24, 120.0


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A process that may die."""
    found = Worker("kit.random_programs:make_handler")
    yield found
    found.stop()


@pytest.mark.parametrize("gpu", [False, True], ids=["cpu", "gpu"])
def test_programs_are_right_in_every_schedule(worker: Worker, gpu: bool) -> None:
    counts: Counter[str] = Counter()
    for number in range(COUNT):
        outcome = worker.call((SEED, number, gpu), LIMIT, "run")
        assert isinstance(outcome, Outcome)
        assert outcome.what != "wrong", f"program {number} of seed {SEED}: {outcome.why}"
        counts[outcome.what] += 1
    assert counts["right"] > 0.9 * COUNT
