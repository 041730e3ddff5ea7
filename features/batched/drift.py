"""The product of the loops around each store where single precision rounds it.

The walk of one candidate multiplies its product when it enters a loop and divides it when it leaves
(`walk/visitor.py`). Beyond 2**24 that need not restore it, and what comes next meets another one:
for such candidates the way through the loops is followed, one candidate at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from autosched.features.batched.one import Rows
from autosched.features.walk.scope import f32

if TYPE_CHECKING:
    from autosched.features.batched.nest import Nest
    from autosched.features.batched.stores import Store

_Way = list[tuple[int, int]]
"""The loops around a store, outermost first: their slots and extents."""


def follow(nest: Nest, stores: Sequence[tuple[int, Store]], rows: Rows) -> None:
    """Put the products of the candidates `rows`, and those outside of storage, into the stores.

    Each store comes with the number of its stage.
    """
    ways, depths = zip(*[_ways(nest, s, store, rows) for s, store in stores], strict=True)
    places = np.stack([store.place[rows] for _, store in stores])
    for _, store in stores:  # the two may be one array
        store.product, store.outside = store.product.copy(), store.outside.copy()
    for n, (row, order) in enumerate(zip(rows, places.argsort(axis=0).T, strict=True)):
        products, left = _followed([ways[k][n] for k in order])
        for k, product in zip(order, products, strict=True):
            store, outer = stores[k][1], ways[k][n][: depths[k][n]]
            store.product[row] = product
            store.outside[row] = left[tuple([loop for loop, _ in outer])]


def _ways(nest: Nest, s: int, store: Store, rows: Rows) -> tuple[list[_Way], list[int]]:
    """All loops around a store of stage s, by candidate, and how many are around its storage.

    Loops that run once are among them: storage may end with one. A start has loops of its own
    where its sum has one that reduces, and shares none inside of that.
    """
    ways: list[_Way] = [[] for _ in rows]
    extents = nest.forms.extents
    for t in range(len(nest.ops.stages) - 1, s, -1):
        if not (nest.inside[s][t] < 0).all():
            for k, slot in enumerate(nest.stages[t].loops.slots):
                pairs = zip(nest.around(s, t, k)[rows].tolist(), extents[slot][rows].tolist())
                for way, (here, extent) in zip(ways, pairs, strict=True):
                    if here:
                        way.append((slot, extent))
    depths = list(map(len, ways))
    stage, ops = store.stage, store.ops
    own = stage.loops
    result = stage.ops.crosses and ops.into is None
    for k, slot in enumerate(own.slots):
        gone = ((stage.start <= k) & own.reducing[k] & (ops.is_init or result))[rows]
        common = (own.common == k)[rows]
        each = zip(ways, extents[slot][rows].tolist(), gone, strict=True)
        for n, (way, extent, absent) in enumerate(each):
            if ops.into is not None and common[n]:
                depths[n] = len(way)
            if not absent:
                way.append((slot, extent))
    return ways, depths


def _followed(
    ways: Sequence[_Way],
) -> tuple[list[float], dict[tuple[int, ...], float]]:
    """The product at each store, and that before each loop is left, by the loops down to it: where
    storage that is around the store ends."""
    product, around = 1.0, _Way()
    products: list[float] = []
    left: dict[tuple[int, ...], float] = {}
    for way in (*ways, []):
        common = 0
        while common < min(len(way), len(around)) and way[common][0] == around[common][0]:
            common += 1
        for depth in range(len(around), common, -1):
            left[tuple([loop for loop, _ in around[:depth]])] = product
            product = f32(product / f32(around[depth - 1][1]))
        for _, extent in way[common:]:
            product = f32(product * f32(extent))
        around = way
        products.append(product)
    left[()] = product
    return products[:-1], left
