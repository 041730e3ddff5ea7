"""Memory of the interpreter: checked loads and stores for many threads at once, and races.

Memory that every thread (or block, or warp) has for itself is one NumPy array that holds all the
instances. An index is a Python
int (the same for all threads), an array (threads,), or for vectors (threads or 1, lanes). A mask
is True (all threads run) or a bool array (threads,) or (threads or 1, lanes).
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Mask = Any  # True or a bool array

_NOBODY, _MANY, _SYNCED = -1, -2, -3


class InterpreterError(RuntimeError):
    """The function did something that has no meaning; notes carry the statement."""


class AccessError(InterpreterError):
    """An index outside the storage or the region realised for it."""


class RaceError(InterpreterError):
    """Threads touched one element with no barrier between them, or stored different values."""


def thread_mask(mask: Mask) -> Mask:
    """A mask per thread from one that may have a lane axis."""
    return mask.any(axis=1) if mask is not True and mask.ndim == 2 else mask


def combine_masks(mask: Mask, condition: Any) -> Mask:
    """Where both hold; a lane axis is added to the one that lacks it."""
    if condition is True:
        return mask
    condition = np.asarray(condition)
    if condition.ndim == 0:
        condition = condition.reshape(1)
    if mask is True:
        return condition
    if condition.ndim == 2 and mask.ndim == 1:
        mask = mask[:, None]
    elif mask.ndim == 2 and condition.ndim == 1:
        condition = condition[:, None]
    return np.logical_and(mask, condition)


class Storage:
    """One allocation, or a view of it as another type.

    `owner` gives each thread's instance; None when there is one instance for all.
    """

    __slots__ = ("_base", "_step", "flat", "instances", "name", "owner", "rows", "size", "tracker")

    def __init__(
        self,
        name: str,
        flat: Array,
        instances: int = 1,
        owner: Array | None = None,
        tracker: RaceTracker | None = None,
    ) -> None:
        self.name = name
        self.flat = flat
        self.instances = instances
        self.owner = owner
        self.tracker = tracker
        self.size = flat.size // instances
        # Private memory lies element by element, so that one index of all threads is one row;
        # other memory instance by instance, so that it can be viewed as another type.
        private = self.private
        self._step = instances if private else 1
        self._base = owner if owner is None or private else owner * self.size
        self.rows = flat.reshape(self.size, instances) if private else flat

    @property
    def private(self) -> bool:
        """True when no two threads share an instance."""
        return self.owner is not None and self.instances == self.owner.size

    def view(self, dtype: np.dtype[Any]) -> Storage:
        """The same bytes as elements of `dtype`."""
        if dtype == self.flat.dtype:
            return self
        if self.private and self.instances > 1 and dtype.itemsize != self.flat.dtype.itemsize:
            raise InterpreterError(
                f"{self.name}: memory per thread of {self.flat.dtype} cannot be viewed as {dtype}"
            )
        return Storage(self.name, self.flat.view(dtype), self.instances, self.owner, self.tracker)

    def load(self, index: Any, mask: Mask) -> Any:
        """The elements at `index`; lanes outside `mask` get some element."""
        if isinstance(index, int):
            self._check_one(index)
            if self.tracker is not None:
                self.tracker.read(self, self._places(np.asarray(index)), thread_mask(mask))
            if self.owner is None:
                return self.flat[index]
            if self._step > 1:
                return self.rows[index]
            return self.flat[self._places(np.asarray(index))]
        index = np.asarray(index, dtype=np.int64)
        if mask is not True:
            active = self._mask_like(mask, index)
            if active is not True:
                index = np.where(active, index, 0)
        self._check(index)
        places = self._places(index)
        if self.tracker is not None:
            self.tracker.read(self, places, self._mask_like(mask, places))
        return self.flat[places]

    def store(self, index: Any, value: Any, mask: Mask) -> None:
        """Stores `value` at `index` where `mask` holds."""
        if self._step > 1 and isinstance(index, int) and np.ndim(value) <= 1:
            self._check_one(index)
            mask = thread_mask(mask)
            if mask is True:
                self.rows[index] = value
            else:
                np.copyto(self.rows[index], value, where=mask, casting="unsafe")
            return
        index = np.asarray(index, dtype=np.int64)
        value = np.asarray(value)
        if index.ndim == 2 and value.ndim == 1:
            value = value[:, None]
        if index.ndim < value.ndim and index.ndim == 1:
            index = index[:, None]
        active = self._mask_like(mask, index if index.ndim >= value.ndim else value)
        places = self._places(index)
        shape = np.broadcast_shapes(places.shape, value.shape, np.shape(active))
        index, places, value = (np.broadcast_to(x, shape) for x in (index, places, value))
        if active is not True:
            active = np.broadcast_to(active, shape)
            if not active.any():
                return
        self._check(index if active is True else index[active])
        if self.tracker is not None:
            self.tracker.write(self, places, active)
        if active is not True:
            places, value = places[active], value[active]
        self.flat[places] = value
        if self._step == 1:
            self._check_agreement(places, value)

    def cells(self, offset: Any, thread: int) -> Array:
        """The elements from `offset` on, as thread number `thread` sees them."""
        if isinstance(offset, np.ndarray):
            offset = offset.reshape(-1)[thread if offset.size > 1 else 0]
        if self.owner is None:
            return self.flat[int(offset) :]
        instance = int(self.owner[thread])
        if self.private:
            return self.rows[int(offset) :, instance]
        return self.flat[instance * self.size : (instance + 1) * self.size][int(offset) :]

    def element(self, place: int) -> int:
        """The index, within its instance, of a place in the flat array."""
        return place // self._step % self.size

    def _places(self, index: Array) -> Array:
        if self._base is None:
            return index
        base = self._base[:, None] if index.ndim == 2 else self._base
        places: Array = index * self._step + base
        return places

    def _mask_like(self, mask: Mask, index: Array) -> Mask:
        if mask is True:
            return True
        if index.ndim == 2:
            return mask if mask.ndim == 2 else mask[:, None]
        return thread_mask(mask)

    def _check_one(self, index: int) -> None:
        if not 0 <= index < self.size:
            raise AccessError(_out_of_bounds(self.name, index, 0, self.size))

    def _check(self, index: Array) -> None:
        if index.size and (index.min() < 0 or index.max() >= self.size):
            wrong = index[(index < 0) | (index >= self.size)].flat[0]
            raise AccessError(_out_of_bounds(self.name, int(wrong), 0, self.size))

    def _check_agreement(self, places: Array, value: Array) -> None:
        found = self.flat[places]
        wanted = value.astype(found.dtype, copy=False)
        wrong = found != wanted
        if wrong.any() and (wrong & ~((found != found) & (wanted != wanted))).any():
            place = self.element(int(places[wrong].flat[0]))
            raise RaceError(
                f"{self.name}[{place}] (flat index): several threads or lanes store different "
                "values there in one statement"
            )


def _out_of_bounds(name: str, index: int, low: Any, high: Any, dim: int | None = None) -> str:
    where = "flat index" if dim is None else f"index in dimension {dim}"
    return f"access out of bounds: {name}, {where} {index} is not in [{low}, {high})"


def out_of_bounds(name: str, dim: int | None, index: int, low: int, high: int) -> int:
    """Raises the AccessError of one index; it returns an int only for the typing of callers."""
    raise AccessError(_out_of_bounds(name, index, low, high, dim))


def checked(name: str, dim: int, index: Any, low: Any, high: Any, mask: Mask) -> Any:
    """`index` when low <= index < high holds for all running threads, else AccessError."""
    if np.ndim(index) == 2:
        low, high = (x[:, None] if np.ndim(x) == 1 else x for x in (low, high))
    wrong = (index < low) | (index >= high)
    if mask is not True:
        if np.ndim(wrong) < 2:
            mask = thread_mask(mask)
        wrong = combine_masks(mask, wrong)
    if np.any(wrong):
        which = np.argmax(np.asarray(wrong).reshape(-1))
        index, low, high = (
            int(np.broadcast_to(x, np.shape(wrong)).reshape(-1)[which]) for x in (index, low, high)
        )
        raise AccessError(_out_of_bounds(name, index, low, high, dim))
    return index


class RaceTracker:
    """Who read and wrote each element of shared memory since the last barrier.

    Two accesses by different threads race when one is a write and no barrier lies between; a
    warp barrier orders the threads of one warp only.
    """

    def __init__(self, places: int, itemsize: int, threads: Array, warps: Array) -> None:
        self._itemsize = itemsize
        self._threads, self._warps = threads, warps
        self._readers, self._writers = ((np.full((2, places), _NOBODY)) for _ in range(2))

    def barrier(self) -> None:
        """All threads have met: nothing before can race with anything after."""
        self._readers.fill(_NOBODY)
        self._writers.fill(_NOBODY)

    def warp_barrier(self) -> None:
        """The threads of each warp have met."""
        for record in (self._readers, self._writers):
            record[0][record[0] != _NOBODY] = _SYNCED

    def read(self, storage: Storage, places: Array, mask: Mask) -> None:
        """Threads in `mask` read `places`; RaceError when another thread wrote there."""
        for cells, threads, warps in self._each(storage, places, mask):
            self._refuse(storage, self._writers, cells, threads, warps, "read", "written")
            self._record(self._readers, cells, threads, warps)

    def write(self, storage: Storage, places: Array, mask: Mask) -> None:
        """Threads in `mask` write `places`; RaceError when another thread touched them."""
        for cells, threads, warps in self._each(storage, places, mask):
            self._refuse(storage, self._writers, cells, threads, warps, "written", "written")
            self._refuse(storage, self._readers, cells, threads, warps, "written", "read")
        for cells, threads, warps in self._each(storage, places, mask):
            self._record(self._writers, cells, threads, warps)

    def _each(self, storage: Storage, places: Array, mask: Mask) -> Any:
        """(cells, threads, warps) per part of an element when the view is of a wider type."""
        shape = np.broadcast_shapes(places.shape, (self._threads.size,) + (1,) * (places.ndim - 1))
        threads, warps = self._threads, self._warps
        if len(shape) == 2:
            threads, warps = threads[:, None], warps[:, None]
        arrays = [np.broadcast_to(x, shape) for x in (places, threads, warps)]
        if mask is True:
            flat = [x.reshape(-1) for x in arrays]
        else:
            flat = [x[np.broadcast_to(mask, shape)] for x in arrays]
        parts = max(1, storage.flat.dtype.itemsize // self._itemsize)
        for part in range(parts):
            yield flat[0] * parts + part, flat[1], flat[2]

    def _refuse(
        self,
        storage: Storage,
        record: Array,
        cells: Array,
        threads: Array,
        warps: Array,
        now: str,
        before: str,
    ) -> None:
        who, warp = record[0][cells], record[1][cells]
        other = (who != _NOBODY) & (who != threads) & ~((who == _SYNCED) & (warp == warps))
        if other.any():
            k = int(np.argmax(other))
            earlier = f"thread {who[k]}" if who[k] >= 0 else "several threads"
            parts = max(1, storage.flat.dtype.itemsize // self._itemsize)
            place = storage.element(int(cells[k]) // parts)
            raise RaceError(
                f"data race on {storage.name}[{place}] (flat index): {now} by thread {threads[k]}, "
                f"{before} by {earlier}, no barrier between"
            )

    def _record(self, record: Array, cells: Array, threads: Array, warps: Array) -> None:
        who, warp = record[0][cells], record[1][cells]
        record[0][cells], record[1][cells] = threads, warps
        # Threads that met at a warp barrier differ from this one only for other warps.
        new = (who == _NOBODY) | (who == threads) | ((who == _SYNCED) & (warp == warps))
        record[0][cells[~new | (record[0][cells] != threads)]] = _MANY
        other = ((warp != _NOBODY) & (warp != warps)) | (record[1][cells] != warps)
        record[1][cells[other]] = _MANY
