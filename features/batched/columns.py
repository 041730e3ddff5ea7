"""Compute the columns of `ansor-0.19` for one store of many candidates, as `ansor.slots` does."""

from __future__ import annotations

import numpy as np

from autosched.features.ansor.names import BUFFER_WIDTH, CURVE_POINTS, MAX_BUFFERS
from autosched.features.ansor.slots import LOOP_MULTIPLE_READ, NO_REUSE, SERIAL_MULTIPLE_READ_WRITE
from autosched.features.batched.along_loops import taken
from autosched.features.batched.forms import Flags, Forms, Ints
from autosched.features.batched.nest import Nest
from autosched.features.batched.one import Rows
from autosched.features.batched.stores import EXACT, Floats, Store, Touched, r32
from autosched.features.batched.strides import Strides
from autosched.features.walk.access import ACCESS_TYPES

_NOWHERE = np.int64(1) << 62  # sorts behind all entries of a table
_REUSES = (LOOP_MULTIPLE_READ, SERIAL_MULTIPLE_READ_WRITE, NO_REUSE)


class Tables:
    """The touch tables: what stores have touched under each loop by the time that a store is done.

    A store enters the buffer that it stores to after the buffers that it reads, or before them with
    `stored_first`.
    """

    def __init__(self, nest: Nest, stores: list[Store], *, stored_first: bool = False) -> None:
        self._nest = nest
        self._stores = stores
        self._order = slice(None, None, -1 if stored_first else 1)
        every = [b.bytes for b in nest.ops.buffers.values()]
        self.unit = min(b & -b for b in every)  # all sums of bytes are multiples of it

    def entries_of(self, store: Store) -> list[Touched]:
        """The accesses of a store in the order of their table entries."""
        return store.touched[self._order]

    def seen(self, store: Store, j: int) -> list[tuple[Store, int, Flags | None]]:
        """The stores with entries in the touch table of loop j of `store`, and their candidates.

        Each is (store, position of the loop in that store, candidates). The store itself comes
        last, with None for all candidates.
        """
        loop = store.loops[j]
        found: list[tuple[Store, int, Flags | None]] = []
        for other in self._stores:
            k = other.tables.get(loop.table)
            if other is store or k is None:
                continue
            there = other.loops[k]
            where = there.present & (other.place < store.place)
            for only in (there.only, loop.only):
                if only is not None:
                    where = where & ~only
            if where.any():
                found.append((other, k, where))
        return [*found, (store, j, None)]


def _masked(where: Flags | None, values: Ints | int) -> Ints | int:
    return values if where is None else np.where(where, values, 0)


