"""The stores of GPU candidates: which of the loops around them count, and their kernels.

No pass changes their loops before the features are computed. Threads are loops like others, and
conditions stay right around their stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autosched.features.batched.autosched_1.piece import Launch, Piece, Ready
from autosched.features.batched.autosched_1.surroundings import Surroundings, surroundings_of
from autosched.features.batched.axis_text import StageText
from autosched.features.batched.context import Text
from autosched.features.batched.forms import Flags, Form, Ints, fixed
from autosched.features.batched.mixed import Mixed
from autosched.features.batched.nest import Nest, Stage
from autosched.features.batched.one import alike, simplified
from autosched.features.batched.plan import REDUCE, Plan, UnsupportedError, masks_of
from autosched.features.batched.stores import Store
from autosched.features.batched.threads import around, pipelined_around, root_of
from autosched.state.iterator import Annotation
from autosched.tir.expr import FloorMod, IntImm, Var
from autosched.tir.op import lt
from autosched.tir.walk import free_vars

_END = Var("end")
_VTHREAD = int(Annotation.VTHREAD)
_BLOCKS = (Annotation.BLOCK_X, Annotation.BLOCK_Y, Annotation.BLOCK_Z)
_THREADS = (Annotation.THREAD_X, Annotation.THREAD_Y, Annotation.THREAD_Z)


def device_pieces(ready: Ready, plan: Plan) -> list[Piece]:
    """The stores with the loops that `autosched_1/store.py` keeps; conditions stay in their place.

    Raises UnsupportedError for fragments of tensor cores and for a kernel without blocks.
    """
    nest = ready.nest
    kernels = _kernels(nest, plan)
    number = {id(stage): s for s, stage in nest.stages.items()}
    stores = ready.stores
    every = [_Around(ready, store) for store in stores]
    found = []
    for own, store in zip(every, stores, strict=True):
        beside = tuple([n for n, other in enumerate(stores) if other.stage is store.stage])
        together: Flags = np.full(nest.forms.count, len(beside) > 1)
        for n in beside:
            together = together & every[n].alone & (every[n].around.count == len(beside))
        launch = _launch(nest, store, *kernels[root_of(plan, number[id(store.stage)])])
        guards = [np.where(guard, own.depth, -1) for guard in own.guards]
        found.append(Piece(own.store, own.around, beside, together, guards=guards, launch=launch))
    return found


class _Around:
    """A store with the loops that count, its surroundings in terms of these, and its conditions.

    `depth` counts all loops. `guards` tells for each condition for which candidates it is around
    the store.
    """

    def __init__(self, ready: Ready, store: Store) -> None:
        nest = ready.nest
        kept = _kept(nest, store)
        loops = [
            replace(loop, present=own, extent=np.where(own, loop.extent, 1), table=loop.slot)
            for loop, own in zip(store.loops, kept, strict=True)
        ]
        self.store = replace(store, loops=loops, tables=dict(store.at))
        self.guards = _guards(nest, store)
        self._before = np.zeros((len(loops) + 1, nest.forms.count), np.int64)
        self._kept = np.array(kept).reshape(len(loops), nest.forms.count)
        lost: Flags = np.zeros(nest.forms.count, bool)
        for j, loop in enumerate(store.loops):
            self._before[j + 1] = self._before[j] + loop.present
            lost = lost | (loop.present & ~kept[j])
        self.depth: Ints = self._before[-1]
        found = surroundings_of(nest, ready.population, store)
        for guard in self.guards:
            found.alone(self.depth, guard)
        self.alone: Flags = found.of_reduction & ~lost
        self.around = Surroundings(
            self._counted(found.floor),
            self._counted(found.level),
            self._counted(found.outer),
            found.count,
            found.beside & ~lost,
            self.alone,
        )

    def _counted(self, depth: Ints) -> Ints:
        """How many of the first `depth` loops count."""
        found: Ints = (self._kept & (self._before[:-1] < depth)).sum(axis=0)
        return found


def _kept(nest: Nest, store: Store) -> list[Flags]:
    """Where each loop counts: of several attributes of one thread axis, only the innermost does,
    unless another one is used."""
    last: dict[int, Ints] = {}
    count = nest.forms.count
    for j, loop in enumerate(store.loops):
        if loop.thread and loop.thread != _VTHREAD:
            before = last.get(loop.thread, nest.forms.full(-1))
            last[loop.thread] = np.where(loop.present, j, before)
    found = []
    for j, loop in enumerate(store.loops):
        kept = loop.present
        if loop.thread in last:
            outer = kept & (last[loop.thread] != j)
            if outer.any():
                used: Flags = np.zeros(count, bool)
                for access in store.touched:
                    used = used | access.uses(loop.slot, count)
                kept = kept & ~(outer & ~(used & (loop.extent > 1)))
                nest.forms.refuse(outer & kept, "two loops on one thread axis")
        found.append(kept)
    return found


def _guards(nest: Nest, store: Store) -> list[Flags]:
    """The conditions right around a store; for each, the candidates that have it.

    The initialisation of a reduction is in the conditions on data axes only, and in none where
    threads share the reduction. The result of a shared reduction is in the conditions on data axes,
    and in one that lets a single thread store it.
    """
    stage = store.stage
    if stage.ops.crosses and store.ops.is_init:
        return []
    found: list[Flags] = []
    mixed = stage.loops.mixed
    result = stage.ops.crosses and store.ops.into is None
    if mixed is not None and mixed.entries:
        data_only = store.ops.is_init or result
        numbers = [_conditions(stage, mixed, entry, data_only) for entry in mixed.entries]
        number = np.where(mixed.where, np.array(numbers, np.int64)[mixed.which], 0)
        found += [number > k for k in range(int(number.max()))]
    for k in range(stage.ops.data):
        region = stage.context.of_region(k)
        if mixed is not None:
            leaves = _leaves(nest, stage, mixed, k)
            for condition in region:
                if condition.limit is not None:  # this condition compares with the end already
                    leaves = leaves & ~condition.where
            found.append(leaves)
        found += [condition.where for condition in region]
    if result:
        found.append(_several_threads(nest, stage))
    return [flags for flags in found if flags.any()]


def _leaves(nest: Nest, stage: Stage, mixed: Mixed, k: int) -> Flags:
    """Where axis k, a text, is compared with the end of the tensor, lane by lane.

    It is where only a part of the axis is computed and the text, unless it is a remainder, may lie
    beyond that part. What follows from everything around the text is left to simplification.
    """
    forms = nest.forms
    low, extent, shape = stage.context.data[k]
    part = ~(fixed(low) & (low.base == 0) & (extent == shape))
    beyond = forms.beyond.get(mixed.slots[k], forms.zero) > 0
    whole = np.array([not isinstance(text.axes[k].raw, FloorMod) for text in mixed.entries], bool)
    rows = np.flatnonzero(mixed.where & part & beyond & ~forms.bad)
    rows = rows[whole[mixed.which[rows]]]
    found: Flags = np.zeros(forms.count, bool)
    if len(rows):
        var = stage.ops.axes[k]
        axes, own = {var: stage.axes[var], _END: Form({}, shape)}, frozenset(stage.loops.slots)
        text = Text(lt(var, _END), axes, (), own)
        first, which = alike(forms, text.axes, rows)
        compared = [
            not isinstance(simplified(forms, text, n, as_ansor=False)[0], IntImm)
            for n in first.tolist()
        ]
        found[rows] = np.array(compared)[which]
    return found


def _conditions(stage: Stage, mixed: Mixed, text: StageText, data_only: bool) -> int:
    """The number of conditions around a store of a stage with this text; with `data_only`, only
    those that depend on no reduction loop."""
    if not data_only:
        return len(text.conditions)
    masks = masks_of(mixed.loops, stage.ops.data)
    pairs = zip(text.variables, masks, strict=True)
    reducing = {var for var, mask in pairs if var is not None and mask == REDUCE}
    return sum(reducing.isdisjoint(free_vars(e)) for e in text.conditions)


def _several_threads(nest: Nest, stage: Stage) -> Flags:
    """Where several threads share the stage's reduction."""
    found: Flags = np.zeros(nest.forms.count, bool)
    reduced = stage.ops.axes[stage.ops.data :]
    for slot, kind in zip(stage.loops.slots, stage.loops.threads, strict=True):
        if kind and any(slot in stage.axes[var].terms for var in reduced):
            found = found | (nest.forms.extents[slot] > 1)
    return found


