"""Memory of the interpreter: checked loads and stores for many threads at once.

Memory of which every thread (or block, or warp) has an instance is one NumPy array with all
instances. An index is a Python int (the same for all threads), an array (threads,), or for vectors
an array (threads or 1, lanes). A mask is True (all threads run) or a bool array (threads,) or
(threads or 1, lanes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from autosched.tir.interp_shadow import Shadow
    from autosched.tir.stmt import Stmt

Array = np.ndarray[Any, Any]
Mask = Any  # True or a bool array


class InterpreterError(RuntimeError):
    """The function did something undefined; notes give the thread and the statement.

    `thread` is the number of a thread that did it, among those that run at once, if known. `where`
    is that thread in words and `stmt` the statement; both are set while the error propagates.
    """

    def __init__(self, message: str, thread: int | None = None) -> None:
        super().__init__(message)
        self.thread = thread
        self.where: str | None = None
        self.stmt: Stmt | None = None


class AccessError(InterpreterError):
    """An index outside the storage or the region realised for it."""


class RaceError(InterpreterError):
    """Threads accessed an element without a barrier in between, or stored different values."""


class UninitialisedError(InterpreterError):
    """An element was read that nothing had written."""


class AlignmentError(InterpreterError):
    """A vector access or asynchronous copy at an address that is not a multiple of its size."""


class CopyError(InterpreterError):
    """Memory was accessed while an asynchronous copy to or from it was unfinished."""


class BarrierError(InterpreterError):
    """A barrier that only some threads of a block (or warp) reach."""


class WarpError(InterpreterError):
    """An operation of a whole warp that some lanes do not run, or run with other arguments."""


class TooLargeError(InterpreterError):
    """A watched run exceeded its time limit."""


def thread_mask(mask: Mask) -> Mask:
    """A mask (threads,) from one that may have a lane axis: True if any lane is."""
    return mask.any(axis=1) if mask is not True and mask.ndim == 2 else mask


def combine_masks(mask: Mask, condition: Any) -> Mask:
    """The conjunction of both; a lane axis is added to the one that lacks it."""
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

    `flat` holds the elements of all instances. `owner` gives each thread's instance; None when
    there is one instance for all threads. `private` memory, which no two threads share, cannot be
    viewed as a type of another size. `shadow` records the accesses, None if nothing does.
    """

    __slots__ = (
        *("_base", "_bases", "_step", "flat", "instances", "name", "owner", "private", "rows"),
        *("shadow", "size"),
    )

    def __init__(
        self,
        name: str,
        flat: Array,
        instances: int = 1,
        owner: Array | None = None,
        shadow: Shadow | None = None,
        private: bool = False,
    ) -> None:
        self.name = name
        self.flat = flat
        self.instances = instances
        self.owner = owner
        self.shadow = shadow
        self.private = private
        self.size = flat.size // instances
        # Private memory is stored element by element, so that one index of all threads is a row;
        # other memory instance by instance, so that it can be viewed as another type.
        self._step = instances if private else 1
        self._base = owner if owner is None or private else owner * self.size
        self.rows = flat.reshape(self.size, instances) if private else flat
        self._bases: dict[tuple[int, int], Array] = {}

    def view(self, dtype: np.dtype[Any]) -> Storage:
        """The same bytes as elements of `dtype`."""
        if dtype == self.flat.dtype:
            return self
        if self.private and self.instances > 1 and dtype.itemsize != self.flat.dtype.itemsize:
            raise InterpreterError(
                f"{self.name}: memory per thread of {self.flat.dtype} cannot be viewed as {dtype}"
            )
        if self.size * self.flat.dtype.itemsize % dtype.itemsize:
            raise InterpreterError(
                f"{self.name}: {self.size} elements of {self.flat.dtype} cannot be viewed as "
                f"{dtype}: their bytes are no multiple of {dtype.itemsize}"
            )
        seen, owner = self.flat.view(dtype), self.owner
        return Storage(self.name, seen, self.instances, owner, self.shadow, self.private)

    def load(self, index: Any, mask: Mask) -> Any:
        """The elements at `index`; lanes outside `mask` get arbitrary elements."""
        if isinstance(index, int):
            self._check_one(index)
            if self._step > 1:
                if self.shadow is not None:
                    self.shadow.read_row(self, index, mask)
                return self.rows[index]
            if self.shadow is not None:
                self.shadow.read(self, self._places(np.asarray(index)), thread_mask(mask))
            if self.owner is None:
                return self.flat[index]
            return self.flat[self._places(np.asarray(index))]
        index = np.asarray(index, dtype=np.int64)
        if mask is not True:
            active = self._mask_like(mask, index)
            if active is not True:
                index = np.where(active, index, 0)
        self._check(index)
        places = self._places(index)
        if self.shadow is not None:
            self.shadow.read(self, places, self._mask_like(mask, places))
        return self.flat[places]

    def load_sum(
        self, of_threads: Array, shared: int, mask: Mask, inside: bool, lanes: Array | None = None
    ) -> Any:
        """The elements at `of_threads + shared`; `inside` says that they are within bounds.

        For a vector, `lanes` are added to that index. Both arrays must outlive this storage, which
        caches by their ids.
        """
        if not inside:
            index = of_threads + shared
            return self.load(index if lanes is None else index[:, None] + lanes, mask)
        key = (id(of_threads), id(lanes))
        base = self._bases.get(key) if self.owner is not None else None
        if base is None:
            base = of_threads if lanes is None else of_threads[:, None] + lanes
            base = self._places(base)
            if self.owner is not None:
                self._bases[key] = base
        places = base + shared * self._step
        if self.shadow is not None:
            name = (*key, shared) if mask is True else None
            self.shadow.read(self, places, self._mask_like(mask, places), name)
        return self.flat.take(places)

    def store(self, index: Any, value: Any, mask: Mask) -> None:
        """Store `value` at `index` where `mask` holds."""
        if self._step > 1 and isinstance(index, int) and np.ndim(value) <= 1:
            self._check_one(index)
            mask = thread_mask(mask)
            if self.shadow is not None:
                self.shadow.write_row(self, index, mask)
            if mask is True:
                self.rows[index] = value
            else:
                np.copyto(self.rows[index], value, where=mask, casting="unsafe")
            return
        index = np.asarray(index, dtype=np.int64)
        value = np.asarray(value)
        if self._step > 1 and mask is True and index.ndim == 2 and len(index) == 1:
            self._check(index)
            self._store_rows(index[0], value)
            return
        if index.ndim == 2 and value.ndim == 1:
            value = value[:, None]
        if index.ndim < value.ndim and index.ndim == 1:
            index = index[:, None]
        active = self._mask_like(mask, index if index.ndim >= value.ndim else value)
        places = self._places(index)
        if active is not True or (value.ndim and places.shape != value.shape):
            shape = np.broadcast_shapes(places.shape, value.shape, np.shape(active))
            index, places, value = (np.broadcast_to(x, shape) for x in (index, places, value))
        if active is not True:
            active = np.broadcast_to(active, shape)
            if not active.any():
                return
        self._check(index, active)
        if self.shadow is not None:
            self.shadow.write(self, places, active)
        if active is not True:
            places, value = places[active], value[active]
        self.flat[places] = value
        if self._step == 1:
            self._check_agreement(places, value)

    def _store_rows(self, index: Array, value: Array) -> None:
        """Store a vector at the elements `index` of every thread's instance of private memory."""
        if self.shadow is not None:
            for k in index.tolist():
                self.shadow.write_row(self, k, True)
        self.rows[index] = value.T if value.ndim == 2 else value

    def cells(self, offset: Any, thread: int) -> Array:
        """The elements from `offset` on in the instance of thread number `thread`."""
        if isinstance(offset, np.ndarray):
            offset = offset.reshape(-1)[thread if offset.size > 1 else 0]
        if self.owner is None:
            return self.flat[int(offset) :]
        instance = int(self.owner[thread])
        if self.private:
            return self.rows[int(offset) :, instance]
        return self.flat[instance * self.size : (instance + 1) * self.size][int(offset) :]

    def noted_load(self, index: int, mask: Mask) -> int:
        """`index`, after noting in the shadow that all threads of `mask` read it."""
        if self.shadow is not None:
            self.shadow.read(self, np.asarray(index), thread_mask(mask))
        return index

    def noted_store(self, index: int, mask: Mask) -> int:
        """`index`, after noting in the shadow that all threads of `mask` write it."""
        if self.shadow is not None:
            self.shadow.write(self, np.asarray(index), thread_mask(mask))
        return index

    def forget(self, index: Any, poisoned: Array, mask: Mask) -> None:
        """Mark the elements at `index` of the `poisoned` threads of `mask` as uninitialised."""
        if self.shadow is not None and poisoned.any():
            places = self._places(np.asarray(index, dtype=np.int64))
            self.shadow.forget(self, places, combine_masks(thread_mask(mask), poisoned))

    def places(self, index: Array) -> Array:
        """The positions in `flat` of `index`, which has a value per thread (and lane)."""
        return self._places(index)

    def element(self, place: int) -> int:
        """The index, within its instance, of position `place` in `flat`."""
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

    def _check(self, index: Array, active: Mask = True) -> None:
        # As uint64, negative indices are large.
        if not index.size or index.view(np.uint64).max() < self.size:
            return
        wrong = (index < 0) | (index >= self.size)
        if active is not True:
            wrong &= active
        if wrong.any():
            k = int(np.argmax(wrong.reshape(-1)))
            message = _out_of_bounds(self.name, int(index.reshape(-1)[k]), 0, self.size)
            raise AccessError(message, _row(wrong, k))

    def _check_agreement(self, places: Array, value: Array) -> None:
        found = self.flat[places]
        wanted = value.astype(found.dtype, copy=False)
        wrong = found != wanted
        if not wrong.any():
            return
        wrong &= ~((found != found) & (wanted != wanted))  # equal NaNs agree
        if wrong.any():
            place = self.element(int(places[wrong].flat[0]))
            raise RaceError(
                f"{self.name}[{place}] (flat index): several threads or lanes store different "
                "values there in one statement"
            )