class AccessColumns:
    """The buffer slots of all accesses of one store."""

    def __init__(self, nest: Nest, tables: Tables, store: Store, line: int) -> None:
        self._nest, self._store, self._line = nest, store, line
        self._forms: Forms = nest.forms
        self._tables = tables
        self._seen = [tables.seen(store, j) for j in range(len(store.loops))]
        self._some = np.zeros(self._forms.count, bool)
        for loop in store.loops:
            self._some |= loop.present

    def slots(self) -> Floats:
        """(90, candidates): the five slots with the most cache lines, in falling order."""
        touched = self._store.touched
        block = np.empty((len(touched), BUFFER_WIDTH, self._forms.count))
        for access, rows in zip(touched, block, strict=True):
            for column, values in enumerate(self._columns(access)):
                rows[column] = values
        order = np.lexsort((-block[:, 3], -block[:, 5]), axis=0)[:MAX_BUFFERS]
        result = np.zeros((MAX_BUFFERS, *block.shape[1:]))
        if (order == order[:, :1]).all():
            result[: len(order)] = block[order[:, 0]]
        else:
            result[: len(order)] = np.take_along_axis(block, order[:, None, :], axis=0)
        return result.reshape(-1, self._forms.count)

    def _columns(self, access: Touched) -> list[Floats]:
        eb = self._nest.ops.buffers[access.buffer].bytes
        one = np.ones(self._forms.count)
        zero = np.zeros(self._forms.count)
        total = r32(self._store.product * eb)
        kind, dis_iter, dis_bytes, reuse = self.reuse(access)
        unique = np.where(self._some, r32(r32(self._oldest(access)) * eb), eb)
        lines, stride = self._lines(access, eb)
        unique_lines = np.where(self._some, self._unique_lines(access, unique, eb), 1.0)
        totals = [total, unique, lines, unique_lines]
        safe = np.where(reuse > 0.5, reuse, 1.0)
        per = [np.where(reuse > 0.5, r32(x / safe), r32(x * 2)) for x in totals]
        return [
            *(one if access.kind == k else zero for k in ACCESS_TYPES),
            *totals,
            *((kind == k).astype(np.float64) for k in range(len(_REUSES))),
            *(dis_iter, dis_bytes, reuse),
            *per,
            stride,
        ]

    def _oldest(self, access: Touched) -> Ints:
        """The elements of the buffer in its first entry under the outermost loop."""
        found, done = self._forms.zero, ~self._some
        for j, loop in enumerate(self._store.loops):
            here = loop.present & ~done
            if not here.any():
                continue
            first = self._store.place
            size = access.sizes[j]
            for other, k, where in self._seen[j]:
                theirs = _of(other, access.buffer)
                if where is not None and theirs is not None:
                    earlier = where & (other.place < first)
                    size = np.where(earlier, theirs.sizes[k], size)
                    first = np.where(earlier, other.place, first)
            found, done = np.where(here, size, found), done | here
        return found

    def reuse(self, access: Touched) -> tuple[Ints, Floats, Floats, Floats]:
        """Kind of reuse (an index into `_REUSES`), distance in iterations and in bytes, and
        count."""
        forms = self._forms
        kind = forms.full(2)
        dis_iter, dis_bytes = np.zeros(forms.count), np.zeros(forms.count)
        count = np.zeros(forms.count)
        iterations, touched = np.ones(forms.count), np.full(forms.count, -1.0)
        done = np.zeros(forms.count, bool)
        for j in range(len(self._store.loops) - 1, -1, -1):
            loop = self._store.loops[j]
            active = loop.present & ~done
            if not active.any():
                continue
            used = access.uses(loop.slot, forms.count)
            again = active & ~used
            if again.any():
                first = again & (touched < 0)
                bytes_once = self._elements(j) if first.any() else touched
                kind = np.where(again, 0, kind)
                dis_iter = np.where(again, iterations, dis_iter)
                dis_bytes = np.where(again, np.where(first, bytes_once, touched), dis_bytes)
                count = np.where(again, loop.extent, count)
            active = active & used
            iterations = np.where(active, r32(iterations * loop.extent), iterations)
            touched = np.where(active, self._bytes(j, active), touched)
            if len(self._seen[j]) == 1:  # no store but this one
                done = done | again
                continue
            times, nearest = self._mine(access, j)
            serial = active & (times > 1)
            if serial.any():
                kind = np.where(serial, 1, kind)
                dis_iter = np.where(serial, r32(nearest / loop.extent), dis_iter)
                dis_bytes = np.where(serial, r32(touched / loop.extent), dis_bytes)
                count = np.where(serial, times - 1, count)
            done = done | again | serial
        return kind, dis_iter, dis_bytes, count

    def _elements(self, j: int) -> Floats:
        """The sum over all entries in the table of loop j of the bytes of one element."""
        total = self._forms.zero
        for other, _, where in self._seen[j]:
            every = sum(self._nest.ops.buffers[a.buffer].bytes for a in other.touched)
            total = total + _masked(where, every)
        return total.astype(np.float64)

    def _bytes(self, j: int, needed: Flags) -> Floats:
        """The bytes of all entries in the table of loop j, added up in single precision."""
        total = self._forms.zero
        for other, k, where in self._seen[j]:
            total = total + _masked(where, other.memory[k])
        found: Floats = total.astype(np.float64)
        rounded = np.flatnonzero(needed & (total > EXACT * self._tables.unit))
        if len(rounded):
            found[rounded] = self._one_by_one(j, rounded)
        return found

    def _one_by_one(self, j: int, rows: Rows) -> Floats:
        """`_bytes` of the candidates `rows`, one entry after the other.

        The entries go buffer by buffer, in the order in which the buffers came into the table.
        """
        most = max(len(other.touched) for other, _, _ in self._seen[j])
        sizes, places, buffers = [], [], []
        for other, k, where in self._seen[j]:
            for n, access in enumerate(self._tables.entries_of(other)):
                size = access.sizes[k][rows] * self._nest.ops.buffers[access.buffer].bytes
                place = other.place[rows] * most + n
                sizes.append(r32(size if where is None else size * where[rows]))
                places.append(place if where is None else np.where(where[rows], place, _NOWHERE))
                buffers.append(access.buffer)
        first = []
        for buffer in buffers:
            own = [p for p, other in zip(places, buffers, strict=True) if other == buffer]
            first.append(np.min(own, axis=0))
        order = np.lexsort((np.stack(places), np.stack(first)), axis=0)
        total: Floats = np.zeros(len(rows))
        for size in taken(np.stack(sizes), order):
            total = r32(total + size)
        return total

    def _mine(self, access: Touched, j: int) -> tuple[Ints, Ints]:
        """The number of the buffer's entries in the table of loop j, and the smallest of them."""
        times, nearest = self._forms.one, access.sizes[j]
        for other, k, where in self._seen[j]:
            theirs = _of(other, access.buffer)
            if where is not None and theirs is not None:
                times = times + where
                nearest = np.where(where, np.minimum(nearest, theirs.sizes[k]), nearest)
        return times, nearest

    def _lines(self, access: Touched, eb: int) -> tuple[Floats, Floats]:
        """Cache lines, and the stride along the innermost loop (0 if that loop has none)."""
        forms, loops = self._forms, self._store.loops
        shape = self._nest.shapes[access.buffer]
        strides = Strides(forms, access, shape)
        stride, reported = forms.zero, forms.zero
        ratio, innermost = np.ones(forms.count), forms.zero
        done = np.zeros(forms.count, bool)
        for j in range(len(loops) - 1, -1, -1):
            loop = loops[j]
            active = loop.present & ~done
            if not active.any():
                continue
            here = strides.along(loop.slot)
            hit = active & (here != 0)
            stride = np.where(hit, here, stride)
            reported = np.where(hit & (innermost == 0), here, reported)
            done = done | hit
            innermost = np.where(active & (innermost == 0), loop.extent, innermost)
            ratio = np.where(active & ~hit, ratio * innermost, ratio)
        forms.refuse(ratio > 1 << 53, "a product of extents above 2**53")
        fraction = np.minimum(1.0, r32(r32(r32(stride) * eb) / self._line))
        lines = np.maximum(1.0, r32(r32(self._store.product / r32(ratio)) * fraction))
        return np.where(self._some, lines, 1.0), reported.astype(np.float64)

    def _unique_lines(self, access: Touched, unique: Floats, eb: int) -> Floats:
        region = self._store.touched[-1].regions  # quirk: the stored buffer's, for every access
        shape = self._nest.shapes[access.buffer]
        contiguous = np.full(self._forms.count, float(eb))
        done = np.zeros(self._forms.count, bool)
        for d in range(min(len(region), len(shape)) - 1, -1, -1):
            hit = ~done & (region[d] == shape[d])
            contiguous = np.where(hit, r32(contiguous * region[d]), contiguous)
            done = done | hit
        return np.maximum(1.0, r32(unique / np.minimum(contiguous, float(self._line))))


