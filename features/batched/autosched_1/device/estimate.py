"""Estimate what stores cost on a GPU (`autosched_1/estimate.py`), as arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autosched.features.autosched_1.estimate import WEIGHTS
from autosched.features.autosched_1.gpu import Axis, bank_conflicts, sectors
from autosched.features.autosched_1.machine import Machine
from autosched.features.batched.autosched_1.facts import Facts
from autosched.features.batched.autosched_1.nests import Code
from autosched.features.batched.autosched_1.piece import Piece
from autosched.features.batched.autosched_1.stores_of_row import Estimated, WarpAccess
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.stores import Floats
from autosched.features.walk.access import READ_WRITE
from autosched.state.iterator import Annotation
from autosched.tir.gpu import SECTOR

_THREADS = (Annotation.THREAD_X, Annotation.THREAD_Y, Annotation.THREAD_Z)


def estimated_on_device(
    facts: Facts, code: Code, counts: Ints, scopes: list[str], machine: Machine, piece: Piece
) -> Estimated:
    """The estimate of one store."""
    forms = facts.forms
    levels = [facts.fits(capacity) for capacity in machine.caches]
    fits = [facts.at(facts.inner, level) for level in levels]
    reduces = _reduces(facts)
    shared, moved, device = np.zeros(forms.count), np.zeros(forms.count), np.zeros(forms.count)
    outside = facts.outside(levels[2])
    times = facts.iterations // facts.at(facts.inner, outside)
    warps = []
    for k, scope in enumerate(scopes):
        own = WarpAccess(forms.zero, forms.zero)
        if scope != "local":
            vector = _vector_length(facts, k)
            each = _loads(facts, k, reduces) / (machine.warp * vector)
            if scope == "shared":
                conflicts = _of_warp(facts, k, vector, machine.warp, bank_conflicts)
                own = WarpAccess(forms.zero, conflicts)
                shared = shared + each * 128 * conflicts
            else:
                transactions = _of_warp(facts, k, vector, machine.warp, sectors)
                own = WarpAccess(transactions, forms.zero)
                moved = moved + each * SECTOR * transactions
                device = device + machine.line * (facts.at(facts.lines[k], outside) * times)
        warps.append(own)
    weight = np.zeros(forms.count)
    for one, count in zip(WEIGHTS, counts, strict=True):
        weight = weight + one * count
    compute = facts.iterations / machine.warp * np.maximum(1.0, weight) / 1.0
    memory = shared / 128 + moved / 64
    step, balance = np.asarray(facts.store.step), np.ones(forms.count)
    known = (facts, code, counts, step, scopes, [shared, moved, device], fits, balance)
    runs, walked = facts.iterations.astype(np.float64), np.zeros((9, forms.count))
    rest = compute, memory, runs, walked, piece.guards
    return Estimated(*known, *rest, launch=piece.launch, warps=warps)


def _reduces(facts: Facts) -> Flags:
    """Whether the store accumulates: some loop does not move the element that it updates."""
    if facts.accesses[0].kind != READ_WRITE:
        return np.zeros(facts.forms.count, bool)
    found: Flags = np.any(facts.present & (facts.extent > 1) & ~facts.uses[0], axis=0)
    return found


def _loads(facts: Facts, access: int, reduces: Flags) -> Floats:
    """The number of accesses over all threads.

    A loop inside the innermost reduction loop that does not move the access finds the element in a
    register.
    """
    count = facts.iterations.astype(np.float64)
    done = np.zeros(facts.forms.count, bool)
    for j in range(len(facts.present) - 1, -1, -1):
        present, extent = facts.present[j], facts.extent[j]
        if facts.thread[j]:
            done = done | present
        done = done | (present & (facts.strides[0][j] == 0) & (extent > 1) & reduces)
        again = present & ~done & (facts.strides[access][j] == 0)
        count = np.where(again, count / extent, count)
    return count


def _vector_length(facts: Facts, access: int) -> Ints:
    """The number of elements that a thread accesses at once: the extent of a vectorised loop whose
    lanes are neighbours, else 1."""
    found, done = facts.forms.one, np.zeros(facts.forms.count, bool)
    for j in range(len(facts.present) - 1, -1, -1):
        here = facts.vector[j] & (facts.extent[j] > 1) & ~done
        found = np.where(here & (facts.strides[access][j] == 1), facts.extent[j], found)
        done = done | here
    return found


def _of_warp(
    facts: Facts,
    access: int,
    vector: Ints,
    warp: int,
    count: Callable[[tuple[Axis, ...], int, int, int], int],
) -> Ints:
    """`count` for the threads of a warp; each distinct set of numbers is computed once."""
    columns: list[Ints] = [vector]
    for axis in _THREADS:
        there, extent, stride = facts.forms.zero, facts.forms.one, facts.forms.zero
        for j, thread in enumerate(facts.thread):
            if thread != axis:
                continue
            here = facts.present[j]
            there = np.where(here, 1, there)
            extent = np.where(here, facts.extent[j], extent)
            stride = np.where(here, facts.strides[access][j], stride)
        columns += [there, extent, stride]
    table = np.ascontiguousarray(np.stack(columns, axis=1))
    whole = table.view(np.dtype((np.void, table.dtype.itemsize * table.shape[1])))[:, 0]
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    element = facts.element_bytes[access]
    found = []
    for lanes, *axes in table[first].tolist():
        some = [(axes[k + 1], axes[k + 2]) for k in range(0, 9, 3) if axes[k]]
        found.append(count(tuple(some), element, lanes, warp))
    every: Ints = np.array(found, np.int64)[which]
    return every
