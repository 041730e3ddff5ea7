"""benchmarks/suite.py: what it runs, the limits of operators, turns, and the table."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from autosched import workloads
from autosched.target import cpu_target

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("suite")
    for name in ("suite", "suite_operators", "suite_chains"):
        del sys.modules[name]


def test_every_built_in_operator_of_floats_is_there_at_two_sizes(suite: ModuleType) -> None:
    operators = [*suite.SUITE, *suite.MORE, *suite.OTHERS]
    assert (len(suite.SUITE), len(suite.OTHERS)) == (20, 38)
    assert len({operator.file for operator in operators}) == len(operators)
    for name in (name for name, known in workloads.WORKLOADS.items() if known.types.floats):
        assert sum(operator.workload == name for operator in operators) >= 2, name
    for operator in operators:
        assert operator.needed_flops(operator.task(cpu_target(1))) > 0


def test_chains_are_expressions_that_can_be_tuned(suite: ModuleType) -> None:
    others = [*suite.SUITE, *suite.MORE, *suite.OTHERS]
    assert len({operator.file for operator in [*others, *suite.CHAINS]}) == len(others) + 18
    for operator in suite.CHAINS:
        task = operator.task(cpu_target(1))
        assert sum(suite.moved_bytes(task)) > 0 and task.num_outputs == 1
    (operator,) = suite.chosen(["whole attention 12x"], False, chains=True)
    assert operator.needed_flops(operator.task(cpu_target(1))) == 4 * 12 * 128 * 128 * 64


@pytest.mark.parametrize(
    ("name", "flops", "moved"),
    [
        ("matmul 1024", 2 * 1024**3, (8 * 2**20, 4 * 2**20)),
        # each element of the input with each of the window, but none of the zeros
        (
            "transposed 8x8x256",
            2 * 8 * 8 * 16 * 256 * 128,
            (4 * (8 * 8 * 256 + 16 * 256 * 128), 4 * 16 * 16 * 128),
        ),
        # comparisons take the place of multiply-adds, and an exponential that of eleven
        ("max_pool 30x57", 2 * 4 * 30 * 57 * 57, (4 * 30 * 57 * 57, 4 * 30 * 57 * 57)),
        ("softmax 300", 2 * 15 * 300 * 1001, (4 * 300 * 1001, 4 * 300 * 1001)),
    ],
)
def test_needs(suite: ModuleType, name: str, flops: float, moved: tuple[int, int]) -> None:
    (operator,) = suite.chosen([name], False)
    task = operator.task(cpu_target(1))
    assert (operator.needed_flops(task), suite.moved_bytes(task)) == (flops, moved)


def test_comparisons_of_windows_that_share_no_rows(suite: ModuleType) -> None:
    (operator,) = suite.chosen(["max_pool 64x56"], False, others=True)
    # two rows of one comparison each, and one of both
    assert operator.needed_flops(operator.task(cpu_target(1))) == 2 * 3 * 64 * 28 * 28


def test_no_operator_is_an_error(suite: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no operator contains fft; there are 'matmul 1024',"):
        suite.chosen(["fft"], False)


def test_far_slower_peers_leave_after_three_rounds(
    suite: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {suite.OURS: 10.0, "NumPy": 5.0, "PyTorch": 1.0}
    monkeypatch.setattr(suite, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(
        suite, "_visit", lambda call, least, calls: [seconds[call()] * k for k in (2, 1, 0.5)]
    )
    calls = {name: (lambda name=name: name) for name in seconds}
    peaks = iter([3.0, 1.0, 2.0, 9.0, 2.0])
    turns = suite.in_turns(calls, 5, lambda: next(peaks))
    assert turns.peaks == [3.0, 1.0, 2.0, 9.0, 2.0]
    assert turns.shortest == {suite.OURS: 5.0, "NumPy": 2.5, "PyTorch": 0.5}
    assert turns.times == {suite.OURS: [10.0] * 5, "NumPy": [5.0] * 3, "PyTorch": [1.0] * 5}


def test_quotients_are_of_one_turn(suite: ModuleType) -> None:
    """Three turns at half the speed change both sides, and one is left out by a peer that left."""
    ours = [1.0, 2.0, 2.0, 1.1, 2.0]
    theirs = [2.0, 4.0, 4.0, 2.2]
    assert suite.quotient(theirs, ours) == 2.0
    assert suite.quotient([1.0] * 3, [2.0, 4.0, 1.0]) == 0.5


def test_table_of_the_last_lines(suite: ModuleType, tmp_path: Path) -> None:
    row = {
        "operator": "softmax 1024x1024",
        "machine": "cpu (znver5, 2 threads)",
        "cpu": "A CPU",
        "seconds": 9e-4,
        "peers": {"NumPy": 4e-3, "PyTorch": 1.8e-3},
        "peer": "PyTorch",
        "ratio": 2.0,
        "bound": "bytes",
        "share": 0.8,
        "best": 0.9,
    }
    first = {
        **row,
        "operator": "matmul 1024",
        "seconds": 5e-5,
        "ratio": 8.0,
        "share": 0.2,
        "best": 0.4,
    }
    rows = [row | {"share": 0.1}, row, first]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in rows))
    assert suite.table(suite.read_rows(file)).splitlines()[2:] == [
        "| matmul 1024 | 50.0 | 1800 PyTorch | 8.00 | 10.0 | bytes | 0.20 | 0.40 |",
        "| softmax 1024x1024 | 900 | 1800 PyTorch | 2.00 | 720 | bytes | 0.80 | 0.90 |",
        "| geometric mean of 2 | | | 4.00 | | | 0.40 | 0.60 |",
        "",
        "A CPU; cpu (znver5, 2 threads)",
    ]
