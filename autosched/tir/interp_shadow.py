"""Shadow memory: records per element for detecting races and reads of uninitialised memory.

It records whether an element was written, which threads read and wrote it since the last barrier,
and whether an asynchronous copy to or from it is unfinished. As only barriers order the threads of
a block, races are found exactly for the blocks that run, in whatever order a GPU runs threads.

A thread's stamp is its epoch (the number of barriers that its block has passed, in the high bits)
and its number in the launch. Blocks are never ordered: in global memory accesses of another block
conflict in every epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.tir.interp_memory import (
    Array,
    CopyError,
    Mask,
    RaceError,
    Storage,
    UninitialisedError,
    thread_mask,
)

if TYPE_CHECKING:
    from autosched.tir.interp_threads import Run, Threads

EPOCH = 42
"""The number of low bits of a stamp that hold the thread's number; the bits above are the epoch."""
_NUMBER = (1 << EPOCH) - 1
_ALL_BLOCKS = _NUMBER  # the thread number that stands for threads of several blocks


class Shadow:
    """The shadow of one allocation.

    It has one cell per `cell_bytes`, the size of the smallest type that accesses the memory.
    `initialised` is the initial state of all elements; None means that it is not tracked.
    """

    def __init__(
        self,
        run: Run,
        cells: int,
        cell_bytes: int,
        *,
        races: bool,
        initialised: bool | None,
        shared_by_blocks: bool = False,
    ) -> None:
        self.run = run
        self.cell_bytes = cell_bytes
        self.cells = cells
        self.tracks_races = races
        self.shared_by_blocks = shared_by_blocks
        # Whether each cell was written; None if not tracked. `complete`: all cells were written.
        self.bits = None if initialised is None else np.full(cells, initialised)
        self.complete = initialised is not False
        self.rows_written: bytearray | None = None
        """For memory per thread: whether all threads have written an element."""
        self._launch = -1
        self._writers = self._readers = np.zeros(0, np.int64)
        self._write_warp_time = self._read_warp_time = np.zeros(0, np.int64)
        self._write_warp = self._read_warp = np.zeros(0, np.int64)  # -1: several warps
        self._seen: set[tuple[int, ...]] = set()
        self._written = True  # whether anything was written since the last barrier of all blocks
        self._unsorted: list[tuple[Array, Array]] = []
        self.arriving: Array | None = None
        """The number of unfinished copies to each cell."""
        self.leaving: Array | None = None
        """The number of unfinished copies from each cell."""

    # -- accesses

    def read(
        self, storage: Storage, places: Array, mask: Mask, name: tuple[int, ...] | None = None
    ) -> None:
        """Note that the threads of `mask` read `places`.

        A read by all threads may have a `name` that identifies its places. It need not be checked
        again if one of the same name was checked since the last write and the last barrier.
        """
        if self.complete and not self.tracks_races and self.arriving is None:
            return
        if name is not None:
            if name in self._seen:
                return
            if not self.shared_by_blocks:
                self._seen.add(name)
        for cells, rows in self._each(storage, places, mask):
            if self.arriving is not None:
                self._refuse_copies(storage, self.arriving, cells, rows, "read", "to")
            if not self.complete:
                self._refuse_unwritten(storage, cells, rows)
            if self.tracks_races and self.run.threads is not None:
                self._read_race(storage, cells, rows, self.run.threads)

    def write(self, storage: Storage, places: Array, mask: Mask) -> None:
        """Note that the threads of `mask` write `places`."""
        self._seen.clear()
        self._written = True
        for cells, rows in self._each(storage, places, mask):
            for flights, direction in ((self.arriving, "to"), (self.leaving, "from")):
                if flights is not None:
                    self._refuse_copies(storage, flights, cells, rows, "written", direction)
            if self.bits is not None and not self.complete:
                self.bits[cells] = True
            if self.tracks_races and self.run.threads is not None:
                self._write_race(storage, cells, rows, self.run.threads)

    def read_row(self, storage: Storage, index: int, mask: Mask) -> None:
        """Note that the threads of `mask` read element `index` of their own instances."""
        if self.complete or self.bits is None:
            return
        done = self._rows(storage)
        if done[index]:
            return
        row = self.bits.reshape(storage.size, -1)[index]
        if row.all():
            done[index] = 1
            return
        missing = ~row if mask is True else ~row & thread_mask(mask)
        if missing.any():
            raise UninitialisedError(
                f"{storage.name}[{index}] is read, but nothing was written there",
                int(np.argmax(missing)),
            )

    def write_row(self, storage: Storage, index: int, mask: Mask) -> None:
        """Note that the threads of `mask` write element `index` of their own instances."""
        if self.bits is None or self._rows(storage)[index]:
            return
        row = self.bits.reshape(storage.size, -1)[index]
        if mask is True:
            row[:] = True
            self._rows(storage)[index] = 1
        else:
            row |= thread_mask(mask)

    def _rows(self, storage: Storage) -> bytearray:
        if self.rows_written is None:
            self.rows_written = bytearray(storage.size)
        return self.rows_written

    def forget(self, storage: Storage, places: Array, mask: Mask) -> None:
        """Mark `places` as uninitialised, since undefined values were stored there."""
        for cells, _ in self._each(storage, places, mask):
            if self.bits is not None:
                self.bits[cells] = False
                self.complete, self.rows_written = False, None
        self._seen.clear()

    def unwrite(self, storage: Storage, places: Array, mask: Mask) -> None:
        """Note that the write of `places` by the threads of `mask` has only begun.

        The threads of a block may begin it together, and end it so; until then, all other accesses
        to `places` are refused.
        """
        self.forget(storage, places, mask)
        if self.tracks_races:
            for cells, _ in self._each(storage, places, mask):
                self._writers[cells] = 0

    def fly(self, storage: Storage, places: Array, mask: Mask, change: int, arriving: bool) -> None:
        """Count one unfinished copy more (`change` 1) or fewer (-1) to or from `places`."""
        self._seen.clear()
        name = "arriving" if arriving else "leaving"
        if getattr(self, name) is None:
            setattr(self, name, np.zeros(self.cells, np.int32))
        more = np.int32(change)  # np.add.at is 100 times slower with a Python int
        for cells, _ in self._each(storage, places, mask):
            np.add.at(getattr(self, name), cells, more)

    def before_barrier(self, everyone: bool) -> None:
        """Update the records before a barrier; `everyone` says that all blocks wait at it."""
        self._seen.clear()
        if everyone:
            self._unsorted.clear()
            self._written = False
        elif self.run.threads is not None:
            self._sort_reads(self.run.threads)
        if not self.complete and self.bits is not None:
            self.complete = bool(self.bits.all())

    # -- cells

    def _each(self, storage: Storage, places: Array, mask: Mask) -> Iterator[tuple[Array, Array]]:
        """The pairs (cells, threads) of an access: one for each cell of an element."""
        threads = self.run.threads
        numbers = np.zeros(1, np.int64) if threads is None else threads.numbers
        if places.shape == numbers.shape and mask is True:
            flat, rows = places, numbers
        else:
            rows = numbers[:, None] if max(places.ndim, np.ndim(mask)) == 2 else numbers
            shape = np.broadcast_shapes(places.shape, rows.shape, np.shape(mask))
            flat, rows = np.broadcast_to(places, shape), np.broadcast_to(rows, shape)
            if mask is True:
                flat, rows = flat.reshape(-1), rows.reshape(-1)
            else:
                chosen = np.broadcast_to(mask, shape)
                flat, rows = flat[chosen], rows[chosen]
        parts = storage.flat.dtype.itemsize // self.cell_bytes
        for part in range(parts):
            yield (flat if parts == 1 else flat * parts + part), rows

    def _element(self, storage: Storage, cell: Any) -> int:
        return storage.element(int(cell) // (storage.flat.dtype.itemsize // self.cell_bytes))

    def _refuse_copies(
        self, storage: Storage, flights: Array, cells: Array, rows: Array, now: str, direction: str
    ) -> None:
        flying = flights[cells] != 0
        if flying.any():
            k = int(np.argmax(flying))
            index = self._element(storage, cells[k])
            raise CopyError(
                f"{storage.name}[{index}] (flat index) is {now} while an asynchronous copy "
                f"{direction} it is not finished; wait for its group first",
                int(rows[k]),
            )

    def _refuse_unwritten(self, storage: Storage, cells: Array, rows: Array) -> None:
        assert self.bits is not None
        known = self.bits[cells]
        if not known.all():
            k = int(np.argmin(known))
            raise UninitialisedError(
                f"{storage.name}[{self._element(storage, cells[k])}] (flat index) is read, but "
                "nothing was written there",
                int(rows[k]),
            )

    # -- races

    def _ready(self, threads: Threads) -> None:
        if self._launch == self.run.launches:
            return
        self._launch = self.run.launches
        self._writers, self._readers = (np.zeros(self.cells, np.int64) for _ in range(2))
        if threads.has_warp_barriers:
            self._write_warp_time, self._read_warp_time, self._write_warp, self._read_warp = (
                np.zeros(self.cells, np.int64) for _ in range(4)
            )

    def _read_race(self, storage: Storage, cells: Array, rows: Array, threads: Threads) -> None:
        self._ready(threads)
        stamps = threads.stamps[rows]
        if self._written or self.shared_by_blocks:
            self._refuse(storage, cells, rows, stamps, threads, self._writers, "read", "written")
        if not self.shared_by_blocks and not threads.has_warp_barriers:
            # Defer recording reads: they matter only if a write follows before the next barrier.
            self._unsorted.append((cells, rows))
            return
        self._note_read(cells, rows, stamps, threads)

    def _sort_reads(self, threads: Threads) -> None:
        for cells, rows in self._unsorted:
            self._note_read(cells, rows, threads.stamps[rows], threads)
        self._unsorted.clear()

    def _note_read(self, cells: Array, rows: Array, stamps: Array, threads: Threads) -> None:
        before = self._readers[cells]
        many = threads.many_stamps[rows]
        new = (before != stamps) & (before != many)
        if threads.has_warp_barriers:
            new[:] = True
        if not new.any():
            return
        self._record(self._readers, cells, rows, stamps, many, threads)

    def _write_race(self, storage: Storage, cells: Array, rows: Array, threads: Threads) -> None:
        self._ready(threads)
        self._sort_reads(threads)
        stamps = threads.stamps[rows]
        self._refuse(storage, cells, rows, stamps, threads, self._writers, "written", "written")
        self._refuse(storage, cells, rows, stamps, threads, self._readers, "written", "read")
        many = threads.many_stamps[rows]
        self._record(self._writers, cells, rows, stamps, many, threads)
        if self.shared_by_blocks:
            self._refuse_other_blocks(storage, cells, rows, stamps, threads)

    def _refuse_other_blocks(
        self, storage: Storage, cells: Array, rows: Array, stamps: Array, threads: Threads
    ) -> None:
        """RaceError when threads of several blocks wrote one element in this statement.

        Threads of one block may store the same value in one statement.
        """
        found = self._writers[cells]
        bad = threads.block_of_stamp(found) != threads.block_of_stamp(stamps)
        if bad.any():
            k = int(np.argmax(bad))
            place = self._element(storage, cells[k])
            raise RaceError(
                f"data race on {storage.name}[{place}] (flat index): written by "
                f"{threads.describe(int(rows[k]))} and by another block in the same statement",
                int(rows[k]),
            )

    def _refuse(
        self,
        storage: Storage,
        cells: Array,
        rows: Array,
        stamps: Array,
        threads: Threads,
        record: Array,
        now: str,
        before: str,
    ) -> None:
        """RaceError when an access in `record` by another thread is not ordered before this one.

        `now` and `before` are the verbs for the two accesses in the message.
        """
        found = record[cells]
        differ = found ^ stamps
        if self.shared_by_blocks:
            bad = (found != 0) & (differ & _NUMBER != 0)
            if bad.any():
                same_block = threads.block_of_stamp(found) == threads.block_of_stamp(stamps)
                bad &= ~same_block | (differ >> EPOCH == 0)
        else:
            bad = (differ != 0) & (differ < 1 << EPOCH)
        if bad.any() and threads.has_warp_barriers:
            bad &= ~self._met_in_warp(cells, rows, found, threads, record is self._readers)
        if bad.any():
            k = int(np.argmax(bad))
            raise self._race(storage, cells[k], int(rows[k]), int(found[k]), threads, now, before)

    def _met_in_warp(
        self, cells: Array, rows: Array, found: Array, threads: Threads, reading: bool
    ) -> Array:
        """Whether a warp barrier orders the recorded access `found` before the one of `rows`."""
        times, warp = self._warps(reading)
        met: Array = (
            (found != 0)
            & (warp[cells] == threads.warp_number[rows])
            & (times[cells] < threads.warp_time[threads.warp_of[rows]])
        )
        return met

    def _warps(self, reading: bool) -> tuple[Array, Array]:
        """For the last reads or writes of each cell: the warp's time, and the warp."""
        if reading:
            return self._read_warp_time, self._read_warp
        return self._write_warp_time, self._write_warp

    def _record(
        self, record: Array, cells: Array, rows: Array, stamps: Array, many: Array, threads: Threads
    ) -> None:
        before = record[cells]
        differ = before ^ stamps
        single = (differ == 0) | (differ >= 1 << EPOCH)
        if self.shared_by_blocks:
            elsewhere = (before != 0) & (
                threads.block_of_stamp(before) != threads.block_of_stamp(stamps)
            )
            many = np.where(elsewhere, _ALL_BLOCKS, many)
            single &= ~elsewhere
        if threads.has_warp_barriers:
            self._record_warps(record, cells, rows, before, single, threads)
        new = np.where(single, stamps, many)
        record[cells] = new
        late = record[cells] != new
        if late.any():
            if self.shared_by_blocks:  # threads of several blocks may be in one access
                last = threads.block_of_stamp(record[cells])
                other = last != threads.block_of_stamp(stamps)
                many = np.where(other, _ALL_BLOCKS, many)
            record[cells[late]] = many[late]

    def _record_warps(
        self,
        record: Array,
        cells: Array,
        rows: Array,
        before: Array,
        single: Array,
        threads: Threads,
    ) -> None:
        # Accesses that a warp barrier orders conflict only with those of other warps.
        reading = record is self._readers
        single |= self._met_in_warp(cells, rows, before, threads, reading)
        times, warp = self._warps(reading)
        times[cells] = threads.warp_time[threads.warp_of[rows]]
        stamps, own = threads.stamps[rows], threads.warp_number[rows]
        fresh = (before ^ stamps) >= 1 << EPOCH
        if self.shared_by_blocks:  # barriers of one block do not order another
            fresh &= (before == 0) | (
                threads.block_of_stamp(before) == threads.block_of_stamp(stamps)
            )
        own = np.where(fresh | (warp[cells] == own), own, -1)
        warp[cells] = own
        warp[cells[warp[cells] != own]] = -1

    def _race(
        self,
        storage: Storage,
        cell: Any,
        row: int,
        found: int,
        threads: Threads,
        now: str,
        before: str,
    ) -> RaceError:
        place = f"{storage.name}[{self._element(storage, cell)}] (flat index)"
        me = threads.describe(row)
        other = threads.describe_stamp(found)
        text = f"data race on {place}: {now} by {me}, {before} by {other}, no barrier between"
        return RaceError(text, row)