def nothing(count: int, dtype: np.dtype[Any]) -> Array:
    """Elements with undefined content: all bits set, which is NaN for floats and -1 for ints."""
    if dtype == np.bool_:
        return np.ones(count, dtype)
    return np.full(count * dtype.itemsize, 255, np.uint8).view(dtype)


def _row(wrong: Array, k: int) -> int | None:
    """The thread of flat position `k` in an array (threads,) or (threads, lanes).

    None when the array has a single row, which stands for all threads.
    """
    return k // (wrong.shape[1] if wrong.ndim == 2 else 1) if len(wrong) > 1 else None


def _out_of_bounds(name: str, index: int, low: Any, high: Any, dim: int | None = None) -> str:
    where = "flat index" if dim is None else f"index in dimension {dim}"
    return f"access out of bounds: {name}, {where} {index} is not in [{low}, {high})"


def out_of_bounds(name: str, dim: int | None, index: int, low: int, high: int) -> int:
    """Raise the AccessError of one index; the return type only lets callers use it as an int."""
    raise AccessError(_out_of_bounds(name, index, low, high, dim))


def checked(name: str, dim: int, index: Any, low: Any, high: Any, mask: Mask) -> Any:
    """`index`; AccessError unless low <= index < high for all running threads."""
    if np.ndim(index) == 2:
        low, high = (x[:, None] if np.ndim(x) == 1 else x for x in (low, high))
    wrong = (index < low) | (index >= high)
    if mask is not True:
        if np.ndim(wrong) < 2:
            mask = thread_mask(mask)
        wrong = combine_masks(mask, wrong)
    if np.any(wrong):
        wrong = np.asarray(wrong)
        which = int(np.argmax(wrong.reshape(-1)))
        index, low, high = (
            int(np.broadcast_to(x, np.shape(wrong)).reshape(-1)[which]) for x in (index, low, high)
        )
        row = _row(wrong, which) if wrong.ndim else None
        raise AccessError(_out_of_bounds(name, index, low, high, dim), row)
    return index
