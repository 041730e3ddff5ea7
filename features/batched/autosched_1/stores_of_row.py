"""Stores with their estimates, and the sums over all stores of one buffer, which make a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.features.autosched_1.estimate import ALL_OPS, CYCLES_PER_BYTE
from autosched.features.autosched_1.machine import Machine
from autosched.features.batched.autosched_1.facts import Facts
from autosched.features.batched.autosched_1.nests import Code, Floats
from autosched.features.batched.autosched_1.piece import Launch, Piece
from autosched.features.batched.autosched_1.plans.walks import cycles_of
from autosched.features.batched.forms import Ints

Column = Any
"""Numbers by candidate, or one number for all."""


@dataclass(frozen=True, eq=False)
class WarpAccess:
    """The transactions with which a warp accesses global memory (`sectors`), and the most words of
    one bank that it accesses at a time in shared memory (`conflicts`)."""

    sectors: Ints
    conflicts: Ints


@dataclass(eq=False)
class Estimated:
    """A store with its operations and its `autosched_1.estimate.Estimate`.

    `traffic` and `fits` have an entry for each cache. `guards` and `launch` come from its `Piece`.
    `runs` is the number of iterations that run, `walked` their memory traffic (`Code`).
    """

    facts: Facts
    code: Code
    counts: Ints
    step: Ints
    scopes: list[str]
    traffic: list[Floats]
    fits: list[Ints]
    balance: Floats
    compute: Floats
    memory: Floats
    runs: Floats
    walked: Floats
    guards: Sequence[Ints] = ()
    launch: Launch | None = None
    warps: Sequence[WarpAccess] = ()

    def operations(self, kinds: range) -> Ints:
        """The operations of one iteration, a multiply-add counting as two."""
        found: Ints = self.counts[kinds.start : kinds.stop].sum(axis=0)
        return found + self.counts[0] if 0 in kinds else found


def estimated(
    facts: Facts, code: Code, counts: Ints, scopes: list[str], machine: Machine, piece: Piece
) -> Estimated:
    """The estimate of one store."""
    levels = [facts.fits(capacity) for capacity in machine.caches]
    lines = sum(facts.lines)
    assert isinstance(lines, np.ndarray)
    moved = []
    for level in levels:
        outside = facts.outside(level)
        times = facts.iterations // facts.at(facts.inner, outside)
        lines_moved = (machine.line * (facts.at(lines, outside) * times)).astype(np.float64)
        moved.append(lines_moved if piece.share is None else lines_moved * piece.share)
    chunks = np.where(facts.apart, facts.extent, 1).prod(axis=0)
    balance = chunks / (-(-chunks // machine.threads) * machine.threads)
    busy = 1.0 / (machine.threads * balance)
    runs, walked = facts.iterations.astype(np.float64), code.walked
    if piece.share is not None:
        runs, walked = runs * piece.share, walked.copy()
        walked[:8] = np.where(piece.share == 1, walked[:8], walked[:8] * piece.share)
        walked[8] = np.where(piece.share == 1, walked[8], cycles_of(walked[:8]))
    compute = runs / code.lanes * code.cycles * busy
    memory = in_order([b * c for b, c in zip(moved, CYCLES_PER_BYTE, strict=True)]) * busy
    fits = [facts.at(facts.inner, level) for level in levels]
    step = np.asarray(facts.store.step)
    known = (facts, code, counts, step, scopes, moved, fits, balance, compute, memory)
    return Estimated(*known, runs, walked, piece.guards)


def in_order(values: Sequence[Any]) -> Any:
    """The sum of the values from the first to the last."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


@dataclass(eq=False)
class Row:
    """All stores of a buffer, in program order; `most` numbers the store that the row describes."""

    stores: list[Estimated]
    most: Ints
    counts: Floats
    ops: Floats
    traffic: list[Floats]
    compute: Floats
    memory: Floats
    cycles: Floats
    walked: Floats
    walk: Floats
    bound: Floats
    iterations: Ints
    unique_bytes: Ints
    allocation: list[Column] | None


def first_place(stores: Sequence[Estimated]) -> Ints:
    """The position in the program of the first of these stores."""
    found: Ints = np.stack([s.facts.store.place for s in stores]).min(axis=0)
    return found


def row_of(stores: list[Estimated], allocation: list[Column] | None, machine: Machine) -> Row:
    """The row of the buffer that these stores write."""
    total = in_order
    runs = np.stack([s.runs for s in stores])
    most: Ints = len(runs) - 1 - np.argmax(runs[::-1], axis=0)
    counts = total([s.counts * s.runs for s in stores])
    ops = total([s.operations(ALL_OPS) * s.runs for s in stores])
    compute = total([s.compute for s in stores])
    memory = total([s.memory for s in stores])
    walk = total([s.walked[8] / (machine.threads * s.balance) for s in stores])
    unique = [machine.line * in_order([lines[0] for lines in s.facts.lines]) for s in stores]
    return Row(
        stores,
        most,
        counts,
        ops,
        [total([s.traffic[c] for s in stores]) for c in range(3)],
        compute,
        memory,
        np.maximum(compute, memory),
        total([s.walked[:8] for s in stores]),
        walk,
        np.maximum(compute, walk),
        _chosen(most, [s.facts.iterations for s in stores]),
        _chosen(most, unique),
        allocation,
    )


def _chosen(most: Ints, values: Sequence[Any]) -> Any:
    found = values[0]
    for k, value in enumerate(values[1:], 1):
        found = np.where(most == k, value, found)
    return found
