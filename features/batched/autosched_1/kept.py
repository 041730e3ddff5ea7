"""ShareOutput as arrays: stages whose values are kept in an output (`transform/storage/`).

The nest stays as it is, since the regions of stages follow from their own buffers; only the buffer
that the stages then store to and load from is the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autosched.features.batched.along_loops import products, taken
from autosched.features.batched.forms import Flags
from autosched.features.batched.nest import Nest, Stage
from autosched.features.batched.ops import StageOps, StoreOps
from autosched.tir.expr import Expr

UNSURE = "values that may be kept in an output"


@dataclass(frozen=True, eq=False)
class Kept:
    """A stage and the output that its values are kept in, by number, for candidates `where`."""

    stage: int
    output: int
    where: Flags


def kept_in_outputs(nest: Nest) -> list[Kept]:
    """The stages that are kept in an output, whose store has no condition around it.

    A candidate is refused where a stage may be kept but the rules cannot decide it, or where
    several stages are kept.
    """
    forms = nest.forms
    found = []
    several = forms.zero
    for o, output in nest.stages.items():
        for s, stage in nest.stages.items():
            if s != o and output.ops.is_output and _is_kept(nest, stage, output):
                may = ~_is_apart(nest, s, o) & ~_is_asked(output)
                forms.refuse(may & _is_unusual(nest, s, o), UNSURE)
                where = may & _covers(nest, s, o)
                several = several + where
                found.append(Kept(s, o, where))
    forms.refuse(several > 1, UNSURE)
    return found


def _is_asked(stage: Stage) -> Flags:
    """Where a condition is around a stage's stores: some iterations of its loops store nothing."""
    context = stage.context
    found: Flags = np.zeros(context.forms.count, bool)
    for condition in (
        *context.given,
        *(c for var in context.variables for c in context.conditions(var)),
    ):
        found = found | condition.where
    return found


def keep(nest: Nest, kept: Kept) -> None:
    """Replace the stage's buffer by the output in all stores and loads."""
    before = nest.stages[kept.stage].ops.buffer
    after = nest.stages[kept.output].ops.buffer
    for s, stage in nest.stages.items():
        stores = tuple([_replaced(store, before, after) for store in stage.ops.stores])
        if s == kept.output:
            stores = tuple([_with_own_loads(store, after) for store in stores])
        buffer = after if s == kept.stage else stage.ops.buffer
        nest.stages[s] = replace(stage, ops=replace(stage.ops, buffer=buffer, stores=stores))


def _replaced(store: StoreOps, before: int, after: int) -> StoreOps:
    loads = [(after if buffer == before else buffer, indices) for buffer, indices in store.loads]
    return replace(store, loads=tuple(loads))


def _with_own_loads(store: StoreOps, own: int) -> StoreOps:
    """Turn the store's loads of the buffer that it stores to into loads of the stored element."""
    others = [k for k, (buffer, _) in enumerate(store.loads) if buffer != own]
    return replace(
        store,
        loads=tuple([store.loads[k] for k in others]),
        places=tuple([store.places[k] for k in others]),
        updates=store.updates + len(store.loads) - len(others),
    )


def _is_kept(nest: Nest, stage: Stage, output: Stage) -> bool:
    """Whether the stage's values become the output element by element, and other stages read them.

    Neither of the two accumulates.
    """
    one, other = stage.ops, output.ops
    if one.is_output or one.scope not in ("", "global"):
        return False
    if not (_is_plain(one) and _is_plain(other)):
        return False
    known = nest.ops.buffers
    shape = known[other.buffer].shape
    if known[one.buffer].shape != shape:
        return False
    if one.stores[0].value.dtype is not other.stores[0].value.dtype:
        return False
    own = _moving(other.axes[: other.data], shape)
    read = [
        _moving(indices, shape) for buffer, indices in other.stores[0].loads if buffer == one.buffer
    ]
    return bool(read) and all(e == own for e in read) and bool(_readers(nest, stage, output))


