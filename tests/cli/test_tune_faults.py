"""`autosched tune` on the CPU with candidates that hang, die and spoil their processes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from kit.faults import FAULTS, GOOD, HARMLESS, tuned

# One of each class; benchmarks/faults.py has all of FAULTS, and many of each.
FEW = (
    *("segfault later", "illegal instruction", "hang", "fork later", "fork, both go on"),
    *("wrong numbers", "exception", "hang in the check", "cut artifact", "hang in the builder"),
)


def test_each_fault_costs_one_record(tmp_path: Path) -> None:
    """And nothing else: every candidate is recorded, once, and no process or file is left."""
    order = [*FEW, *HARMLESS, *[GOOD] * (21 - len(FEW))]
    random.Random(0).shuffle(order)
    outcome = tuned(tmp_path.resolve(), order, short=0.2)
    assert outcome.problems == []
    assert Counter(name for name, _, _ in outcome.failures) == Counter(order)
    assert set(FEW) <= FAULTS.keys()
