"""The rows of `autosched-1` of a population, as `autosched_1/rows.py` has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from autosched.features.autosched_1.machine import Machine
from autosched.features.autosched_1.names import COLUMNS, SCALED
from autosched.features.batched.autosched_1.borders import is_padded
from autosched.features.batched.autosched_1.columns import program_columns, row_columns
from autosched.features.batched.autosched_1.device.estimate import estimated_on_device
from autosched.features.batched.autosched_1.facts import Facts
from autosched.features.batched.autosched_1.hoists import hoist
from autosched.features.batched.autosched_1.kept import Kept, keep, kept_in_outputs
from autosched.features.batched.autosched_1.nests import (
    Code,
    Wanted,
    codes_of_all,
    starts_of,
    wanted,
)
from autosched.features.batched.autosched_1.piece import Piece, Ready
from autosched.features.batched.autosched_1.spread import Spread
from autosched.features.batched.autosched_1.starts import move_starts
from autosched.features.batched.autosched_1.stores_of_row import (
    Estimated,
    estimated,
    first_place,
    row_of,
)
from autosched.features.batched.autosched_1.values import (
    KnownChoices,
    chosen_by_axes,
    value_facts,
)
from autosched.features.batched.build_nest import build_nest
from autosched.features.batched.columns import Tables
from autosched.features.batched.context import Condition
from autosched.features.batched.counts import count_store
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.nest import Nest, Population, Stage
from autosched.features.batched.ops import PARTIAL, RESULT, ProgramOps
from autosched.features.batched.rows import PopulationRows
from autosched.features.batched.stores import Store, make_stores
from autosched.state.iterator import Annotation

_SCALED = np.array(SCALED)
_MAD, _ADDSUB, _MUL = range(3)


def ready(ops: ProgramOps, population: Population, shared: Kept | None = None) -> Ready:
    """Make the nest of a population, and refuse candidates whose loops passes change.

    With `shared`, all of them keep that stage's values in the output.
    """
    with np.errstate(all="ignore"):
        nest = build_nest(ops, population)
        population = hoist(nest, population)
        if not ops.has_zeros:
            move_starts(nest, population)
        asked = {s: _is_asked(stage) for s, stage in nest.stages.items()}
        conditional = np.logical_or.reduce(list(asked.values()))
        kept: list[Kept] = []
        if shared is None:
            kept = kept_in_outputs(nest, asked)
        else:
            keep(nest, shared)
        stores = make_stores(nest, as_ansor=False)
        _check(nest, stores)
    good = ~nest.forms.bad
    kept = [replace(item, where=item.where & good) for item in kept]
    return Ready(nest, population, stores, conditional & good, kept)


@dataclass(eq=False)
class Prepared:
    """The pieces of a population with what is known before their code: operations by piece.

    With `spread`, the population has a row for each copy.
    """

    nest: Nest
    pieces: list[Piece]
    wanted: list[Wanted]
    counts: list[Ints]
    spread: Spread | None = None


def rows_of_all(every: Sequence[Prepared], machine: Machine) -> list[PopulationRows]:
    """The rows of each population; the code of all their stores is worked out together."""
    with np.errstate(all="ignore"):
        codes = iter(codes_of_all([item for made in every for item in made.wanted], machine))
        return [_rows(made, list(islice(codes, len(made.wanted))), machine) for made in every]


def _rows(made: Prepared, codes: list[Code], machine: Machine) -> PopulationRows:
    nest, stores = made.nest, _estimates(made, codes, machine)
    if made.spread is not None:
        nest = made.spread.nest(made.nest)
        stores = made.spread.taken(nest, stores)
    by_buffer: dict[int, list[Estimated]] = defaultdict(list)
    for item in stores:
        by_buffer[item.facts.store.buffer].append(item)
    rows = [row_of(items, _allocation(nest, items), machine) for items in by_buffer.values()]
    count = nest.forms.count
    block = np.empty((len(rows), len(COLUMNS), count))
    tables = Tables(nest, list(dict.fromkeys(item.facts.store for item in stores)))
    for row, own in zip(rows, block, strict=True):
        row_columns(row, tables, machine, own)
    first = np.stack([first_place(items) for items in by_buffer.values()])
    order = np.argsort(first, axis=0)
    program_columns(rows, list(block), list(order))
    block = np.take_along_axis(block, order[:, None, :], axis=0)
    values = np.ascontiguousarray(block.transpose(2, 0, 1)).reshape(-1, len(COLUMNS))
    values[:, _SCALED] = np.log2(values[:, _SCALED] + 1.0)
    names = [nest.ops.buffers[buffer].name for buffer in by_buffer]
    return PopulationRows(
        values.astype(np.float32).reshape(count, len(rows), len(COLUMNS)),
        order,
        names,
        nest.forms,
        np.zeros(count, bool),
    )


def prepared(
    ready: Ready,
    pieces: list[Piece],
    machine: Machine,
    choices: KnownChoices,
    spread: Spread | None = None,
) -> Prepared:
    """What must be known to ask for the code of pieces; raises UnsupportedError for a program
    without a rule."""
    nest = ready.nest
    with np.errstate(all="ignore"):
        facts: list[Facts] = []
        for piece in pieces:
            same = piece.same_as
            own = Facts(nest, piece.store, machine.line) if same is None else facts[same]
            facts.append(own)
        every: list[Wanted] = []
        counts: list[Ints] = []
        for whole, piece in zip(facts, pieces, strict=True):
            own, store = whole, piece.store
            value = value_facts(store.ops, store.stage.ops, machine.gpu)
            beside = [facts[n] for n in piece.beside]
            start = starts_of(whole, piece.around, beside, piece.together)
            if piece.sparse is not None:
                own = Facts(nest, piece.sparse.store, machine.line)
                own.note_touched()
                start = piece.sparse.outside(start)
            chosen = None
            if piece.same_as is not None:
                every.append(wanted(own, value, None, start, piece.exists))
                counts.append(counts[piece.same_as])
                continue
            if piece.chosen is not None:
                chosen, plain = piece.chosen, piece.chosen.counts
                own.note_touched()
            elif store.ops.conditional:
                chosen = chosen_by_axes(nest.forms, store, choices, piece.compared)
                plain = chosen.counts
            else:
                plain = count_store(nest.forms, store, {})
            if piece.correction is not None:
                plain = plain + piece.correction
                own.note_touched()
            every.append(wanted(own, value, chosen, start, piece.exists))
            counts.append(_with_mads(plain, value.mads))
    return Prepared(nest, pieces, every, counts, spread)


def _estimates(made: Prepared, codes: Sequence[Code], machine: Machine) -> list[Estimated]:
    stages = made.nest.stages.values()
    scopes = {stage.ops.buffer: stage.ops.scope or "global" for stage in stages}
    found = []
    every = zip(made.wanted, made.counts, codes, made.pieces, strict=True)
    for item, counts, code, piece in every:
        of = [_scope(scopes, access.buffer) for access in item.facts.accesses]
        estimate = estimated_on_device if machine.gpu else estimated
        found.append(estimate(item.facts, code, counts, of, machine, piece))
    return found


def _scope(scopes: Mapping[int, str], buffer: int) -> str:
    """Where a buffer is: what threads sum up is in their registers."""
    return "local" if buffer & (PARTIAL | RESULT) else scopes.get(buffer, "global")


def _with_mads(counts: Ints, mads: int) -> Ints:
    """A sum with a product is one multiply-add."""
    both = (counts[_ADDSUB] > 0) & (counts[_MUL] > 0)
    taken = np.where(both, np.minimum(np.minimum(counts[_ADDSUB], counts[_MUL]), mads), 0)
    counts[_MAD] = np.where(both, taken, counts[_MAD])
    counts[_ADDSUB] -= taken
    counts[_MUL] -= taken
    return counts


def _allocation(nest: Nest, stores: list[Estimated]) -> list[object]:
    """That of the last storage: around the last store there is."""
    facts = stores[-1].facts
    elements = nest.forms.one
    for extent in facts.store.stage.extents if facts.store.ops.into is None else ():
        elements = elements * extent
    outside, last = facts.store.outside, nest.forms.full(-1)
    for store in stores:
        if store.exists is not None:
            own = store.facts.store
            later = store.exists & (own.place > last)
            outside, last = np.where(later, own.outside, outside), np.where(later, own.place, last)
    return [elements * facts.element_bytes[0], elements, outside]


def _check(nest: Nest, stores: list[Store]) -> None:
    """Refuse candidates of which the code generator's passes change the loops."""
    forms = nest.forms
    for store in stores:
        if store.ops.conditional and not (is_padded(store) or store.ops.keeps_conditions):
            forms.refuse(_has_border(nest, store), "a copy that may be cut at its border")


def _is_asked(stage: Stage) -> Flags:
    """Where a condition is around the stores of a stage."""
    found: Flags = np.zeros(stage.context.forms.count, bool)
    for condition in conditions_around(stage):
        found = found | condition.where
    return found


def conditions_around(stage: Stage) -> list[Condition]:
    """The conditions under which an iteration of a stage's loops is one of its points."""
    context = stage.context
    return [*context.given, *(c for var in context.variables for c in context.conditions(var))]


def _has_border(nest: Nest, store: Store) -> Flags:
    """Where a serial loop moves what a condition chooses (HintBorders marks such copies)."""
    found: Flags = np.zeros(nest.forms.count, bool)
    for loop in store.loops:
        for access in store.touched[:-1]:
            used = access.uses(loop.slot, nest.forms.count)
            found = found | (used & loop.present & (loop.kind != Annotation.PARALLEL))
    return found
