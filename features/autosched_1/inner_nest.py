"""The loop nest of a store as the code generator will find it, and the input of its plan.

The walk sees the program before its buffers are flattened and its vectorised loops become vectors.
This file predicts what the passes in between do: loops over a reduction's initialisation and update
are distributed, vectorised loops become lanes, conditions become masks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

from autosched.features.ansor.names import OP_COUNTERS
from autosched.features.autosched_1.store import StoreFacts
from autosched.features.walk.scope import BufferInfo, Loop, Siblings
from autosched.features.walk.strides import Index, flat_terms
from autosched.nest.core import Core
from autosched.nest.distribution import Footprint, footprint, is_distributable
from autosched.nest.loop_nest import InnerLoop, is_injective
from autosched.nest.piece import accumulates_once
from autosched.nest.plan import ScalarStore, plan_store
from autosched.tir.expr import Add, BufferLoad, Expr, FloatImm, IntImm, Max, Min, Var
from autosched.tir.stmt import ForKind
from autosched.transform.vector.conditions import (
    UNCONDITIONAL,
    Load,
    conditions_along,
    guarded_parts,
)
from autosched.transform.vector.index_steps import step_along

_CALLS = tuple(k for k, name in enumerate(OP_COUNTERS) if name.endswith("func"))


def nest_starts(stores: Sequence[StoreFacts]) -> dict[int, int]:
    """By id of each store, the number of loops outside the nest that the code generator finds.

    `stores` are all stores of the function, in program order. A sum that leaves iterations out
    (sparse_sums.py) is analysed with all its iterations, as it is next to the other stores.
    """
    whole = [store.whole or store for store in stores]
    found = _starts_of(whole)
    starts = {}
    for store, every in zip(stores, whole, strict=True):
        start = found[id(every)]
        starts[id(store)] = start if store.whole is None else store.outside[start]
    return starts


def _starts_of(stores: Sequence[StoreFacts]) -> dict[int, int]:
    starts = {id(store): _after_other_loops(store, store.floor) for store in stores}
    for siblings, parts in _sequences(stores):
        level = siblings.level
        while level > siblings.floor and _distributes(parts, level - 1):
            level -= 1
        for part in parts:
            if level < siblings.level:
                starts[id(part)] = max(level, _after_other_loops(part, level))
    return starts


def _after_other_loops(store: StoreFacts, start: int) -> int:
    """The first level from `start` on inside all loops that are neither counted nor vectorised."""
    for k in range(len(store.loops) - 1, start - 1, -1):
        if not _is_plain(store.loops[k]):
            return k + 1
    return start


def _is_plain(loop: Loop) -> bool:
    return loop.counted or loop.kind is ForKind.VECTORIZED


def _sequences(stores: Sequence[StoreFacts]) -> list[tuple[Siblings, list[StoreFacts]]]:
    """Sequences inside loops that have only perfect nests, all storing to one place of one
    buffer."""
    found: dict[int, tuple[Siblings, list[StoreFacts]]] = {}
    for store in stores:
        siblings = store.siblings
        if siblings is None or siblings.level == siblings.floor:
            continue
        if all(map(_is_plain, store.loops[siblings.level :])):
            found.setdefault(id(siblings), (siblings, []))[1].append(store)
    return [
        (siblings, parts)
        for siblings, parts in found.values()
        if siblings.count == len(parts)
        and all(part.stored.data is parts[0].stored.data for part in parts)
        and all(part.constant == parts[0].constant for part in parts)
    ]


def _distributes(parts: Sequence[StoreFacts], level: int) -> bool:
    """Whether the loop at `level` around the parts becomes one loop for each of them."""
    loop = parts[0].loops[level]
    return loop.counted and is_distributable(
        [_footprint(part, level) for part in parts], loop.extent
    )


def _footprint(store: StoreFacts, level: int) -> Footprint | None:
    own, inside = store.strides[0], store.loops[level:]
    if _evenly_stored(store, level) > level:
        return None
    if any(
        loop.kind is ForKind.VECTORIZED and own[level + k] != 1 for k, loop in enumerate(inside)
    ):
        return None
    place = tuple(own[:level])
    axes = [(own[level + k], loop.extent) for k, loop in enumerate(inside) if k]
    return footprint(place, own[level], axes)


def inner_nest(store: StoreFacts, start: int) -> tuple[int, ScalarStore]:
    """The nest of the store that the code generator finds, and the level where it begins: `start`
    or further inside."""
    updates, folds, elsewhere = _use_of_output(store)
    start = len(store.loops) if elsewhere else _evenly_stored(store, start)
    loops = inner_loops(store, start)
    while not is_injective(loops):
        start, loops = start + 1, loops[1:]
    reads = len(store.accesses) - 1 + len(store.others)
    element = store.stored.info.bytes
    return start, ScalarStore(loops, reads, element, store.instructions, updates, folds)


def begins_in_registers(
    first: StoreFacts, second: StoreFacts, starts: Mapping[int, int], core: Core
) -> bool:
    """Whether the reduction `second` sets its accumulators to the constant that `first` stores.

    `second` is the store after `first`. Where this is so, no code remains of `first`.
    """
    siblings, level = first.siblings, starts[id(first)]
    together = siblings is not None and siblings is second.siblings and level <= siblings.level
    if not together or level != starts[id(second)] or level == len(second.loops):
        return False
    if not isinstance(first.stmt.value, FloatImm | IntImm) or first.stored.data is not (
        second.stored.data
    ):
        return False
    (at, start), (after, nest) = inner_nest(first, level), inner_nest(second, level)
    if not at == after == level or not nest.updates or start.updates:
        return False
    if first.constant != second.constant or first.strides[0][:level] != second.strides[0][:level]:
        return False
    moving, others = (
        [(*loop[:2], loop.vector) for loop in store.loops if loop.extent > 1 and loop.stride]
        for store in (start, nest)
    )
    if moving != others or any(vector and stride != 1 for _, stride, vector in moving):
        return False
    if not any(loop.reduces and loop.extent > 1 for loop in nest.loops):
        return False
    return all(map(accumulates_once, plan_store(nest, core)))


def _use_of_output(store: StoreFacts) -> tuple[bool, bool, bool]:
    """How the stored value uses the stored buffer, as three flags.

    Whether it reads the buffer; whether it only adds something to the stored element, or takes the
    larger or smaller of both; whether it reads other elements of the buffer.
    """
    if store.stored.kind != "kReadWrite":
        return False, False, False
    stmt, value = store.stmt, store.stmt.value
    own, stack = [], [value]
    while stack:
        e = stack.pop()
        if not isinstance(e, BufferLoad):
            stack.extend(e.children())
        elif e.buffer.data is stmt.buffer.data:
            own.append(e)
    folds = isinstance(value, Add | Max | Min) and len(own) == 1 and own[0] in (value.a, value.b)
    return True, folds, any(e.indices != stmt.indices for e in own)


def _evenly_stored(store: StoreFacts, start: int) -> int:
    """The first level from `start` on inside all loops along which the store has no even stride."""
    if store.uneven.isdisjoint([loop.var for loop in store.loops[start:]]):
        return start
    terms = flat_terms(store.stmt.indices, store.stored.info.extents)
    for k in range(len(store.loops) - 1, start - 1, -1):
        if step_along(terms, store.loops[k].var)[1]:
            return k + 1
    return start


def inner_loops(store: StoreFacts, start: int) -> tuple[InnerLoop, ...]:
    """The loops from level `start` on, with the strides of the store and of each of its reads."""
    own = store.strides[0]
    reads = [*store.strides[1:], *(strides for _, _, strides in store.others)]
    inside = range(start, len(store.loops))
    uneven = not store.uneven.isdisjoint([loop.var for loop in store.loops[start:]])
    guarded = guarded_parts(store.stmt.value) if any(store.counts[k] for k in _CALLS) else []
    if not uneven and not guarded:
        columns = zip(*[r[start:] for r in reads], strict=True) if reads else repeat(())
        plain = zip(store.loops[start:], own[start:], columns, strict=False)
        return tuple(
            [
                InnerLoop(loop.extent, stride, read, loop.kind is ForKind.VECTORIZED)
                for loop, stride, read in plain
            ]
        )
    return tuple([_uneven_loop(store, k, own[k], [r[k] for r in reads], guarded) for k in inside])


def _uneven_loop(
    store: StoreFacts, k: int, own: int, reads: list[int], guarded: Sequence[Expr]
) -> InnerLoop:
    loop, blocks = store.loops[k], [0] * len(reads)
    if loop.var in store.uneven:
        for r, (index, info) in enumerate(_places_read(store)):
            reads[r], blocks[r] = step_along(flat_terms(index, info.extents), loop.var)

    def length(load: Load, var: Var) -> int:
        if var not in store.uneven:
            return 0
        assert isinstance(load, BufferLoad)
        info = next(a.info for a in store.accesses if a.data is load.buffer.data)
        return step_along(flat_terms(load.indices, info.extents), var)[1]

    conditions = UNCONDITIONAL
    if loop.extent > 1:
        conditions = conditions_along(guarded, loop.var, length)
    return InnerLoop(
        loop.extent,
        own,
        tuple(reads),
        loop.kind is ForKind.VECTORIZED,
        tuple(blocks) if any(blocks) else (),
        conditions.lanes,
        conditions.conditional,
    )


def _places_read(store: StoreFacts) -> list[tuple[Index, BufferInfo]]:
    """Index tuple and buffer of each read, in the order of the reads in `inner_loops`."""
    first = [(access.indices[0], access.info) for access in store.accesses[1:]]
    others = [(index, store.accesses[k].info) for k, index, _ in store.others]
    return first + others
