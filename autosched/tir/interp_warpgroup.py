"""Models operations of four warps: asynchronous products of operands in shared memory (wgmma).

A product reads its tiles when it begins, so that races with later writes are detected, and again
when it must be finished, with the values that the tiles hold then. Until then its sums are
unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autosched.tir.gpu import WARP
from autosched.tir.interp_memory import Array, Mask, WarpError
from autosched.tir.interp_warp import Place
from autosched.tir.warpgroup_matrix import GROUP, ROWS_OF_WARP, TILE_ALIGNMENT, GroupProduct

if TYPE_CHECKING:
    from autosched.tir.interp_threads import Threads


_NOT_ALL = "a product of four warps that not all of them run"


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    """A product that has begun, of the warpgroups where `mask` holds.

    `c` are its sums. `a` and `b` are each tile's place, and the indices of the elements that each
    thread reads for its warp.
    """

    product: GroupProduct
    mask: Mask
    c: Place
    a: tuple[Place, Array]
    b: tuple[Place, Array]


class Warpgroups:
    """The warpgroups of a set of threads, and the products that they have begun, oldest first."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._begun: list[_Begun] = []

    def multiply(self, product: GroupProduct, c: Place, a: Place, b: Place, mask: Mask) -> None:
        """ptx_wgmma: begin a product. Raises WarpError unless all four warps of a group run it."""
        threads = self._threads
        running = np.broadcast_to(np.asarray(mask), threads.count)
        if threads.per_block % (GROUP * WARP):
            raise WarpError(_NOT_ALL, 0)
        groups = running.reshape(-1, GROUP * WARP)
        missing = (groups.any(axis=1, keepdims=True) & ~groups).reshape(-1)
        if missing.any():
            raise WarpError(_NOT_ALL, int(np.argmax(missing)))
        below = ROWS_OF_WARP * (product.row if product.layout_a == "mk" else 1)
        begun = _Begun(
            product,
            mask,
            c,
            (a, self._dealt(product, self._first(a, below, running), product.place_of_a())),
            (b, self._dealt(product, self._first(b, 0, running), product.place_of_b())),
        )
        for place, elements in (begun.a, begun.b):
            place[0].load(elements, mask)
        self._begun.append(begun)
        self.wait(product.pending)

    def wait(self, pending: int) -> None:
        """ptx_wgmma_wait: finish all products except the newest `pending`."""
        while len(self._begun) > pending:
            self._finish(self._begun.pop(0))

    def _first(self, place: Place, below: int, running: Array) -> Array:
        """The index of the first element for each thread.

        Each of the four warps begins `below` elements after the one before. WarpError unless all
        `running` threads of a warpgroup agree on the tile's address, and that is aligned.
        """
        storage, at = place
        threads = self._threads
        first = np.ascontiguousarray(np.broadcast_to(np.asarray(at, np.int64), threads.count))
        group = first - threads.in_block // WARP % GROUP * below
        leader = group.reshape(-1, GROUP * WARP)[:, :1]
        wrong = (group.reshape(-1, GROUP * WARP) != leader).reshape(-1)
        unit = TILE_ALIGNMENT // storage.flat.dtype.itemsize
        found = (wrong | (group % unit != 0)) & running
        if found.any():
            raise WarpError(
                f"four warps read one tile of {storage.name}, whose address they must agree on and "
                f"which begins at a multiple of {TILE_ALIGNMENT} bytes",
                int(np.argmax(found)),
            )
        return first

    def _dealt(self, product: GroupProduct, first: Array, tile: Array) -> Array:
        """The indices of a tile's elements, distributed over the lanes of a warp.

        The result has the shape (threads, elements per lane).
        """
        lanes = tile.reshape(-1, WARP).T[self._threads.lane]
        return product.kept_at(first[:, None] + lanes)

    def _finish(self, begun: _Begun) -> None:
        product = begun.product
        rows, columns = product.lanes()
        (a, of_a), (b, of_b) = begun.a, begun.b
        left, right = (
            self._tile(place[0].load(elements, begun.mask), shape)
            for place, elements, shape in (
                (a, of_a, product.place_of_a().shape),
                (b, of_b, product.place_of_b().shape),
            )
        )
        storage, at = begun.c
        first = np.broadcast_to(np.asarray(at, np.int64), self._threads.count)
        places = first[:, None] + np.arange(product.values)
        held = np.asarray(storage.load(places, begun.mask)).reshape(-1, WARP, product.values)
        sums = np.zeros((len(held), ROWS_OF_WARP, product.columns), held.dtype)
        sums[:, rows, columns] = held
        found = product.multiply(left, right, sums)[:, rows, columns]
        storage.store(places, found.reshape(places.shape), begun.mask)

    def _tile(self, values: Array, shape: tuple[int, ...]) -> Array:
        """The tiles (warps, *shape) from the elements that each lane has read."""
        each = np.asarray(values).reshape(-1, WARP, values.shape[1])
        return each.transpose(0, 2, 1).reshape(-1, *shape)
