"""Which loops become loops of a reduction's start and of its steps: as `nest/distribution.py`
says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from autosched.features.batched.autosched_1.distributed import distributed
from autosched.features.batched.autosched_1.facts import Facts
from autosched.nest.distribution import Footprint, footprint, is_distributable
from autosched.state.iterator import Annotation

SEED, COUNT, MOST = 11, 3000, 6
KINDS = [Annotation.NONE, Annotation.UNROLL, Annotation.VECTORIZE, Annotation.PARALLEL]
Loop = tuple[int, int, int, bool]
"""Extent, stride, kind, and whether it moves the store evenly."""


def draw(rng: np.random.Generator, shared: int) -> tuple[list[Loop], list[Loop]]:
    """Loops of both parts, the first `shared` alike. Most write the same, a row after the other."""
    stride, own = 1, []
    for _ in range(int(rng.integers(shared, MOST + 1))):
        extent = int(rng.choice([2, 3, 4, 16]))
        kind = int(rng.choice(KINDS, p=[0.8, 0.1, 0.07, 0.03]))
        own.append((extent, stride * int(rng.choice([1, 2], p=[0.9, 0.1])), kind, True))
        stride *= extent
    own = [own[k] for k in rng.permutation(len(own))] if rng.random() < 0.3 else own[::-1]
    steps = list(own)
    for _ in range(int(rng.integers(0, 3))):
        at = int(rng.integers(shared, len(steps) + 1))
        steps.insert(at, (int(rng.choice([2, 5])), 0, 0, True))
    k = int(rng.integers(shared, len(steps))) if len(steps) > shared else -1
    if k >= 0 and steps[k][0] in (4, 16) and rng.random() < 0.5:  # the same in two loops
        extent, by, kind, even = steps[k]
        steps[k : k + 1] = [(extent // 2, by * 2, Annotation.NONE, even), (2, by, kind, even)]
    if rng.random() < 0.3 and len(steps) > shared:
        k = int(rng.integers(shared, len(steps)))
        extent, by, kind, _ = steps[k]
        steps[k] = (extent, by * int(rng.choice([-1, 1, 3])), kind, bool(rng.random() < 0.5))
    return own, steps


def taken(shared: int, parts: tuple[list[Loop], ...]) -> int:
    """How many of the innermost of the `shared` loops become a loop for each part."""
    for level in range(shared, 0, -1):
        extent, _, kind, _ = parts[0][level - 1]
        prints: list[Footprint | None] = []
        for loops in parts:
            inside = loops[level - 1 :]
            torn = [
                not even or (k == Annotation.VECTORIZE and by != 1) for _, by, k, even in inside
            ]
            axes = [(by, times) for times, by, _, _ in inside[1:]]
            prints.append(None if any(torn) else footprint((), inside[0][1], axes))
        if kind >= Annotation.VECTORIZE or not is_distributable(prints, extent):
            return shared - level
    return shared


def facts_of(every: list[list[Loop]], outer: list[int], rng: np.random.Generator) -> Facts:
    """Facts with as many loops around as `outer` says, in random lines of the tables."""
    lines = 2 * MOST + 6
    present = np.zeros((lines, len(every)), bool)
    extent, stride, kind, block = np.zeros((4, lines, len(every)), np.int64)
    for n, loops in enumerate(every):
        whole: list[Loop] = [(7, 0, 0, True)] * outer[n] + loops
        at = np.sort(rng.permutation(lines)[: len(whole)])
        present[at, n] = True
        for table, column in zip((extent, stride, kind), range(3), strict=True):
            table[at, n] = [int(loop[column]) for loop in whole]
        block[at, n] = [int(not loop[3]) for loop in whole]
    depth = np.zeros((lines + 1, len(every)), np.int64)
    depth[1:] = present.cumsum(axis=0)
    known: Any = SimpleNamespace(
        present=present,
        extent=np.where(present, extent, 1),
        strides=[stride],
        kind=kind,
        blocks=[block],
        depth=depth,
    )
    return cast(Facts, known)


def test_loops_are_taken_as_one_by_one() -> None:
    rng = np.random.default_rng(SEED)
    shared = [int(rng.integers(0, 5)) for _ in range(COUNT)]
    outer = [int(rng.integers(0, 3)) for _ in range(COUNT)]
    drawn = [draw(rng, each) for each in shared]
    parts = [facts_of([pair[k] for pair in drawn], outer, rng) for k in range(2)]
    asked = rng.random(COUNT) < 0.9
    around = np.array(outer, np.int64)
    level = np.array([a + b for a, b in zip(outer, shared, strict=True)], np.int64)
    found = level - distributed(parts, around, level, asked)
    triples = zip(shared, drawn, asked, strict=True)
    expected = [taken(own, pair) if asks else 0 for own, pair, asks in triples]
    wrong = np.flatnonzero(found != expected).tolist()
    assert not wrong, (SEED, shared[wrong[0]], drawn[wrong[0]], found[wrong[0]])
    assert sorted(set(expected)) == [0, 1, 2, 3, 4]


def test_no_candidates_that_ask() -> None:
    rng = np.random.default_rng(SEED)
    parts = [facts_of([[(4, 1, 0, True)]], [0], rng)] * 2
    level, none = np.ones(1, np.int64), np.zeros(1, np.int64)
    assert distributed(parts, none, level, np.zeros(1, bool)).tolist() == [1]
