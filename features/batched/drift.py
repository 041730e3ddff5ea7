"""The product of the loops around each store where single precision rounds it.

The walk of a single candidate multiplies its product when it enters a loop and divides it when it
leaves (`walk/visitor.py`). Beyond 2**24, this need not restore the product, and later stores see a
different one. For such candidates the walk through the loops is replayed, one candidate at a time.
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
    """Replace, for the candidates `rows`, the loop products of the stores and of their storage.

    Each store comes with the number of its stage.
    """
    ways, depths = zip(*[_ways(nest, s, store, rows) for s, store in stores], strict=True)
    places = np.stack([store.place[rows] for _, store in stores])
    for _, store in stores:  # both may be the same array
        store.product, store.outside = store.product.copy(), store.outside.copy()
    for n, (row, order) in enumerate(zip(rows, places.argsort(axis=0).T, strict=True)):
        products, left = _followed([ways[k][n] for k in order])
        for k, product in zip(order, products, strict=True):
            store, outer = stores[k][1], ways[k][n][: depths[k][n]]
            store.product[row] = product
            store.outside[row] = left[tuple([loop for loop, _ in outer])]


def _ways(nest: Nest, s: int, store: Store, rows: Rows) -> tuple[list[_Way], list[int]]:
    """By candidate, the loops around a store of stage s, and how many are around its storage.

    Loops that run once count, since storage may end with one. An initialisation lacks the reduction
    loops of its sum, and shares no loop with it inside the first of them.
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
    """The product at each store, and the product right before each loop is left.

    The second is by the loops down to the loop that is left: it is the product where storage around
    the store ends.
    """
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