def _moving(indices: Sequence[Expr], shape: Sequence[int | None]) -> list[Expr]:
    """The indices of dimensions with more than one element."""
    return [e for e, extent in zip(indices, shape, strict=True) if extent != 1]


def _is_plain(ops: StageOps) -> bool:
    return len(ops.stores) == 1 and not ops.stores[0].updates


def _readers(nest: Nest, stage: Stage, output: Stage) -> list[int]:
    """The other stages that read the stage's values."""
    return [
        r
        for r, reader in nest.stages.items()
        if reader is not stage and reader is not output and _reads(reader, stage)
    ]


def _reads(reader: Stage, stage: Stage) -> bool:
    return any(b == stage.ops.buffer for store in reader.ops.stores for b, _ in store.loads)


def _is_unusual(nest: Nest, s: int, o: int) -> Flags:
    """Where the output is a choice, the output or the stage is read after the output, or the stage
    is computed in another stage."""
    stage, output = nest.stages[s], nest.stages[o]
    after = any(
        _reads(reader, output) or (r > o and _reads(reader, stage))
        for r, reader in nest.stages.items()
    )
    found = np.full(nest.forms.count, after or output.ops.stores[0].conditional)
    for t, innermost in nest.inside[s].items():
        if t != o:
            found = found | (innermost >= 0)
    return found


def _is_apart(nest: Nest, s: int, o: int) -> Flags:
    """Where a loop of the output that is not around the stage is around another reader, or moves
    the output by a quotient and remainder."""
    stage, output = nest.stages[s], nest.stages[o]
    readers = _readers(nest, stage, output)
    apart: Flags = np.zeros(nest.forms.count, bool)
    for k, slot in enumerate(output.loops.slots):
        inside = (nest.forms.extents[slot] > 1) & ~nest.around(s, o, k)
        apart = apart | (inside & _is_cut(nest, output, slot))
        for r in readers:
            apart = apart | (inside & nest.around(r, o, k))
    return apart


def _covers(nest: Nest, s: int, o: int) -> Flags:
    """Where the output's loops that are not around the stage cover the stage's realised region,
    each element once."""
    forms, stage, output = nest.forms, nest.stages[s], nest.stages[o]
    inside = {
        slot: (forms.extents[slot] > 1) & ~nest.around(s, o, k)
        for k, slot in enumerate(output.loops.slots)
    }
    uses = dict.fromkeys(inside, forms.zero)
    found: Flags = np.ones(forms.count, bool)
    some: Flags = np.zeros(forms.count, bool)
    for var, extent in zip(output.ops.axes[: output.ops.data], stage.extents, strict=True):
        strides, extents = [forms.one], [forms.one]
        for slot, term in output.axes[var].every():
            if slot not in inside:
                continue
            here = inside[slot] & (term.scale != 0)
            uses[slot] = uses[slot] + here
            strides.append(np.where(here, term.scale, 1))
            extents.append(np.where(here, forms.extents[slot], 1))
        order = np.lexsort((np.stack(extents), np.stack(strides)), axis=0)
        stride = taken(np.stack(strides), order)
        times = taken(np.stack(extents), order)
        reach = products(times)
        tight = (stride[1:] == reach[:-1]) | (times[1:] == 1)
        found = found & tight.all(axis=0) & (reach[-1] == extent)
        some = some | (reach[-1] > 1)
    for slot, there in inside.items():
        found = found & (uses[slot] == there)
    return found & some


def _is_cut(nest: Nest, stage: Stage, slot: int) -> Flags:
    """Where axes of the stage are digits of the loop."""
    found: Flags = np.zeros(nest.forms.count, bool)
    for var in stage.ops.axes[: stage.ops.data]:
        for term in stage.axes[var].terms.get(slot, ()):
            found = found | nest.forms.is_digit(slot, term)
    return found
