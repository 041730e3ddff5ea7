"""Compute the columns of `autosched_1/columns.py` as arrays over candidates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from autosched.features.ansor.names import CURVE_POINTS
from autosched.features.ansor.rows import FeatureRows
from autosched.features.autosched_1.columns import MOST_REGISTERS
from autosched.features.autosched_1.estimate import FLOAT_OPS
from autosched.features.autosched_1.machine import Machine
from autosched.features.autosched_1.names import (
    ACCESS_WIDTH,
    COLUMNS,
    MAX_BUFFERS,
    SCALED,
    SCOPES,
)
from autosched.features.batched.along_loops import marks, marks_from_last
from autosched.features.batched.autosched_1.stores_of_row import Column, Estimated, Row, in_order
from autosched.features.batched.columns import AccessColumns, Tables
from autosched.features.batched.forms import Flags, Ints
from autosched.features.walk.access import ACCESS_TYPES, READ_WRITE
from autosched.state.iterator import Annotation

_IS_SCALED = [k in SCALED for k in range(len(COLUMNS))]
_AT_ONCE = 16  # columns whose logarithms are computed together
_KINDS = (Annotation.VECTORIZE, Annotation.UNROLL, Annotation.PARALLEL)


def row_columns(row: Row, tables: Tables, machine: Machine, block: FeatureRows) -> None:
    """Write the columns of a row, except the program's, into `block`, (columns, candidates)."""
    for k, store in enumerate(row.stores):
        here = row.most == k
        if here.any():
            own = _Own(store, tables, machine)
            if here.all():
                _write(block, own.columns(row))
            else:
                found = np.empty_like(block)
                _write(found, own.columns(row))
                np.copyto(block, found, where=here)


def _write(block: FeatureRows, columns: Iterable[Column], first: int = 0) -> None:
    """Write columns into `block` from column `first` on, as logarithms where the set scales
    them."""
    waiting: dict[int, Column] = {}
    for k, values in enumerate(columns, first):
        if not _IS_SCALED[k]:
            block[k] = values
        elif isinstance(values, int | float):
            block[k] = _scaled_number(values)
        else:
            waiting[k] = values
            if len(waiting) == _AT_ONCE:
                _write_scaled(block, waiting)
                waiting.clear()
    if waiting:
        _write_scaled(block, waiting)


def _write_scaled(block: FeatureRows, columns: dict[int, Column]) -> None:
    table = np.stack(list(columns.values()), dtype=np.float64)
    table += 1.0
    np.log2(table, out=table)
    for k, values in zip(columns, table, strict=True):
        block[k] = values


@lru_cache(maxsize=1024)
def _scaled_number(value: float) -> float:
    return float(np.log2(value + 1.0))