def _of(store: Store, buffer: int) -> Touched | None:
    return next((a for a in store.touched if a.buffer == buffer), None)


def intensity(store: Store, float_ops: Ints, count: int) -> Floats:
    """(10, candidates): operations per byte where k/10 of the operations are done."""
    if not store.loops:
        return np.zeros((CURVE_POINTS, count))
    ops = float_ops.astype(np.float64)
    done: list[Floats] = []
    some, before = np.zeros(count, bool), np.zeros(count, np.int64)
    outermost = np.zeros(count, np.int64)  # at the last loop, `done` may be rounded to below x
    for loop in reversed(store.loops):
        ops = ops * loop.extent
        outermost = np.where(loop.present, len(done), outermost)
        done.append(r32(ops))
        some = some | loop.present
        before = before + ~some
    table = np.stack(done)
    memory = np.stack([r32(m) for m in reversed(store.memory)])
    curve = r32(table / memory)
    rows, every = [], np.arange(count)
    for k in range(1, CURVE_POINTS + 1):
        x = r32(r32(table[-1] * k) / 10)
        at = np.minimum((table < x - 1e-4).sum(axis=0), outermost)
        below = np.maximum(at - 1, 0)
        here = curve[np.minimum(np.maximum(at, before), len(table) - 1), every]
        last, start = curve[below, every], table[below, every]
        gap = r32(table[at, every] - start)
        slope = r32(r32(here - last) / np.where(gap == 0, 1.0, gap))
        rows.append(np.where(at <= before, here, r32(last + r32(slope * r32(x - start)))))
    return np.where(some & (ops > 0), np.stack(rows), 0.0)
