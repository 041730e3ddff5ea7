"""Threads of the interpreter: all threads of a kernel advance in lockstep, statement by statement.

Threads are numbered with threadIdx.x fastest, then threadIdx.y, threadIdx.z, then the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autosched.tir.dtype import DType
from autosched.tir.gpu import WARP
from autosched.tir.interp_copies import Copies
from autosched.tir.interp_counts import AccessCount, count_global, count_shared
from autosched.tir.interp_memory import (
    Array,
    BarrierError,
    InterpreterError,
    Mask,
    Storage,
    nothing,
    thread_mask,
)
from autosched.tir.interp_shadow import EPOCH, Shadow
from autosched.tir.interp_warp import Warps
from autosched.tir.interp_warpgroup import Warpgroups
from autosched.tir.interp_watch import Watch
from autosched.tir.tiles import Tiles

THREAD_TAGS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
BLOCK_TAGS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
_THREADS_AT_ONCE = 1 << 15


class Run:
    """One run of a function: its watch, the AMX tiles, and the threads that run at the moment."""

    def __init__(self, watch: Watch | None, has_warp_barriers: bool) -> None:
        self.watch = watch
        self.has_warp_barriers = has_warp_barriers
        self.launches = 0
        self.threads: Threads | None = None
        self.tiles = Tiles()

    def shadow(self, storage: Storage, cell_bytes: int, initialised: bool) -> None:
        """Give global memory a shadow, if the watch asks for races or uninitialised reads."""
        watch = self.watch
        if watch is None or not (watch.races or watch.initialised):
            return
        if storage.flat.nbytes % cell_bytes:
            cell_bytes = storage.flat.dtype.itemsize
        storage.shadow = Shadow(
            self,
            storage.flat.nbytes // cell_bytes,
            cell_bytes,
            races=watch.races,
            initialised=initialised if watch.initialised else None,
            shared_by_blocks=True,
        )

    def allocate(
        self, name: str, extents: Sequence[Any], lanes: int, dtype: DType, cell_bytes: int
    ) -> Storage:
        """Allocate storage outside of kernels."""
        storage = Storage(name, nothing(_count(name, extents) * lanes, dtype.numpy))
        self.shadow(storage, cell_bytes, initialised=False)
        return storage

    def launch(self, kernel: Callable[[Threads], None], extents: Mapping[str, int]) -> None:
        """Run `kernel` on its blocks, as many at once as a bounded number of threads allows.

        Adds the thread that caused an InterpreterError to it.
        """
        self.launches += 1
        per_block = int(np.prod([extents.get(t, 1) for t in THREAD_TAGS]))
        blocks = np.arange(int(np.prod([extents.get(t, 1) for t in BLOCK_TAGS])))
        if self.watch is not None and self.watch.blocks is not None:
            blocks = self.watch.blocks(extents)
        step = max(1, _THREADS_AT_ONCE // max(per_block, 1))
        for start in range(0, blocks.size, step):
            self.threads = Threads(self, extents, blocks[start : start + step])
            try:
                kernel(self.threads)
            except InterpreterError as error:
                if error.thread is not None:
                    error.where = self.threads.describe(error.thread)
                    error.add_note(f"by {error.where}")
                raise
        self.threads = None

    def tick(self) -> None:
        """Raise TooLargeError if a watched run has exceeded its time limit."""
        if self.watch is not None:
            self.watch.tick()


def _count(name: str, extents: Sequence[Any]) -> int:
    count = 1
    for extent in extents:
        count *= int(np.max(extent))
    if count < 0:
        raise InterpreterError(f"{name}: the allocated extents {tuple(extents)} are negative")
    return count


class Threads:
    """The threads of the blocks of one kernel that run at once.

    `stamps` are each thread's epoch and number in the launch (`interp_shadow.py`). `many_stamps`
    stand for several threads of its block; their number is one past the block's last thread.
    `warp_of` is each thread's warp among these blocks, `warp_number` that in the grid.
    """

    def __init__(self, run: Run, extents: Mapping[str, int], blocks: Array) -> None:
        self.run = run
        self.extents = extents
        self.per_block = int(np.prod([extents.get(t, 1) for t in THREAD_TAGS]))
        self.blocks = blocks
        self.count = blocks.size * self.per_block
        number = np.arange(self.count)
        self.in_block = number % self.per_block
        self.block_of = number // self.per_block
        self.warps_per_block = -(-self.per_block // WARP)
        self.lane = (self.in_block % WARP).astype(np.int32)
        self.warp_of = self.block_of * self.warps_per_block + self.in_block // WARP
        self.warp_number = blocks[self.block_of] * self.warps_per_block + self.in_block // WARP
        self.numbers = number
        first = blocks[self.block_of].astype(np.int64) * (self.per_block + 1) + (1 << EPOCH)
        self.stamps = first + self.in_block
        self.many_stamps = first + self.per_block
        self.has_warp_barriers = run.has_warp_barriers
        self.warp_time = np.zeros(blocks.size * self.warps_per_block, np.int64)
        self.copies = Copies(self)
        self.warps = Warps(self)
        self.groups = Warpgroups(self)
        self._shadows: list[Shadow] = []

    # -- names and positions of threads

    def describe(self, row: int) -> str:
        """Thread number `row` of these blocks in words."""
        return self._words(int(self.blocks[self.block_of[row]]), int(self.in_block[row]))

    def describe_stamp(self, stamp: int) -> str:
        """The thread, or the threads, of a stamp in words."""
        number = stamp & ((1 << EPOCH) - 1)
        if number == (1 << EPOCH) - 1:
            return "several blocks"
        block, thread = divmod(number, self.per_block + 1)
        return self._words(block, None if thread == self.per_block else thread)

    def _words(self, block: int, thread: int | None) -> str:
        where = _coordinates(block, BLOCK_TAGS, self.extents)
        if thread is None:
            return f"several threads of block {where}"
        return f"thread {_coordinates(thread, THREAD_TAGS, self.extents)} of block {where}"

    def block_of_stamp(self, stamps: Array) -> Array:
        """The number of each stamp's block in the grid."""
        blocks: Array = (stamps & ((1 << EPOCH) - 1)) // (self.per_block + 1)
        return blocks

    def coordinate(self, tag: str) -> Any:
        """Each thread's index along `tag`: an int32 array, or 0 when the extent is 1."""
        extent = self.extents.get(tag, 1)
        if extent == 1:
            return 0
        tags, position = (
            (THREAD_TAGS, self.in_block)
            if tag in THREAD_TAGS
            else (BLOCK_TAGS, self.blocks[self.block_of])
        )
        for other in tags:
            if other == tag:
                return (position % extent).astype(np.int32)
            position = position // self.extents.get(other, 1)
        raise InterpreterError(f"unknown thread axis {tag!r}")

    def per_thread(self, value: Any) -> Array:
        """An integer that depends on threads only, as an int64 array with an element per thread."""
        return np.ascontiguousarray(np.broadcast_to(np.asarray(value, np.int64), self.count))

    def allocate(
        self,
        name: str,
        extents: Sequence[Any],
        lanes: int,
        dtype: DType,
        scope: str,
        cell_bytes: int,
    ) -> Storage:
        """Allocate storage of `scope` for every thread, warp or block.

        For a fragment each lane gets 1/32.
        """
        count = _count(name, extents) * lanes
        rank = scope.partition(".")[0]
        private = rank not in ("shared", "warp")
        if rank == "wmma":
            count = -(-count // WARP)
        if rank == "global":
            return self.run.allocate(name, (count,), 1, dtype, cell_bytes)
        if rank == "shared":
            instances, owner = self.blocks.size, self.block_of
        elif rank == "warp":
            instances, owner = self.blocks.size * self.warps_per_block, self.warp_of
        else:
            instances, owner = self.count, self.numbers
            cell_bytes = dtype.bytes  # memory per thread is never viewed as a type of another size
        flat = nothing(count * instances, dtype.numpy)
        storage = Storage(name, flat, instances, owner, private=private)
        if storage.flat.nbytes // instances % cell_bytes:
            cell_bytes = dtype.bytes
        watch = self.run.watch
        races = watch is not None and watch.races and rank in ("shared", "warp")
        if watch is not None and (races or watch.initialised):
            storage.shadow = Shadow(
                self.run,
                storage.flat.nbytes // cell_bytes,
                cell_bytes,
                races=races,
                initialised=False if watch.initialised else None,
            )
            self._shadows.append(storage.shadow)
        return storage

    def barrier(self, scope: str, mask: Mask) -> None:
        """tvm_storage_sync: the threads of each block (or warp) wait for each other.

        BarrierError when only some threads of a block (or warp) reach it.
        """
        self.run.tick()
        mask = thread_mask(mask)
        kind, groups = ("warp", self.warp_of) if scope == "warp" else ("block", self.block_of)
        if mask is not True and (mask.shape != (1,) or not mask[0]):
            mask = np.broadcast_to(mask, self.count)
            present = np.bincount(groups, weights=mask)
            partial = (present != 0) & (present != np.bincount(groups))
            if partial.any():
                missing = partial[groups] & ~mask
                raise BarrierError(
                    f'tvm_storage_sync("{scope}") is reached by only some threads of a {kind}; it '
                    "is missed",
                    int(np.argmax(missing)),
                )
        else:
            mask = True
        if scope == "warp":
            self.warp_time[self.warp_of if mask is True else self.warp_of[mask]] += 1
            return
        for shadow in self._shadows:
            shadow.before_barrier(mask is True)
        step = 1 << EPOCH if mask is True else mask.astype(np.int64) << EPOCH
        self.stamps += step
        self.many_stamps += step

    def allreduce(
        self,
        combine: Callable[..., Sequence[Any]],
        identity: Sequence[Any],
        values: Sequence[Any],
        results: Sequence[tuple[Storage, Any]],
        tags: Sequence[str],
        condition: Any,
        mask: Mask,
    ) -> None:
        """tvm_thread_allreduce: combine the values of the threads along `tags`.

        Every thread of a group gets the result. Threads for which `condition` or the mask is false
        contribute the identity.
        """
        shape = (
            self.blocks.size,
            *(self.extents.get(t, 1) for t in reversed(THREAD_TAGS)),
        )
        taking = np.broadcast_to(np.asarray(condition, bool), self.count)
        mask = thread_mask(mask)
        if mask is not True:
            taking = taking & mask
        axes = [3 - THREAD_TAGS.index(t) for t in tags]
        kept = [d for d in range(4) if d not in axes]
        parts = []
        for value, neutral in zip(values, identity, strict=True):
            full = np.where(taking, value, neutral).astype(np.asarray(neutral).dtype, copy=False)
            grid = full.reshape(shape).transpose([*axes, *kept])
            parts.append(grid.reshape(-1, *grid.shape[len(axes) :]))
        while len(parts[0]) > 1:
            half = (len(parts[0]) + 1) // 2
            rest = len(parts[0]) - half
            merged = combine(*(p[:rest] for p in parts), *(p[half:] for p in parts))
            parts = [
                np.concatenate([np.asarray(new, old.dtype), old[rest:half]])
                for new, old in zip(merged, parts, strict=True)
            ]
        back = np.argsort([*axes, *kept])
        for part, (storage, index) in zip(parts, results, strict=True):
            grid = part[0].reshape([1] * len(axes) + [shape[d] for d in kept])
            full = np.broadcast_to(grid.transpose(back), shape).reshape(-1)
            storage.store(index, full, mask)

    def counted(
        self, count: AccessCount, scope: str, storage: Storage, index: Any, mask: Mask
    ) -> Any:
        """`index`, after adding its access to `count`: shared-memory passes or global sectors."""
        places = np.asarray(index, np.int64)
        lanes = places.shape[1] if places.ndim == 2 else 1
        first = np.broadcast_to(places[:, 0] if places.ndim == 2 else places, self.count)
        running = np.broadcast_to(thread_mask(mask), self.count)
        if running.any():
            first, warps = first[running], self.warp_of[running]
            itemsize = storage.flat.dtype.itemsize
            if scope in ("shared", "shared.dyn"):
                lane = self.lane[running]
                count_shared(count, warps, lane, first * itemsize, lanes * itemsize)
            elif scope == "global":
                count_global(count, warps, first * itemsize, lanes * itemsize)
        return index

    def shuffle(self, op: str, lanes: Any, value: Any, offset: Any, width: Any, mask: Mask) -> Any:
        """tvm_warp_shuffle*: the value of another lane of the warp, the own value outside `width`.

        The value of a lane that does not run, or is not among the bits of `lanes`, is undefined.
        The threads that got an undefined value are marked in `poisoned`.
        """
        width = int(np.max(width))
        lane = self.in_block % WARP
        first = lane // width * width
        if op == "tvm_warp_shuffle":
            wanted = first + np.asarray(offset) % width
        else:
            wanted = lane + np.asarray(offset) * (1 if op == "tvm_warp_shuffle_down" else -1)
        inside = (wanted >= first) & (wanted < first + width)
        source = np.where(inside, self.numbers - lane + wanted, self.numbers)
        exists = self.in_block - lane + np.where(inside, wanted, lane) < self.per_block
        source = np.where(exists, source, self.numbers)
        running = np.broadcast_to(thread_mask(mask), self.count)
        taking = np.asarray(lanes, np.int64) >> (source % self.per_block % WARP) & 1 == 1
        self.poisoned = ~(exists & running[source] & taking)
        result = np.broadcast_to(value, self.count)[source]
        if self.poisoned.any():
            result[self.poisoned] = nothing(1, result.dtype)[0]
        return result


def _coordinates(number: int, tags: Sequence[str], extents: Mapping[str, int]) -> str:
    """The text of a block or thread as (x, y, z), or x where there is only one axis."""
    parts = []
    for tag in tags:
        number, part = divmod(number, extents.get(tag, 1))
        parts.append(part)
    if all(extents.get(t, 1) == 1 for t in tags[1:]):
        return str(parts[0])
    return f"({', '.join(map(str, parts))})"
