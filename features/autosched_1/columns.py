"""The values of feature set `autosched-1`, unscaled: one function for each group of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autosched.features.ansor.names import CURVE_POINTS, POSITIONS, REUSE_TYPES
from autosched.features.autosched_1.estimate import (
    ALL_OPS,
    FLOAT_OPS,
    Estimate,
    vector_length,
    warp_axes,
)
from autosched.features.autosched_1.gpu import bank_conflicts, occupancy, sectors
from autosched.features.autosched_1.machine import Machine
from autosched.features.autosched_1.names import ACCESS_WIDTH, MAX_BUFFERS, SCOPES
from autosched.features.autosched_1.positions import NONE, annotation
from autosched.features.autosched_1.store import StoreFacts
from autosched.features.autosched_1.tensor_cores import by_warp, scope_of
from autosched.features.walk.access import ACCESS_TYPES
from autosched.features.walk.scope import Loop
from autosched.nest.total import total
from autosched.tir.stmt import ForKind

_KINDS = (ForKind.VECTORIZED, ForKind.UNROLLED, ForKind.PARALLEL)


def _one_hot(position: int, size: int) -> tuple[float, ...]:
    return tuple(float(k == position) for k in range(size))


_POSITION = [_one_hot(k, len(POSITIONS)) for k in range(len(POSITIONS))]
_ACCESS_TYPE = {name: _one_hot(k, 3) for k, name in enumerate(ACCESS_TYPES)}
_REUSE_TYPE = {name: _one_hot(k, 3) for k, name in enumerate(REUSE_TYPES)}
_SCOPE = {name: _one_hot(k, len(SCOPES)) for k, name in enumerate(SCOPES)}
_NO_SCOPE = (0.0,) * len(SCOPES)
MOST_REGISTERS = 4.0  # larger shares of the register file count the same: the code spills anyway


@dataclass(slots=True)
class Kernel:
    """A GPU kernel, identified by its outermost loop; bytes of shared memory of a block, and of
    local memory of a thread."""

    loop: Loop
    shared: int = 0
    local: int = 0


class Row:
    """The stores of one buffer.

    `store` is the store that runs most often, the last one among equals. Loops, accesses and the
    like describe this store; operations, traffic and cycles are sums over all stores.
    """

    def __init__(
        self,
        stores: Sequence[StoreFacts],
        estimates: Sequence[Estimate],
        allocation: tuple[int, int, float] | None,
        machine: Machine,
    ) -> None:
        most = max(range(len(stores)), key=lambda k: (stores[k].runs, k))
        self.store, self.estimate = stores[most], estimates[most]
        self.allocation = allocation
        self.counts = [0.0] * len(ALL_OPS)
        for item in stores:
            for k, count in enumerate(item.counts):
                if count:
                    self.counts[k] += count * item.runs
        self.ops = total(s.operations(ALL_OPS) * s.runs for s in stores)
        self.float_ops = total(s.operations(FLOAT_OPS) * s.runs for s in stores)
        self.traffic = [total(e.traffic[c] for e in estimates) for c in range(3)]
        self.compute = total(e.compute for e in estimates)
        self.memory = total(e.memory for e in estimates)
        self.cycles = max(self.compute, self.memory)
        walks = [e.walk for e in estimates]
        self.walked = [
            *(total(w.lines[c] for w in walks) for c in range(3)),
            *(total(w.runs[c] for w in walks) for c in range(3)),
            *(total(w.pages[c] for w in walks) for c in range(2)),
        ]
        self.walk = total(e.walk.cycles / (machine.threads * e.balance) for e in estimates)
        self.bound = max(self.compute, self.walk)
        self.unique_bytes = machine.line * sum(lines[0] for lines in self.store.locality.lines)


class Program:
    """All rows of a function, and sums over its rows."""

    def __init__(self, rows: Sequence[Row], kernels: Mapping[int, Kernel]) -> None:
        self.kernels = kernels
        self.rows = len(rows)
        self.ops = total(row.ops for row in rows)
        self.cycles = total(row.cycles for row in rows)
        self.memory = total(row.memory for row in rows)
        self.walk = total(row.walk for row in rows)
        self.bound = total(row.bound for row in rows)
        self.iterations = sum(row.store.iterations for row in rows)
        self.traffic = [total(row.traffic[c] for row in rows) for c in range(2)]
        self.unique_bytes = sum(row.unique_bytes for row in rows)
        self.alloc = sum(row.allocation[0] for row in rows if row.allocation is not None)


def columns(row: Row, program: Program, machine: Machine) -> list[float]:
    """The values of one row in the order of `autosched_1_names.COLUMNS`."""
    return [
        *_computation(row),
        *_accesses(row.store, machine),
        *_locality(row),
        *_walk(row),
        *_curve(row.store),
        *_registers(row, machine),
        *_predicates(row.store),
        *_gpu(row.store, program.kernels, machine),
        *_allocation(row),
        row.store.iterations,
        len(row.store.loops),
        max(0, row.store.step),
        *_estimate(row, program),
        *_program(program),
    ]


def _computation(row: Row) -> Iterator[float]:
    loops, used = row.store.loops, row.store.stored.used
    yield from row.counts
    for kind in _KINDS:
        chosen = [loop for loop in loops if loop.kind is kind]
        product = 1
        for loop in chosen:
            product *= loop.extent
        position = annotation(chosen, loops, used) if chosen else NONE
        yield len(chosen)
        yield product if chosen else 0
        yield chosen[-1].extent if chosen else 0
        yield from _POSITION[position]
    yield row.estimate.balance


def _lane_loop(store: StoreFacts) -> int:
    """The position of the loop whose iterations are lanes: the vectorised loop, else the innermost
    loop that runs more than once; -1 where there is none. Thread axes do not count."""
    running = [k for k, loop in enumerate(store.loops) if loop.extent > 1 and not loop.thread]
    vector = [k for k in running if store.loops[k].kind is ForKind.VECTORIZED]
    return (vector or running or [-1])[-1]


def _accesses(store: StoreFacts, machine: Machine) -> list[float]:
    lane = _lane_loop(store)
    slots = [(_lines(store, k), k) for k in range(len(store.accesses))]
    slots.sort(key=lambda s: (-s[0], -store.accesses[s[1]].info.bytes, s[1]))
    values: list[float] = []
    for lines, k in slots[:MAX_BUFFERS]:
        values += _slot(store, k, lines, lane, machine)
    return values + [0.0] * (ACCESS_WIDTH * MAX_BUFFERS - len(values))


def _lines(store: StoreFacts, access: int) -> float:
    return float(store.locality.lines_moved(access, len(store.loops)))


def _slot(store: StoreFacts, k: int, lines: float, lane: int, machine: Machine) -> list[float]:
    access, reuse, strides = store.accesses[k], store.reuse[k], store.strides[k]
    element, scope = access.info.bytes, scope_of(access.info)
    accessed = float(store.iterations * element)
    count = reuse.count if reuse.count > 0.5 else 0.5
    step = abs(strides[lane]) if lane >= 0 else 0
    transactions = conflicts = 0
    if machine.gpu and scope != "local":
        axes, vector = warp_axes(store, k), vector_length(store, k)
        if by_warp(store):
            conflicts = 1
        elif scope == "shared":
            conflicts = bank_conflicts(axes, element, vector, machine.warp)
        else:
            transactions = sectors(axes, element, vector, machine.warp)
    return [
        *_ACCESS_TYPE[access.kind],
        *_SCOPE.get(scope, _NO_SCOPE),
        accessed,
        store.locality.elements[k][0] * element,
        lines,
        store.locality.lines[k][0],
        *_REUSE_TYPE[reuse.kind],
        reuse.iterations,
        reuse.bytes,
        reuse.count,
        accessed / count,
        lines / count,
        abs(strides[-1]) if strides else 0,
        step,
        *_one_hot_step(step),
        store.locality.runs[k],
        transactions,
        conflicts,
    ]


def _one_hot_step(step: int) -> tuple[float, float, float]:
    """One-hot columns of a lane stride: invariant, contiguous, strided."""
    return float(step == 0), float(step == 1), float(step > 1)


def _locality(row: Row) -> Iterator[float]:
    yield from row.traffic
    yield from row.estimate.fits
    for traffic in row.traffic:
        yield row.ops / max(1.0, traffic)
    lane = _lane_loop(row.store)
    steps = [_one_hot_step(abs(s[lane]) if lane >= 0 else 0) for s in row.store.strides]
    for kind in range(3):
        yield total(step[kind] for step in steps) / len(steps)


def _walk(row: Row) -> Iterator[float]:
    yield from row.walked
    for count in row.walked:
        yield row.ops / max(1.0, count)
    yield row.walk
    yield 100 * row.walk / max(1.0, row.ops)
    yield 100 * row.bound / max(1.0, row.ops)


def _curve(store: StoreFacts) -> list[float]:
    """Operations per byte where k/10 of the operations are done, interpolated between loops."""
    operations = store.operations(FLOAT_OPS)
    done = [float(operations * inner) for inner in reversed(store.locality.inner[:-1])]
    if not operations or not done:
        return [0.0] * CURVE_POINTS
    memory = store.locality.memory(store.accesses)
    intensity = [o / m for o, m in zip(done, memory, strict=True)]
    curve, at = [], 0
    for k in range(1, CURVE_POINTS + 1):
        x = done[-1] * k / CURVE_POINTS
        while done[at] < x and at < len(done) - 1:  # beyond 2**53 even the last may be below x
            at += 1
        y = intensity[at]
        if at and done[at] > x:
            slope = (y - intensity[at - 1]) / (done[at] - done[at - 1])
            y -= slope * (done[at] - x)
        curve.append(y)
    return curve


def _registers(row: Row, machine: Machine) -> Iterator[float]:
    store, code = row.store, row.estimate.code
    element = store.stored.info.bytes
    depth = len(store.loops) - row.estimate.start
    own = store.strides[0]
    running = [k for k, loop in enumerate(store.loops) if loop.extent > 1]
    reducing = [k for k in running if own[k] == 0] if store.reduces else []
    vectors = [loop.extent for loop in store.loops if loop.kind is ForKind.VECTORIZED]
    yield depth
    yield store.locality.inner[row.estimate.start]
    yield min(1.0, code.lanes * element / machine.core.vector_bytes)
    yield vectors[-1] * element / machine.core.vector_bytes if vectors else 0
    yield float(code.folded)
    yield code.gathers
    yield code.accumulators
    yield min(MOST_REGISTERS, code.registers / machine.core.registers)
    yield code.cycles * 10
    yield store.locality.inner[reducing[-1] + 1] if reducing else 0
    yield store.loops[running[-1]].extent if running else 1
    yield float(bool(reducing) and reducing[-1] == running[-1])
    yield store.loops[reducing[-1]].extent if reducing else 0
    yield _unrolled(store)


def _unrolled(store: StoreFacts) -> int:
    """Iterations of the innermost loops that unroll together, by the pragma or by their kind."""
    body = 1
    for loop in reversed(store.loops):
        if loop.thread or loop.kind is ForKind.PARALLEL:
            break
        if loop.kind is ForKind.SERIAL and body * loop.extent > max(1, store.step):
            break
        body *= 1 if loop.kind is ForKind.VECTORIZED else loop.extent
    return body


def _predicates(store: StoreFacts) -> Iterator[float]:
    checks = 0
    for depth in store.guards:
        checks += store.locality.inner[0] // store.locality.inner[min(depth, len(store.loops))]
    yield len(store.guards)
    yield float(bool(store.guards) and store.guards[-1] >= len(store.loops))
    yield checks
    yield store.locality.within


_BLOCKS, _THREADS = slice(1, 4), slice(4, 7)


def _gpu(store: StoreFacts, kernels: Mapping[int, Kernel], machine: Machine) -> list[float]:
    if not store.launch[0]:
        return [0.0] * 8
    blocks = threads = 1
    for extent in store.launch[_BLOCKS]:
        blocks *= int(extent)
    for extent in store.launch[_THREADS]:
        threads *= int(extent)
    threads *= machine.warp if by_warp(store) else 1
    kernel = kernels.get(id(store.outermost))
    shared, local = (kernel.shared, kernel.local) if kernel is not None else (0, 0)
    warps = -(-threads // machine.warp)
    return [
        1.0,
        blocks,
        threads,
        store.launch[7],
        threads / (warps * machine.warp),
        shared,
        local,
        occupancy(threads, shared, local, machine),
    ]


def _allocation(row: Row) -> list[float]:
    if row.allocation is None:
        return [0.0] * 4
    size, elements, outside = row.allocation
    return [size, elements * outside, outside, row.store.iterations / max(1.0, outside)]


def _estimate(row: Row, program: Program) -> list[float]:
    return [
        row.compute,
        row.memory,
        100 * row.cycles / max(1.0, row.ops),
        row.cycles / max(1.0, program.cycles),
        row.ops / max(1.0, program.ops),
        row.store.iterations / max(1, program.iterations),
    ]


def _program(program: Program) -> list[float]:
    return [
        program.rows,
        program.ops,
        program.cycles,
        program.memory,
        100 * program.cycles / max(1.0, program.ops),
        *(traffic / max(1, program.unique_bytes) for traffic in program.traffic),
        program.alloc,
        program.walk,
        100 * program.walk / max(1.0, program.ops),
        program.bound,
        100 * program.bound / max(1.0, program.ops),
    ]
