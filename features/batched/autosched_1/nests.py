"""The nests of many stores and what the code generator makes of them, each different one once.

A nest is known by its numbers: extents, strides and lanes of its loops. What follows from them is
worked out by the functions that the one-by-one path uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autosched.features.autosched_1.machine import Machine
from autosched.features.autosched_1.vector_code import VectorCode, vector_code
from autosched.features.batched.autosched_1.facts import Facts
from autosched.features.batched.autosched_1.surroundings import Surroundings
from autosched.features.batched.autosched_1.values import Chosen, ValueFacts
from autosched.features.batched.forms import Flags, Ints
from autosched.nest.distribution import Footprint, footprint, is_distributable
from autosched.nest.loop_nest import InnerLoop, is_injective
from autosched.nest.memory_walk import Walk, walk
from autosched.nest.plan import ScalarStore
from autosched.nest.visits import Visit

Floats = npt.NDArray[np.float64]
_Numbers = tuple[int, ...]


@dataclass(eq=False)
class Code:
    """By candidate: the depth where the nest begins, and the numbers of its `VectorCode`.

    `walked` is what the code's order moves (`Walk`): lines, runs, pages and cycles.
    """

    start: Ints
    lanes: Floats
    accumulators: Floats
    registers: Floats
    cycles: Floats
    folded: Floats
    gathers: Floats
    walked: Floats


def starts_of(facts: Facts, around: Surroundings, beside: Sequence[Facts], together: Flags) -> Ints:
    """The depth from which on the loops around the store are its nest (`nest_starts`).

    Where `together`, the stores `beside`, this one among them, are all that is in their sequence.
    """
    start = _after_others(facts, around.floor)
    plain = together & (around.outer < around.level) & ~facts.forms.bad
    for item in beside:
        plain = plain & ~(item.parallel & (item.depth[:-1] >= around.level)).any(axis=0)
    if plain.any():
        level = _distributed(beside, around, plain)
        moved = level < around.level
        start = np.where(moved, np.maximum(level, _after_others(facts, level)), start)
    return _evenly_stored(facts, start)


def _evenly_stored(facts: Facts, start: Ints) -> Ints:
    """The first depth from `start` on inside all loops that do not move the store evenly."""
    found = start
    for j in range(len(facts.present)):
        uneven = facts.present[j] & (facts.blocks[0][j] != 0) & (facts.depth[j] >= start)
        found = np.where(uneven, facts.depth[j + 1], found)
    return found


def _after_others(facts: Facts, start: Ints) -> Ints:
    found = start
    for j in range(len(facts.present)):
        found = np.where(facts.parallel[j], np.maximum(found, facts.depth[j + 1]), found)
    return found


def _distributed(beside: Sequence[Facts], around: Surroundings, where: Flags) -> Ints:
    """How far out the loops around the stores become loops of each, as a depth."""
    shared = around.level - around.outer
    tables = [shared[None]]
    for item in beside:
        there = item.present & (item.depth[:-1] >= around.outer)
        table = np.stack(
            [item.extent, item.strides[0], item.kind + _UNEVEN * (item.blocks[0] != 0)]
        )
        tables.append(np.where(there, table, 0).reshape(-1, len(shared)))
    which, unique = _unique(np.concatenate(tables).T[where])
    taken = []
    for row in unique.tolist():
        parts = []
        rest = row[1:]
        for n in (len(item.present) for item in beside):
            loops = zip(rest[:n], rest[n : 2 * n], rest[2 * n : 3 * n], strict=True)
            parts.append(tuple([loop for loop in loops if loop[0] > 1]))
            rest = rest[3 * n :]
        taken.append(_taken(row[0], tuple(parts)))
    level = around.level.copy()
    level[where] -= np.array(taken, np.int64)[which]
    return level


_Loops = tuple[tuple[int, int, int], ...]
_VECTOR, _PARALLEL, _UNEVEN = 2, 3, 16
"""The last is added to the kind of a loop that does not move the store evenly."""


@lru_cache(maxsize=50_000)
def _taken(shared: int, parts: tuple[_Loops, ...]) -> int:
    """How many of the innermost of the `shared` loops become a loop for each part."""
    level = shared
    while level > 0:
        extent, _, kind = parts[0][level - 1]
        if kind % _UNEVEN in (_VECTOR, _PARALLEL):
            break
        prints: list[Footprint | None] = []
        for loops in parts:
            inside = loops[level - 1 :]
            if any(
                kind >= _UNEVEN or (kind == _VECTOR and stride != 1) for _, stride, kind in inside
            ):
                prints.append(None)
            else:
                axes = [(stride, extent) for extent, stride, _ in inside[1:]]
                prints.append(footprint((), inside[0][1], axes))
        if not is_distributable(prints, extent):
            break
        level -= 1
    return shared - level


def _unique(rows: Ints) -> tuple[npt.NDArray[np.intp], Ints]:
    """For each row which of the different ones it is, and these."""
    rows = np.ascontiguousarray(rows)
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    return which, rows[first]


def code_of(
    facts: Facts, value: ValueFacts, chosen: Chosen | None, start: Ints, machine: Machine
) -> Code:
    """What becomes of the nest from depth `start` on or further inside, and its walk."""
    count, good = len(facts.present), ~facts.forms.bad
    reads = len(facts.accesses) - 1
    inside = facts.present & (facts.depth[:-1] >= start)
    strides = np.stack([facts.strides[0], *facts.steps[1:]])
    blocks = np.stack(facts.blocks)[1:]
    table = np.concatenate(
        [
            np.where(inside, facts.extent, 0)[None],
            facts.vector[None] & inside,
            strides * inside,
            blocks * inside,
        ]
    )
    conditional = np.zeros_like(inside)
    lanes = np.zeros_like(facts.extent)
    weight = np.full((1, facts.forms.count), value.weight)
    if chosen is not None:
        conditional = inside & chosen.conditional
        if len(facts.accesses) > 1:
            lanes = np.where(conditional & chosen.asked, facts.blocks[1], 0)
        weight = chosen.weight[None]
    table = np.concatenate([table, lanes[None], conditional[None]])
    flat = table.reshape(-1, facts.forms.count)
    rows = np.concatenate([flat, weight.view(np.int64)]).T[good]
    which, unique = _unique(rows)
    element = facts.element_bytes[0]
    known: list[tuple[int, VectorCode]] = []
    for row in unique.tolist():
        parts = [row[n * count : (n + 1) * count] for n in range(2 * reads + 5)]
        loops = tuple(
            [
                InnerLoop(
                    extent,
                    own,
                    tuple(read[:reads]),
                    bool(vector),
                    tuple(read[reads:]) if any(read[reads:]) else (),
                    masked,
                    bool(chooses),
                )
                for extent, vector, own, *read, masked, chooses in zip(*parts, strict=True)
                if extent
            ]
        )
        more = 0
        while not is_injective(loops):
            more, loops = more + 1, loops[1:]
        weighs = float(np.int64(row[-1]).view(np.float64))
        store = ScalarStore(loops, reads, element, weighs, value.updates, value.folds)
        known.append((more, vector_code(store, machine.core, reads + 1)))
    numbers = np.array(
        [
            (more, c.lanes, c.accumulators, c.registers, c.cycles, c.folded, c.gathers)
            for more, c in known
        ],
        np.float64,
    ).reshape(len(known), 7)
    found = np.ones((7, facts.forms.count))
    found[:, good] = numbers[which].T
    begin = start + np.where(good, found[0], 0).astype(np.int64)
    codes = [known[k][1] for k in which.tolist()]
    walked = np.zeros((9, facts.forms.count))
    walked[:, good] = _walks(facts, begin, good, codes, machine)
    lanes, accumulators, registers, cycles, folded, gathers = found[1:]
    return Code(begin, lanes, accumulators, registers, cycles, folded, gathers, walked)


def _walks(
    facts: Facts,
    start: Ints,
    good: Flags,
    codes: Sequence[VectorCode],
    machine: Machine,
) -> Floats:
    """(9, good candidates): lines, runs and pages of the walk, and its cycles."""
    outside = (facts.present & (facts.depth[:-1] < start))[:, good]
    extents = facts.extent[:, good].T.tolist()
    strides = np.stack(facts.strides, axis=-1)[:, good].transpose(1, 0, 2).tolist()
    iterations = facts.iterations[good].tolist()
    elements = tuple(facts.element_bytes)
    memory = machine.memory
    found = []
    for n, code in enumerate(codes):
        visits = [
            Visit(extents[n][j], tuple(strides[n][j])) for j in outside[:, n].nonzero()[0].tolist()
        ]
        visits += code.order
        walked = walk(tuple(visits), elements, memory)
        product = 1
        for visit in visits:
            product *= visit.extent
        part = iterations[n] / product
        if part != 1:
            walked = walked.times(part)
        found.append(_flat(walked))
    return np.array(found, np.float64).reshape(len(found), 9).T


def _flat(walked: Walk) -> tuple[float, ...]:
    return (*walked.lines, *walked.runs, *walked.pages, walked.cycles)
