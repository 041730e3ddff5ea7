"""What is left of sums of what is known to be zero but for a remainder."""

from __future__ import annotations

import pytest

from autosched.features.autosched_1.inner_nest import nest_starts
from autosched.features.autosched_1.machine import machine_of
from autosched.features.autosched_1.sparse_sums import (
    Patterns,
    SparseSum,
    sparse_facts,
    sparse_sum,
)
from autosched.features.autosched_1.store import StoreFacts
from autosched.features.walk.scope import BufferInfo
from autosched.features.walk.visitor import Nest
from autosched.target import cpu_target
from autosched.tir.expr import Add, Var
from autosched.tir.parser import parse_func
from autosched.tir.stmt import BufferStore
from autosched.transform.loops.known_zeros import known_patterns

DILATED = """
def main(X: Buffer((10, 8), float32), K: Buffer((4,), float32), Y: Buffer((16, 8), float32)):
    realize(P[0:20, 0:8], float32, "global")
    for p in range(20):
        for q in range(8):
            P[p, q] = if_then_else(p % 2 == 0, X[p // 2, q], 0.0)
    for a in {kind}(4):
        for b in range(4):
            for c in {lanes}(8):
                Y[a * 4 + b, c] = 0.0
                for r in range({steps}):
                    Y[a * 4 + b, c] = Y[a * 4 + b, c] + P[{row}, {column}] * K[r]
"""


class Sums:
    """Notes what is left of each sum."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self.found: list[SparseSum | None] = []
        self.facts: list[StoreFacts] = []

    def store(self, stmt: BufferStore, nest: Nest) -> None:
        if isinstance(stmt.value, Add):
            sparse = sparse_sum(stmt, nest.loops, self._patterns)
            self.found.append(sparse)
            if sparse is not None:
                machine = machine_of(cpu_target(threads=2))
                self.facts.append(sparse_facts(stmt, sparse, nest, machine))

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        """Nothing is asked of storage."""


def sums(
    row: str = "a * 4 + b + r",
    column: str = "c",
    kind: str = "range",
    lanes: str = "range",
    steps: int = 4,
) -> Sums:
    text = DILATED.format(row=row, column=column, kind=kind, lanes=lanes, steps=steps)
    func = parse_func(text)
    found = Sums(known_patterns(func))
    Nest(func, found)
    return found


def test_a_sum_is_one_of_its_nests_as_often_as_there_are_steps() -> None:
    (found,) = sums().found
    assert found is not None
    assert [(loop.var.name, loop.extent) for loop in found.loops] == [
        *(("a", 4), ("b", 2), ("c", 8), ("r", 2))
    ]
    assert found.times == 2.0  # 512 iterations, half of which count, and 128 here
    assert str(found.store) == (
        "Y[a * 4 + b * 2, c] = Y[a * 4 + b * 2, c] + P[a * 4 + b * 2 + r * 2, c] * K[r * 2]"
    )


@pytest.mark.parametrize(
    ("row", "steps", "left", "times"),
    [
        ("a * 4 + b + r", 3, {"a": 4, "b": 2, "c": 8, "r": 2}, 1.5),
        ("a * 4 + b * 2 + r", 4, {"a": 4, "b": 4, "c": 8, "r": 2}, 1.0),
        ("a * 4 + b + r", 2, {"a": 4, "b": 2, "c": 8}, 2.0),
        ("a * 5 + b + r", 4, {"a": 2, "b": 2, "c": 8, "r": 2}, 4.0),
    ],
)
def test_loops_that_change_the_remainder_have_fewer_iterations(
    row: str, steps: int, left: dict[str, int], times: float
) -> None:
    (found,) = sums(row, steps=steps).found
    assert found is not None
    assert {loop.var.name: loop.extent for loop in found.loops} == left
    assert found.times == times


def test_parallel_loops_are_not_taken_apart() -> None:
    (found,) = sums("a * 5 + b + r", kind="parallel").found
    assert found is not None
    assert found.loops[0].extent == 4
    assert found.times == 2.0


@pytest.mark.parametrize("lanes", ["range", "vectorized"])
def test_nor_are_lanes_and_the_last_dimension(lanes: str) -> None:
    assert sums("a * 4 + b + r + c", lanes=lanes).found == [None]


def test_sums_of_other_buffers_leave_nothing_out() -> None:
    func = parse_func(DILATED.format(row="r", column="c", kind="range", lanes="range", steps=4))
    found = Sums({})
    Nest(func, found)
    assert found.found == [None]


def test_what_is_noted_knows_the_sum_in_all_iterations() -> None:
    (facts,) = sums(steps=2).facts
    assert facts.whole is not None
    assert facts.whole.iterations == 256
    assert facts.iterations == 64
    assert facts.share == 2.0
    assert facts.counts == facts.whole.counts
    assert [loop.var.name for loop in facts.whole.loops] == ["a", "b", "c", "r"]
    assert list(facts.outside) == [0, 1, 2, 3, 3]  # the last loop is left out
    touched = [entries for loop in facts.loops for entries in loop.table.values()]
    assert {len(entries) for entries in touched} == {1}  # and not by all iterations, too


def test_the_nest_is_that_beside_others_without_what_is_left_out() -> None:
    """All of its loops that enclose nothing else are its nest, which begins at one fewer of those
    that are left."""
    inside = """
            for s in range(2):
                Z[a, s] = 1.0
                for r in range(2):
                    Y[a, c] = Y[a, c] + P[a + s + r, c] * K[r]
"""
    head = DILATED.split("    for a in")[0].replace(
        "K: Buffer", "Z: Buffer((4, 2), float32), K: Buffer"
    )
    func = parse_func(head + "    for a in range(4):\n        for c in range(8):" + inside)
    found = Sums(known_patterns(func))
    Nest(func, found)
    (facts,) = found.facts
    assert facts.whole is not None
    assert nest_starts([facts.whole]) == {id(facts.whole): 3}
    assert [loop.var.name for loop in facts.loops] == ["a", "c"]
    assert nest_starts([facts]) == {id(facts): 2}
