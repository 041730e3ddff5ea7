"""Estimate what a store costs on a machine: predicted vector code, data moved, cycles.

The model is a plain one of one core or of the GPU's warps; cost models learn where it is wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import mul

from autosched.features.ansor.names import OP_COUNTERS
from autosched.features.autosched_1.gpu import bank_conflicts, sectors
from autosched.features.autosched_1.inner_nest import inner_nest
from autosched.features.autosched_1.machine import Machine
from autosched.features.autosched_1.store import StoreFacts
from autosched.features.autosched_1.tensor_cores import by_warp, scope_of, speed
from autosched.features.autosched_1.vector_code import VectorCode, vector_code
from autosched.features.walk.scope import Loop
from autosched.nest.memory_walk import NOWHERE, Walk, walk
from autosched.nest.total import total
from autosched.nest.visits import Visit
from autosched.tir.gpu import SECTOR
from autosched.tir.stmt import ForKind

# Cycles for each byte into L1 (from L2), L2 (from L3) and L3 (from memory) while one core streams:
# rounded from the tables of the Intel 64 and IA-32 Optimization Reference Manual, "Cache
# Hierarchy"; only the order of magnitude matters.
CYCLES_PER_BYTE = (1 / 32, 1 / 10, 1 / 4)

# Vector instructions for an operation; any other operation costs 1. Plain index arithmetic is free.
_COSTS = {
    "float_divmod": 8.0,
    "float_mathfunc": 20.0,
    "float_otherfunc": 20.0,
    "int_addsub": 0.0,
    "int_mul": 0.0,
    "int_divmod": 2.0,
    "int_mathfunc": 1.0,
}
WEIGHTS = [_COSTS.get(name, 1.0) for name in OP_COUNTERS]

FLOAT_OPS = range(7)
ALL_OPS = range(len(OP_COUNTERS))
_THREAD_X = 4  # threadIdx.x, .y and .z follow each other in names.LAUNCH


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated cost of one store.

    `start` is the level of the outermost loop of the nest that the code generator vectorises,
    `code` the predicted code of that nest. `traffic` is bytes into L1, L2 and L3, `fits` the
    iterations whose data fit into each of them. `compute` and `memory` are cycles of the busiest
    thread. `balance` is the share of threads that are busy. `walk` is the memory traffic in the
    generated code's own loop order (CPU only).
    """

    start: int
    code: VectorCode
    traffic: tuple[float, float, float]
    fits: tuple[int, int, int]
    compute: float
    memory: float
    balance: float
    walk: Walk = NOWHERE


def estimate(store: StoreFacts, start: int, machine: Machine) -> Estimate:
    """Estimate one store; its nest in the code begins at level `start` or further inside."""
    start, nest = inner_nest(store, start)
    code = vector_code(nest, machine.core, len(store.accesses))
    levels = [store.locality.fits(capacity) for capacity in machine.caches]
    fits = (
        store.locality.inner[levels[0]],
        store.locality.inner[levels[1]],
        store.locality.inner[levels[2]],
    )
    if machine.gpu:
        traffic = _gpu_traffic(store, levels[2], machine)
        balance = 1.0
        compute = store.iterations / machine.warp * _weight(store) / speed(store)
        memory = traffic[0] / 128 + traffic[1] / 64
        return Estimate(start, code, traffic, fits, compute, memory, balance)
    moved = [
        float(machine.line * store.locality.all_lines_moved(level)) * store.share
        for level in levels
    ]
    balance = _balance(store.loops, machine.threads)
    busy = 1.0 / (machine.threads * balance)
    compute = store.runs / code.lanes * code.cycles * busy
    memory = total(b * c for b, c in zip(moved, CYCLES_PER_BYTE, strict=True)) * busy
    traffic = moved[0], moved[1], moved[2]
    walked = _walk(store, start, code, machine)
    return Estimate(start, code, traffic, fits, compute, memory, balance, walked)


def _walk(store: StoreFacts, start: int, code: VectorCode, machine: Machine) -> Walk:
    """The memory traffic of the store in the loop order of its code.

    Where a loop is cut in two, the traffic of the larger part stands for both.
    """
    outside = tuple(
        Visit(loop.extent, tuple(strides[k] for strides in store.strides))
        for k, loop in enumerate(store.loops[:start])
        if loop.extent > 1
    )
    elements = tuple(access.info.bytes for access in store.accesses)
    visits = (*outside, *code.order)
    found = walk(visits, elements, machine.memory)
    part = store.iterations / math.prod(visit.extent for visit in visits)
    found = found if part == 1 else found.times(part)
    return found if store.share == 1 else found.times(store.share)


def _weight(store: StoreFacts) -> float:
    return max(1.0, total(map(mul, WEIGHTS, store.counts)))


def _balance(loops: list[Loop], threads: int) -> float:
    """The share of the threads that are busy while the parallel loops run; one thread is busy where
    there is no such loop."""
    chunks = 1
    for loop in loops:
        if loop.kind is ForKind.PARALLEL:
            chunks *= loop.extent
    return chunks / (-(-chunks // threads) * threads)


def _gpu_traffic(store: StoreFacts, level: int, machine: Machine) -> tuple[float, float, float]:
    """Bytes served by shared memory, by L2 and by device memory."""
    shared = global_ = device = 0.0
    for k, access in enumerate(store.accesses):
        scope = scope_of(access.info)
        if scope == "local":
            continue
        if by_warp(store):  # the lanes of a warp access together; no loop stands for them
            shared += store.iterations * access.info.bytes
            continue
        axes, vector = warp_axes(store, k), vector_length(store, k)
        element = access.info.bytes
        warps = _loads(store, k) / (machine.warp * vector)
        if scope == "shared":
            shared += warps * 128 * bank_conflicts(axes, element, vector, machine.warp)
        else:
            global_ += warps * SECTOR * sectors(axes, element, vector, machine.warp)
            device += machine.line * store.locality.lines_moved(k, level)
    return shared, global_, device


def _loads(store: StoreFacts, access: int) -> float:
    """The number of accesses over all threads.

    A loop inside the innermost reduction loop that does not move the access finds the element in a
    register.
    """
    count = float(store.iterations)
    own = store.strides[0]
    for k in range(len(store.loops) - 1, -1, -1):
        loop = store.loops[k]
        if loop.thread or (own[k] == 0 and loop.extent > 1 and store.reduces):
            break
        if store.strides[access][k] == 0:
            count /= loop.extent
    return count


def warp_axes(store: StoreFacts, access: int) -> tuple[tuple[int, int], ...]:
    """(extent, stride) of one access along threadIdx.x, .y and .z, without missing axes."""
    found = [
        (loop.thread, loop.extent, store.strides[access][k])
        for k, loop in enumerate(store.loops)
        if loop.thread >= _THREAD_X and loop.thread < _THREAD_X + 3
    ]
    return tuple((extent, stride) for _, extent, stride in sorted(found))


def vector_length(store: StoreFacts, access: int) -> int:
    """The number of elements that a thread accesses at once: the extent of a vectorised loop whose
    lanes are neighbours, else 1."""
    for k in range(len(store.loops) - 1, -1, -1):
        loop = store.loops[k]
        if loop.kind is ForKind.VECTORIZED and loop.extent > 1:
            return loop.extent if store.strides[access][k] == 1 else 1
    return 1
