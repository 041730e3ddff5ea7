"""Models asynchronous copies from global to shared memory, in groups per thread.

A value arrives only when its thread waits for its group. Until then, no thread may access its
destination or write its source. A barrier after the wait makes it visible to the other threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.tir.interp_counts import AccessCount
from autosched.tir.interp_memory import (
    AlignmentError,
    Array,
    Mask,
    Storage,
    combine_masks,
    nothing,
    thread_mask,
)

if TYPE_CHECKING:
    from autosched.tir.interp_threads import Threads


Counter = tuple[AccessCount, str] | None
"""The count that accesses are added to, and the scope of the memory; None if nothing is counted."""


@dataclass(slots=True)
class _Flight:
    """The copies that one statement has started.

    `places` and `origins` are the elements written in `target` and read in `source`, `values` the
    values that will arrive, all of shape (threads, lanes). `fetched` says for which threads the
    values come from the source (else they are zero), `group` is each thread's group, and `flying`
    says for which threads the copy is unfinished.
    """

    target: Storage
    places: Array
    values: Array
    source: Storage
    origins: Array
    fetched: Array
    group: Array
    flying: Array


class Copies:
    """The unfinished asynchronous copies of a set of threads."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._groups: Array = np.zeros(threads.count, np.int64)
        self._flights: list[_Flight] = []

    def start(
        self,
        target: Storage,
        to: Any,
        source: Storage,
        at: Any,
        size: int,
        taken: Any,
        counters: tuple[Counter, Counter],
        mask: Mask,
    ) -> None:
        """ptx_cp_async: start a copy of `size` bytes for each thread; zeros where `taken` is false.

        `counters` count the stores and the loads. Raises AlignmentError when an address is not a
        multiple of `size`.
        """
        count = self._threads.count
        lanes = size // target.flat.dtype.itemsize
        running = np.broadcast_to(thread_mask(mask), count)
        fetched = combine_masks(running, np.broadcast_to(np.asarray(taken, bool), count))
        to, at = (np.broadcast_to(np.asarray(x, np.int64), count) for x in (to, at))
        for storage, index, active in ((target, to, running), (source, at, fetched)):
            refuse_misaligned(storage, index, lanes, size, active)
        offsets = np.arange(lanes)
        for counter, storage, first, who in zip(
            counters, (target, source), (to, at), (running, fetched), strict=True
        ):
            if counter is not None:
                index = first[:, None] + offsets
                self._threads.counted(*counter, storage, index, who)
        to, at = to[:, None] + offsets, at[:, None] + offsets
        values = np.asarray(source.load(at, fetched[:, None]))
        values = np.where(fetched[:, None], np.broadcast_to(values, to.shape), 0)
        # The copy may arrive at any time until the wait: check it as a write now, and at the wait.
        values = values.astype(target.flat.dtype)
        target.store(to, values, running[:, None])
        flight = _Flight(
            target,
            target.places(to),
            values,
            source,
            source.places(at),
            fetched,
            self._groups.copy(),
            running.copy(),
        )
        self._mark(flight, running, 1)
        target.flat[flight.places[running]] = nothing(1, target.flat.dtype)[0]
        if target.shadow is not None:
            target.shadow.unwrite(target, flight.places, running[:, None])
        self._flights.append(flight)

    def commit(self, mask: Mask) -> None:
        """ptx_commit_group: the copies each thread started since the last commit form a group."""
        self._groups[slice(None) if mask is True else thread_mask(mask)] += 1

    def wait(self, newest: int, mask: Mask) -> None:
        """ptx_wait_group: all groups of each thread arrive, except the `newest` last ones."""
        waiting = np.broadcast_to(thread_mask(mask), self._groups.size)
        for flight in self._flights:
            done = flight.flying & waiting & (flight.group < self._groups - newest)
            if not done.any():
                continue
            self._mark(flight, done, -1)
            flight.flying &= ~done
            flight.target.flat[flight.places[done]] = flight.values[done]
            shadow = flight.target.shadow
            if shadow is not None:
                shadow.write(flight.target, flight.places, done[:, None])
        self._flights = [f for f in self._flights if f.flying.any()]

    def _mark(self, flight: _Flight, who: Array, change: int) -> None:
        if flight.target.shadow is not None:
            flight.target.shadow.fly(flight.target, flight.places, who[:, None], change, True)
        if flight.source.shadow is not None:
            fetching = (who & flight.fetched)[:, None]
            flight.source.shadow.fly(flight.source, flight.origins, fetching, change, False)


def refuse_misaligned(storage: Storage, index: Array, lanes: int, size: int, active: Array) -> None:
    """AlignmentError when the address of an `active` thread is not a multiple of `size` bytes.

    `index` is the first of the `lanes` elements that each thread accesses.
    """
    wrong = active & (index % lanes != 0)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise misaligned(storage.name, int(index[k]), size, k)


def misaligned(name: str, index: int, size: int, row: int | None) -> AlignmentError:
    """The error of a misaligned access of `size` bytes at element `index` (CUDA error 716).

    `row` is the thread, if known.
    """
    return AlignmentError(
        f"misaligned address: {name}[{index}] (flat index) is accessed with {size} bytes at once, "
        "and its address is not a multiple of that",
        row,
    )


def in_elements(offset: Any, part: int, lanes: int) -> Any:
    """The index of the element at byte `offset`, for elements of `part` bytes.

    AlignmentError when the byte is not the first one of an element.
    """
    offset = np.asarray(offset)
    if (offset % part != 0).any():
        raise AlignmentError(
            f"an asynchronous copy of {lanes} elements starts at byte {int(offset.max())}, which "
            f"is not a multiple of an element's {part} bytes"
        )
    return offset // part


def check_aligned(storage: Storage, index: Any, lanes: int, mask: Mask) -> Any:
    """`index` (threads or 1, lanes) of a vector access; AlignmentError if it is not aligned.

    The index of each thread's first element must be a multiple of the number of lanes.
    """
    first = np.asarray(index)[:, 0]
    wrong = first % lanes != 0
    if wrong.any() and mask is not True:
        wrong = combine_masks(thread_mask(mask), wrong)
    if wrong.any():
        k = int(np.argmax(wrong))
        size = lanes * storage.flat.dtype.itemsize
        where = int(np.broadcast_to(first, wrong.shape)[k])
        raise misaligned(storage.name, where, size, k if wrong.size > 1 else None)
    return index
