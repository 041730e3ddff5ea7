"""Models warp-wide operations: loads, products and stores of matrix fragments.

All 32 lanes must take part. Each value is read and written by the thread that holds it, so that the
shadow memory records which thread read what, and detects fragment values that nothing wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.tir.gpu import WARP
from autosched.tir.interp_copies import Counter, refuse_misaligned
from autosched.tir.interp_memory import Array, Mask, Storage, WarpError, thread_mask
from autosched.tir.warp_matrix import FRAGMENT_MAPS, FRAGMENT_VALUES, RESULT, Atom

if TYPE_CHECKING:
    from autosched.tir.interp_threads import Threads

Place = tuple[Storage, Any]
"""A storage and, per thread, the index of an element in it."""
_ROW_BYTES = 16


class Warps:
    """The warp-wide operations of a set of threads."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._lane = threads.in_block % WARP

    def multiply(self, atom: Atom, a: Place, b: Place, c: Place, d: Place, mask: Mask) -> None:
        """Compute d = a b + c; each place gives the first value of each lane."""
        mask = self._whole(mask)
        maps = (atom.a, atom.b, atom.c)
        values = [
            self._values(place, which.shape[1], mask)
            for place, which in zip((a, b, c), maps, strict=True)
        ]
        storage, at = d
        storage.store(self._places(at, atom.c.shape[1]), atom.multiply(*values), _wide(mask))

    def load_rows(
        self,
        target: Place,
        source: Place,
        count: int,
        transposed: bool,
        counter: Counter,
        mask: Mask,
    ) -> None:
        """ldmatrix: load `count` matrices of 8 rows of 16 bytes, at row addresses given by lanes.

        Lane l gets 4 bytes of row l // 4 of each matrix; if `transposed`, two elements of 2 bytes
        of column l // 4. Raises AlignmentError when a row address is not a multiple of 16 bytes.
        """
        mask = self._whole(mask)
        storage, at = source
        size = storage.flat.dtype.itemsize
        threads, lane = self._threads, self._lane
        first = np.broadcast_to(np.asarray(at, np.int64), threads.count)
        gives = lane < 8 * count
        gives = gives if mask is True else gives & mask
        refuse_misaligned(storage, first, _ROW_BYTES // size, _ROW_BYTES, gives)
        if counter is not None:
            rows = first[:, None] + np.arange(_ROW_BYTES // size)
            threads.counted(*counter, storage, rows, gives)
        own = 4 // size
        parts = []
        for matrix in range(count):
            for k in range(own):
                row = lane % 4 * 2 + k if transposed else lane // 4
                column = lane // 4 if transposed else lane % 4 * own + k
                giver = threads.numbers - lane + matrix * 8 + row
                parts.append(first[np.minimum(giver, threads.count - 1)] + column)
        values = storage.load(np.stack(parts, axis=1), _wide(mask))
        into, to = target
        into.store(self._places(to, count * own), values, _wide(mask))

    def zero(self, place: Place, count: int, mask: Mask) -> None:
        """ptx_mma_fill: set the first `count` values of each lane to zero."""
        mask = self._whole(mask)
        storage, at = place
        places = self._places(at, count)
        storage.store(places, np.zeros(places.shape, storage.flat.dtype), _wide(mask))

    def store_result(
        self, source: Place, target: Place, stride: Any, counter: Counter, mask: Mask
    ) -> None:
        """ptx_mma_store: store a 16 x 8 result to rows `stride` apart, two columns at once."""
        mask = self._whole(mask)
        values = self._values(source, RESULT.shape[1], mask)
        rows, columns = RESULT[self._lane].transpose(2, 0, 1)
        storage = target[0]
        first, down = (self._of_warp(x, mask, storage.name) for x in (target[1], stride))
        elements = first[:, None] + rows * down[:, None] + columns
        running = np.broadcast_to(True if mask is True else mask, self._threads.count)
        for half in range(0, RESULT.shape[1], 2):
            pair = elements[:, half : half + 2]
            size = 2 * storage.flat.dtype.itemsize
            refuse_misaligned(storage, pair[:, 0], 2, size, running)
            if counter is not None:
                self._threads.counted(*counter, storage, pair, running)
        storage.store(elements, values, _wide(mask))

    def fill(self, fragment: Place, value: Any, mask: Mask) -> None:
        """tvm_fill_fragment: set every element to `value`."""
        mask = self._whole(mask)
        storage, number = fragment
        values = np.broadcast_to(np.asarray(value), self._threads.count)[:, None]
        places = self._places(np.asarray(number) * FRAGMENT_VALUES, FRAGMENT_VALUES)
        storage.store(places, np.broadcast_to(values, places.shape), _wide(mask))

    def load(
        self, scope: str, fragment: Place, source: Place, steps: Sequence[Any], mask: Mask
    ) -> None:
        """tvm_load_matrix_sync: load a fragment; `steps` are the strides of rows and columns."""
        mask = self._whole(mask)
        storage, number = fragment
        memory = source[0]
        values = memory.load(self._elements(scope, source, steps, mask), _wide(mask))
        places = self._places(np.asarray(number) * FRAGMENT_VALUES, FRAGMENT_VALUES)
        storage.store(places, values, _wide(mask))

    def store(
        self, scope: str, fragment: Place, target: Place, steps: Sequence[Any], mask: Mask
    ) -> None:
        """tvm_store_matrix_sync: store a fragment, with `steps` as in `load`."""
        mask = self._whole(mask)
        storage, number = fragment
        values = self._values(
            (storage, np.asarray(number) * FRAGMENT_VALUES), FRAGMENT_VALUES, mask
        )
        target[0].store(self._elements(scope, target, steps, mask), values, _wide(mask))

    def _elements(self, scope: str, memory: Place, steps: Sequence[Any], mask: Mask) -> Array:
        """The indices in memory of the elements that each lane holds: (threads, values)."""
        rows, columns = FRAGMENT_MAPS[scope][self._lane].transpose(2, 0, 1)
        first, down, right = (self._of_warp(x, mask, memory[0].name) for x in (memory[1], *steps))
        elements: Array = first[:, None] + rows * down[:, None] + columns * right[:, None]
        return elements

    def _of_warp(self, value: Any, mask: Mask, name: str) -> Array:
        """An address or stride per thread; WarpError unless all lanes of a warp have the same."""
        each = np.broadcast_to(np.asarray(value, np.int64), self._threads.count)
        leader = each[self._threads.numbers - self._lane]
        wrong = (each != leader) if mask is True else (each != leader) & mask
        if wrong.any():
            raise WarpError(
                f"the lanes of a warp give different addresses or strides of {name} for one "
                "fragment",
                int(np.argmax(wrong)),
            )
        return each

    def _values(self, place: Place, count: int, mask: Mask) -> Array:
        storage, at = place
        places = self._places(at, count)
        return np.broadcast_to(np.asarray(storage.load(places, _wide(mask))), places.shape)

    def _places(self, at: Any, count: int) -> Array:
        first = np.broadcast_to(np.asarray(at, np.int64), self._threads.count)
        return first[:, None] + np.arange(count)

    def _whole(self, mask: Mask) -> Mask:
        """The mask per thread (True for all); WarpError if only some lanes of a warp run."""
        threads = self._threads
        running = np.broadcast_to(thread_mask(mask), threads.count)
        present = np.bincount(threads.warp_of, weights=running)
        partial = (present != 0) & (present != WARP)
        if partial.any():
            inside = partial[threads.warp_of]
            missing = inside & ~running
            lacking = int(WARP - present[partial][0])
            raise WarpError(
                f"an operation of a whole warp, {lacking} of whose 32 lanes do not run it",
                int(np.argmax(missing if missing.any() else inside)),
            )
        return True if running.all() else running.copy()


def _wide(mask: Mask) -> Mask:
    return True if mask is True else mask[:, None]