def _kernels(nest: Nest, plan: Plan) -> dict[int, tuple[Ints, Ints]]:
    """By root stage of a kernel, the bytes of its shared memory and of a thread's local memory."""
    found = {}
    for s, own in enumerate(plan.stages):
        if own.target < 0:
            found[s] = nest.forms.zero, nest.forms.zero
    for s, stage in nest.stages.items():
        scope = stage.ops.scope
        if scope not in ("", "global", "shared", "local"):
            raise UnsupportedError(f"storage in {scope}")
        root = root_of(plan, s)
        if root == s or scope not in ("shared", "local"):
            continue
        size = nest.forms.full(nest.ops.buffers[stage.ops.buffer].bytes)
        for extent in stage.extents:
            size = size * extent
        shared, local = found[root]
        if scope == "shared":
            t = pipelined_around(plan, s)
            shared = shared + (size if t < 0 else size * nest.tiles[t])
        else:
            for t, k, kind in around(plan, s):
                if kind == _VTHREAD:
                    size = size * nest.forms.extents[nest.stages[t].loops.slots[k]]
            local = local + size
        found[root] = shared, local
    return found


def _launch(nest: Nest, store: Store, shared: Ints, local: Ints) -> Launch:
    """The blocks and threads around a store; of loops of one thread axis, the innermost counts."""
    extents: dict[int, Ints] = {}
    virtual = nest.forms.one
    for loop in store.loops:
        if loop.thread == _VTHREAD:
            virtual = virtual * loop.extent
        elif loop.thread:
            before = extents.get(loop.thread, nest.forms.one)
            extents[loop.thread] = np.where(loop.present, loop.extent, before)

    def product(axes: Sequence[Annotation]) -> Ints:
        found = nest.forms.one
        for axis in axes:
            found = found * extents.get(int(axis), 1)
        return found

    return Launch(product(_BLOCKS), product(_THREADS), virtual, shared, local)
