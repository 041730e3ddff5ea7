"""Compute the rows of `autosched-1` for a population, as `autosched_1/rows.py` does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from autosched.features.ansor.rows import FeatureRows
from autosched.features.autosched_1.machine import Machine
from autosched.features.autosched_1.names import COLUMNS
from autosched.features.batched.autosched_1.columns import program_columns, row_columns
from autosched.features.batched.autosched_1.device.estimate import estimated_on_device
from autosched.features.batched.autosched_1.facts import Facts
from autosched.features.batched.autosched_1.hoists import hoist
from autosched.features.batched.autosched_1.kept import Kept, keep, kept_in_outputs
from autosched.features.batched.autosched_1.nests import (
    Code,
    Distribution,
    Wanted,
    codes_of_all,
    starts_of,
    wanted,
)
from autosched.features.batched.autosched_1.piece import Piece, Ready
from autosched.features.batched.autosched_1.starts import move_starts
from autosched.features.batched.autosched_1.stores_of_row import (
    Estimated,
    estimated,
    first_place,
    row_of,
)
from autosched.features.batched.autosched_1.values import (
    Chosen,
    KnownChoices,
    chosen_by_axes,
    simplified_whole,
    value_facts,
)
from autosched.features.batched.build_nest import build_nest
from autosched.features.batched.columns import Tables
from autosched.features.batched.counts import count_store
from autosched.features.batched.forms import Ints
from autosched.features.batched.nest import Nest, Population
from autosched.features.batched.ops import PARTIAL, RESULT, ProgramOps
from autosched.features.batched.rows import PopulationRows
from autosched.features.batched.stores import make_stores

_IN_CACHE = 64  # candidates whose columns stay in the nearest cache while they are transposed
_MAD, _ADDSUB, _MUL = range(3)


def ready(ops: ProgramOps, population: Population, shared: Kept | None = None) -> Ready:
    """Build the nest of a population.

    With `shared`, all its candidates keep that stage's values in the output. Without it, if all of
    them turn out to do so, they are kept at once and none is to be built again.
    """
    with np.errstate(all="ignore"):
        nest = build_nest(ops, population)
        population = hoist(nest, population)
        if not ops.has_zeros:
            move_starts(nest, population)
        kept = kept_in_outputs(nest) if shared is None else []
        shared = next((item for item in kept if (item.where | nest.forms.bad).all()), shared)
        if shared is not None:
            keep(nest, shared)
            kept = []
        stores = make_stores(nest, as_ansor=False)
    good = ~nest.forms.bad
    kept = [replace(item, where=item.where & good) for item in kept]
    return Ready(nest, population, stores, kept)


@dataclass(eq=False)
class Prepared:
    """The pieces of a population with what is known before their code; `counts` are operations."""

    nest: Nest
    pieces: list[Piece]
    wanted: list[Wanted]
    counts: list[Ints]


def rows_of_all(every: Sequence[Prepared], machine: Machine) -> list[PopulationRows]:
    """The rows of each population; the code of all their stores is computed together."""
    with np.errstate(all="ignore"):
        codes = iter(codes_of_all([item for made in every for item in made.wanted], machine))
        return [_rows(made, list(islice(codes, len(made.wanted))), machine) for made in every]


def _rows(made: Prepared, codes: list[Code], machine: Machine) -> PopulationRows:
    nest, stores = made.nest, _estimates(made, codes, machine)
    by_buffer: dict[int, list[Estimated]] = defaultdict(list)
    for item in stores:
        by_buffer[item.facts.store.buffer].append(item)
    rows = [row_of(items, _allocation(nest, items), machine) for items in by_buffer.values()]
    count = nest.forms.count
    block = np.empty((len(rows), len(COLUMNS), count), np.float32)
    every = list(dict.fromkeys(item.facts.store for item in stores))
    tables = Tables(nest, every, stored_first=True)
    for row, own in zip(rows, block, strict=True):
        row_columns(row, tables, machine, own)
    first = np.stack([first_place(items) for items in by_buffer.values()])
    order = np.argsort(first, axis=0)
    program_columns(rows, block, list(order))
    names = [nest.ops.buffers[buffer].name for buffer in by_buffer]
    values = _in_order(block, order)
    return PopulationRows(values, order, names, nest.forms, np.zeros(count, bool))


def _in_order(block: FeatureRows, order: Ints) -> FeatureRows:
    """(candidate, row, column): transpose `block`, (row, column, candidate).

    The rows of each candidate are in its `order`, which is by (place, candidate).
    """
    rows, columns, count = block.shape
    values = np.empty((count, rows, columns), np.float32)
    every, places = np.arange(count), np.argsort(order, axis=0)
    for start in range(0, count, _IN_CACHE):
        some = slice(start, start + _IN_CACHE)
        for own, place in zip(block, places, strict=True):
            values[every[some], place[some]] = own[:, some].T
    return values


def prepared(
    ready: Ready, pieces: list[Piece], machine: Machine, choices: KnownChoices
) -> Prepared:
    """Collect what the code of the pieces depends on.

    Raises UnsupportedError for a program without a rule.
    """
    nest = ready.nest
    with np.errstate(all="ignore"):
        facts = [Facts(nest, piece.store, machine.line) for piece in pieces]
        every: list[Wanted] = []
        counts: list[Ints] = []
        known: dict[tuple[int, ...], list[Distribution]] = defaultdict(list)
        for whole, piece in zip(facts, pieces, strict=True):
            own, store = whole, piece.store
            value = value_facts(store.ops, store.stage.ops, on_device=machine.gpu)
            beside = [facts[n] for n in piece.beside]
            start = starts_of(whole, piece.around, beside, piece.together, known[piece.beside])
            if piece.sparse is not None:
                own = Facts(nest, piece.sparse.store, machine.line)
                own.note_touched()
                start = piece.sparse.outside(start)
            chosen: Chosen | None = None
            mads: Ints | int = value.mads
            if store.ops.conditional:
                choose = chosen_by_axes if store.ops.parts else simplified_whole
                chosen = choose(nest.forms, store, choices)
                plain = chosen.counts
                mads = value.mads if chosen.mads is None else chosen.mads
            else:
                plain = count_store(nest.forms, store, {})
            every.append(wanted(own, value, chosen, start))
            counts.append(_with_mads(plain, mads))
    return Prepared(nest, pieces, every, counts)


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
    """The memory scope of a buffer; the partial sums of threads are in their registers."""
    return "local" if buffer & (PARTIAL | RESULT) else scopes.get(buffer, "global")


def _with_mads(counts: Ints, mads: Ints | int) -> Ints:
    """Count a sum with a product as one multiply-add."""
    both = (counts[_ADDSUB] > 0) & (counts[_MUL] > 0)
    taken = np.where(both, np.minimum(np.minimum(counts[_ADDSUB], counts[_MUL]), mads), 0)
    counts[_MAD] = np.where(both, taken, counts[_MAD])
    counts[_ADDSUB] -= taken
    counts[_MUL] -= taken
    return counts


def _allocation(nest: Nest, stores: list[Estimated]) -> list[object]:
    """The allocation of the last storage of a buffer: the one around its last store."""
    store = stores[-1].facts.store
    elements = nest.forms.one
    for extent in store.stage.extents if store.ops.into is None else ():
        elements = elements * extent
    return [elements * stores[-1].facts.element_bytes[0], elements, store.outside]