class _Own:
    """The columns of a row that describe one store."""

    def __init__(self, store: Estimated, tables: Tables, machine: Machine) -> None:
        self.store, self.facts, self.code, self.machine = store, store.facts, store.code, machine
        self.forms = self.facts.forms
        self.loops = range(len(self.facts.present))
        reused = AccessColumns(self.facts.nest, tables, self.facts.store, machine.line)
        self.reuse = [reused.reuse(access) for access in self.facts.accesses]
        self.lane, self.any_lane = self._lane()

    def columns(self, row: Row) -> Iterator[Column]:
        """All columns before those that need the whole program."""
        yield from row.counts
        yield from self._annotations()
        yield self.store.balance
        yield from self._accesses()
        yield from self._locality(row)
        yield from self._walk(row)
        yield from self._curve()
        yield from self._registers()
        yield from self._conditions()
        yield from self._launch()
        yield from self._allocation(row)
        yield self.facts.iterations
        yield self.facts.number
        yield np.maximum(0, self.store.step)

    def _annotations(self) -> Iterator[Column]:
        facts = self.facts
        used = facts.uses[0]
        for kind in _KINDS:
            chosen = facts.present & (facts.kind == kind)
            if not chosen.any():
                yield from (0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
                continue
            number = chosen.sum(axis=0)
            yield number
            yield np.where(number > 0, np.where(chosen, facts.extent, 1).prod(axis=0), 0)
            yield self._last(chosen, facts.extent)
            common = np.zeros(self.forms.count, np.int64)  # 0 where no such loop has been seen
            loops = np.flatnonzero(chosen.any(axis=1))
            for spatial in (True, False):
                alike = facts.present & (used == spatial) & (facts.extent > 1)
                before = marks(alike)
                total = before[-1]
                for j in loops:
                    here = chosen[j] & (used[j] == spatial)
                    base = 1 if spatial else 4
                    place = np.where(before[j] == total, 0, np.where(before[j] == alike[j], 2, 1))
                    mixed = (common != 0) & (common != base + place)
                    common = np.where(here, np.where(mixed, 7, base + place), common)
            for k in range(8):
                yield common == k

    def _last(self, where: Flags, values: Ints) -> Ints:
        """The value at the innermost loop where `where` is set; 0 if it is nowhere set."""
        found = self.forms.zero
        for j in np.flatnonzero(where.any(axis=1)):
            found = np.where(where[j], values[j], found)
        return found

    def _lane(self) -> tuple[Ints, Flags]:
        """The loop whose iterations are lanes, and whether there is one."""
        facts = self.facts
        lane, vector = self.forms.full(-1), self.forms.full(-1)
        for j in self.loops:
            if not facts.thread[j]:
                lane = np.where(facts.present[j], j, lane)
            vector = np.where(facts.vector[j], j, vector)
        lane = np.where(vector >= 0, vector, lane)
        return np.maximum(lane, 0), lane >= 0

    def _step(self, k: int) -> Ints:
        strides = self.facts.strides[k]
        if not len(strides):
            return self.forms.zero
        return np.where(self.any_lane, np.abs(self.facts.at(strides, self.lane)), 0)

    def _accesses(self) -> Iterator[Column]:
        facts = self.facts
        slots, keys = [], []
        larger_first = np.argsort(-np.array(facts.element_bytes), kind="stable")
        level = self.forms.full(len(self.loops))
        outside = facts.outside(level)
        times = facts.iterations // facts.at(facts.inner, outside)
        for k in range(len(facts.accesses)):
            lines = facts.at(facts.lines[k], outside) * times
            keys.append(lines)
            slots.append(list(self._slot(k, lines)))
        moved = -np.stack(keys)[larger_first].astype(np.float64)
        order = larger_first[np.argsort(moved, axis=0, kind="stable")]
        order = order[:MAX_BUFFERS]
        if (order == order[:, :1]).all():
            for place in order[:, 0]:
                yield from slots[place]
        else:
            block = np.empty((len(slots), ACCESS_WIDTH, self.forms.count))
            for own, columns in zip(block, slots, strict=True):
                for column, values in zip(own, columns, strict=True):
                    column[:] = values
            for places in order:
                yield from np.take_along_axis(block, places[None, None], axis=0)[0]
        yield from (0,) * (ACCESS_WIDTH * (MAX_BUFFERS - len(order)))

    def _slot(self, k: int, lines: Ints) -> Iterator[Column]:
        facts, access, size = self.facts, self.facts.accesses[k], self.facts.element_bytes[k]
        kind, iterations, touched, times = self.reuse[k]
        accessed = (facts.iterations * size).astype(np.float64)
        count = np.where(times > 0.5, times, 0.5)
        step = self._step(k)
        for name in ACCESS_TYPES:
            yield float(access.kind == name)
        for name in SCOPES:
            yield float(self.store.scopes[k] == name)
        yield accessed
        yield facts.elements[k][0] * size
        yield lines
        yield facts.lines[k][0]
        for reuse in range(3):
            yield kind == reuse
        yield iterations
        yield touched
        yield times
        yield accessed / count
        yield lines / count
        yield np.abs(self._innermost(facts.strides[k]))
        yield step
        yield from (step == 0, step == 1, step > 1)
        yield facts.runs[k]
        if self.store.warps:
            yield self.store.warps[k].sectors
            yield self.store.warps[k].conflicts
        else:
            yield from (0, 0)

    def _innermost(self, values: Ints) -> Ints:
        """The value at the innermost loop; 0 without loops."""
        return self._last(self.facts.present, values)

    def _locality(self, row: Row) -> Iterator[Column]:
        yield from row.traffic
        yield from self.store.fits
        for traffic in row.traffic:
            yield row.ops / np.maximum(1.0, traffic)
        steps = np.stack([self._step(k) for k in range(len(self.facts.accesses))])
        for flags in (steps == 0, steps == 1, steps > 1):
            yield flags.sum(axis=0) / len(steps)

    def _walk(self, row: Row) -> Iterator[Column]:
        yield from row.walked
        for count in row.walked:
            yield row.ops / np.maximum(1.0, count)
        yield row.walk
        yield 100 * row.walk / np.maximum(1.0, row.ops)
        yield 100 * row.bound / np.maximum(1.0, row.ops)

    def _curve(self) -> Iterator[Column]:
        facts = self.facts
        operations = self.store.operations(FLOAT_OPS)
        if not len(self.loops) or not operations.any():
            yield from (0.0,) * CURVE_POINTS
            return
        done = (operations * facts.inner[-2::-1]).astype(np.float64)
        memory: Ints = in_order(
            [
                elements[-2::-1] * size
                for elements, size in zip(facts.elements, facts.element_bytes, strict=True)
            ]
        )
        intensity = done / memory
        first = (marks_from_last(facts.present) == 0).sum(axis=0)  # innermost loops not present
        first = np.minimum(first, len(done) - 1)
        for k in range(1, CURVE_POINTS + 1):
            x = done[-1] * k / CURVE_POINTS
            at = np.maximum((done < x).sum(axis=0), first)
            at = np.minimum(at, len(done) - 1)
            y = facts.at(intensity, at)
            top = facts.at(done, at)
            between = (at > first) & (top > x)
            below = np.maximum(at - 1, 0)
            start, lower = facts.at(done, below), facts.at(intensity, below)
            gap = np.where(between, top - start, 1.0)
            slope = (y - lower) / gap
            y = np.where(between, y - slope * (top - x), y)
            yield np.where((operations > 0) & (facts.number > 0), y, 0.0)

    def _registers(self) -> Iterator[Column]:
        facts, code, core = self.facts, self.code, self.machine.core
        element = facts.element_bytes[0]
        own = facts.strides[0]
        reduces = (facts.present & (facts.extent > 1) & ~facts.uses[0]).any(axis=0)
        if facts.accesses[0].kind != READ_WRITE:
            reduces = np.zeros_like(reduces)
        reducing = facts.present & (facts.extent > 1) & (own == 0) & reduces
        last = self.forms.full(-1)
        for j in self.loops:
            last = np.where(reducing[j], j, last)
        some = last >= 0
        running = facts.present & (facts.extent > 1)  # a thread axis of extent 1 is present, too
        vectors = self._last(facts.vector, facts.extent)
        inner_len = np.maximum(self._last(running, facts.extent), 1)
        innermost = self.forms.full(-1)
        for j in self.loops:
            innermost = np.where(running[j], j, innermost)
        yield facts.number - code.start
        yield facts.at(facts.inner, facts.level_of(code.start))
        yield np.minimum(1.0, code.lanes * element / core.vector_bytes)
        yield np.where(vectors > 0, vectors * element / core.vector_bytes, 0)
        yield code.folded
        yield code.gathers
        yield code.accumulators
        yield np.minimum(MOST_REGISTERS, code.registers / core.registers)
        yield code.cycles * 10
        yield np.where(some, facts.at(facts.inner, last + 1), 0)
        yield inner_len
        yield some & (last == innermost)
        yield self._last(reducing, facts.extent)
        yield self._unrolled()

    def _conditions(self) -> Iterator[Column]:
        """Columns of the conditions around the store.

        Their number, whether one is inside all loops, how often they are checked, and how far the
        loops stay within the buffers.
        """
        facts, guards = self.facts, self.store.guards
        if not len(guards):
            yield from (0, 0, 0, facts.within)
            return
        last, number, checks = self.forms.full(-1), self.forms.zero, self.forms.zero
        for depth in guards:
            there = depth >= 0
            number, last = number + there, np.where(there, depth, last)
            inside = facts.at(facts.inner, facts.level_of(np.minimum(depth, facts.number)))
            checks = checks + np.where(there, facts.iterations // inside, 0)
        yield number
        yield (number > 0) & (last >= facts.number)
        yield checks
        yield facts.within

    def _launch(self) -> Iterator[Column]:
        """Blocks, threads and memory of a GPU; zeros for a CPU."""
        launch, machine = self.store.launch, self.machine
        if launch is None:
            yield from (0,) * 8
            return
        threads = launch.threads
        warps = -(-threads // machine.warp)
        yield 1.0
        yield launch.blocks
        yield threads
        yield launch.virtual
        yield threads / (warps * machine.warp)
        yield launch.shared
        yield launch.local
        yield _occupancy(threads, launch.shared, launch.local, machine)

    def _unrolled(self) -> Ints:
        facts = self.facts
        body, done = self.forms.one, np.zeros(self.forms.count, bool)
        limit = np.maximum(1, self.store.step)
        for j in reversed(self.loops):
            kind, present = facts.kind[j], facts.present[j]
            serial = present & (kind == Annotation.NONE)
            done = done | facts.apart[j] | (serial & (body * facts.extent[j] > limit))
            more = present & ~done & ~facts.vector[j]
            body = np.where(more, body * facts.extent[j], body)
        return body

    def _allocation(self, row: Row) -> Iterator[Column]:
        if row.allocation is None:
            yield from (0,) * 4
            return
        size, elements, outside = row.allocation
        yield size
        yield elements * outside
        yield outside
        yield row.iterations / np.maximum(1.0, outside)


def _occupancy(threads: Ints, shared: Ints, local: Ints, machine: Machine) -> Column:
    """`autosched_1.gpu.occupancy` for arrays."""
    threads = np.maximum(1, threads)
    warps = -(-threads // machine.warp)
    registers = np.minimum(255, 32 + local // 4)
    blocks = np.minimum(machine.sm_blocks, machine.sm_threads // threads)
    by_shared = machine.sm_shared // np.maximum(shared, 1)
    blocks = np.minimum(blocks, np.where(shared > 0, by_shared, machine.sm_blocks))
    blocks = np.minimum(blocks, machine.sm_registers // (registers * warps * machine.warp))
    return np.minimum(1.0, blocks * threads / machine.sm_threads)


def program_columns(rows: list[Row], blocks: FeatureRows, ordered: Sequence[Ints]) -> None:
    """Write the columns of the program, and the shares of each row in it, at the end of each block.

    `ordered` has for each position in the program the number of the row that is there, by
    candidate.
    """

    def total(values: Sequence[Any]) -> Any:
        table = np.stack([np.asarray(v) for v in values])
        return in_order([np.take_along_axis(table, at[None], axis=0)[0] for at in ordered])

    ops = total([row.ops for row in rows])
    cycles = total([row.cycles for row in rows])
    memory = total([row.memory for row in rows])
    walk = total([row.walk for row in rows])
    bound = total([row.bound for row in rows])
    iterations = total([row.iterations for row in rows])
    unique = total([row.unique_bytes for row in rows])
    some = [row.allocation[0] for row in rows if row.allocation is not None]
    alloc = in_order(some) if some else 0
    traffic = [total([row.traffic[c] for row in rows]) for c in range(2)]
    program = [
        len(rows),
        ops,
        cycles,
        memory,
        100 * cycles / np.maximum(1.0, ops),
        *(t / np.maximum(1, unique) for t in traffic),
        alloc,
        walk,
        100 * walk / np.maximum(1.0, ops),
        bound,
        100 * bound / np.maximum(1.0, ops),
    ]
    for row, block in zip(rows, blocks, strict=True):
        own = [
            row.compute,
            row.memory,
            100 * row.cycles / np.maximum(1.0, row.ops),
            row.cycles / np.maximum(1.0, cycles),
            row.ops / np.maximum(1.0, ops),
            row.iterations / np.maximum(1, iterations),
        ]
        _write(block, [*own, *program], len(block) - len(own) - len(program))
