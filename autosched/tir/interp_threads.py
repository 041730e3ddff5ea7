"""Threads of the interpreter: one kernel's threads advance together, statement by statement.

Threads are numbered with threadIdx.x fastest, then threadIdx.y, threadIdx.z, then the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from autosched.tir.dtype import DType
from autosched.tir.interp_memory import (
    Array,
    InterpreterError,
    Mask,
    RaceTracker,
    Storage,
    thread_mask,
)

THREAD_TAGS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
BLOCK_TAGS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
WARP_SIZE = 32
_THREADS_AT_ONCE = 1 << 15


def fresh_array(count: int, dtype: np.dtype[Any]) -> Array:
    """Storage whose content means nothing: all bits set, which is NaN for floats, -1 for ints."""
    if dtype == np.bool_:
        return np.ones(count, dtype)
    return np.full(count * dtype.itemsize, 255, np.uint8).view(dtype)


def allocate(name: str, extents: Sequence[Any], lanes: int, dtype: DType) -> Storage:
    """Storage outside of kernels, or global storage inside."""
    return Storage(name, fresh_array(_count(name, extents) * lanes, dtype.numpy))


def _count(name: str, extents: Sequence[Any]) -> int:
    count = 1
    for extent in extents:
        count *= int(np.max(extent))
    if count < 0:
        raise InterpreterError(f"{name}: the allocated extents {tuple(extents)} are negative")
    return count


class Threads:
    """The threads of some blocks of one kernel."""

    def __init__(self, extents: Mapping[str, int], blocks: Array, check_races: bool) -> None:
        self.extents = extents
        self.per_block = int(np.prod([extents.get(t, 1) for t in THREAD_TAGS]))
        self.blocks = blocks
        self.count = blocks.size * self.per_block
        number = np.arange(self.count)
        self.in_block = number % self.per_block
        self.block_of = number // self.per_block
        self.warps_per_block = -(-self.per_block // WARP_SIZE)
        self.warp_of = self.block_of * self.warps_per_block + self.in_block // WARP_SIZE
        self._numbers = number
        self._check_races = check_races
        self._trackers: list[RaceTracker] = []

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

    def allocate(
        self, name: str, extents: Sequence[Any], lanes: int, dtype: DType, scope: str
    ) -> Storage:
        """Storage of `scope` for every thread, warp or block."""
        count = _count(name, extents) * lanes
        rank = scope.partition(".")[0]
        if rank == "global":
            return Storage(name, fresh_array(count, dtype.numpy))
        if rank == "shared":
            instances, owner = self.blocks.size, self.block_of
        elif rank == "warp":
            instances, owner = self.blocks.size * self.warps_per_block, self.warp_of
        else:
            return Storage(
                name, fresh_array(count * self.count, dtype.numpy), self.count, self._numbers
            )
        tracker = None
        if self._check_races and rank == "shared":
            places = count * instances
            tracker = RaceTracker(places, dtype.bytes, self._numbers, self.warp_of)
            self._trackers.append(tracker)
        flat = fresh_array(count * instances, dtype.numpy)
        return Storage(name, flat, instances, owner, tracker)

    def barrier(self, scope: str, mask: Mask) -> None:
        """tvm_storage_sync: all threads of each block (warp) that take part meet."""
        mask = thread_mask(mask)
        if mask is not True and mask.shape != (1,):
            groups = self.warp_of if scope == "warp" else self.block_of
            present = np.bincount(groups, weights=mask)
            sizes = np.bincount(groups)
            if ((present != 0) & (present != sizes)).any():
                raise InterpreterError(
                    f'tvm_storage_sync("{scope}") is reached by only some threads of a '
                    f"{'warp' if scope == 'warp' else 'block'}"
                )
        for tracker in self._trackers:
            if scope == "warp":
                tracker.warp_barrier()
            else:
                tracker.barrier()

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
        """tvm_thread_allreduce: combines the values of the threads along `tags`.

        Every thread of a group gets the result; threads where `condition` or the mask fails
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

    def shuffle(self, op: str, value: Any, offset: Any, width: Any) -> Any:
        """tvm_warp_shuffle*: the value of another lane of the warp, own value outside `width`."""
        width = int(np.max(width))
        lane = self.in_block % WARP_SIZE
        first = lane // width * width
        if op == "tvm_warp_shuffle":
            wanted = first + np.asarray(offset) % width
        else:
            wanted = lane + np.asarray(offset) * (1 if op == "tvm_warp_shuffle_down" else -1)
        source = self._numbers - lane + wanted
        valid = (wanted >= first) & (wanted < first + width)
        valid &= source // self.per_block == self.block_of
        source = np.where(valid, source, self._numbers)
        return np.broadcast_to(value, self.count)[source]


def chunks(extents: Mapping[str, int], check_races: bool) -> Iterator[Threads]:
    """All blocks of a grid, as many at once as stay within a bounded number of threads."""
    blocks = int(np.prod([extents.get(t, 1) for t in BLOCK_TAGS]))
    per_block = int(np.prod([extents.get(t, 1) for t in THREAD_TAGS]))
    step = max(1, _THREADS_AT_ONCE // max(per_block, 1))
    for start in range(0, blocks, step):
        yield Threads(extents, np.arange(start, min(start + step, blocks)), check_races)
