"""Compute the rows of `ansor-0.19` for all candidates of a population."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.features.ansor.names import ALLOCATION, FEATURE_NAMES, NUM_FEATURES
from autosched.features.ansor.rows import FeatureRows, log_scale_columns
from autosched.features.batched.build_nest import build_nest, place_of_store
from autosched.features.batched.columns import AccessColumns, Tables, intensity
from autosched.features.batched.counts import Known, count_store
from autosched.features.batched.forms import Flags, Forms
from autosched.features.batched.limits import Limits, with_wide_vectors
from autosched.features.batched.nest import Nest, Population
from autosched.features.batched.ops import RESULT, ProgramOps, StoreOps
from autosched.features.batched.stores import Floats, Store, make_stores, r32
from autosched.features.batched.threads import LAUNCH, check_kernels
from autosched.features.walk.count import NUM_COUNTERS, NUM_FLOAT_COUNTERS
from autosched.state.iterator import Annotation

_NO_POSITIONS = tuple(f"{kind}_type.kPosNone" for kind in ("vec", "unroll", "parallel"))
_KINDS = (Annotation.VECTORIZE, Annotation.UNROLL, Annotation.PARALLEL)


@dataclass(frozen=True, eq=False)
class PopulationRows:
    """The rows of a population: `values` are (candidates, stored buffers, 164).

    Bad candidates of `forms` have no valid values. `order` has for each row and candidate the
    position in `names` of the buffer that the row describes. `refused` are the candidates that the
    limits on vectors refuse.
    """

    values: npt.NDArray[np.float32]
    order: npt.NDArray[np.intp]
    names: list[str]
    forms: Forms
    refused: Flags

    def hand_out(
        self,
        members: Sequence[int],
        found: list[FeatureRows | None],
        buffers: list[tuple[str, ...]] | None,
    ) -> None:
        """Store in `found` the rows of the candidates `members`, unless they are bad or refused.

        `buffers`, where given, receives the names of the buffers of each candidate's rows.
        """
        without = (self.forms.bad | self.refused).tolist()
        for k, (n, values, no) in enumerate(zip(members, self.values, without, strict=True)):
            if not no:
                found[n] = values
                if buffers is not None:
                    buffers[n] = tuple([self.names[row] for row in self.order[:, k].tolist()])


def rows_of_population(
    ops: ProgramOps,
    population: Population,
    line: int,
    known: dict[StoreOps, Known],
    limits: Limits | None,
) -> PopulationRows:
    """The rows of a population, equal to those that candidates get one by one.

    `line` is the bytes of a cache line; `known` caches simplified values from call to call.
    """
    with np.errstate(all="ignore"):
        check_kernels(population.plan)
        nest = build_nest(ops, population)
        stores = make_stores(nest)
        refused = np.zeros(population.count, bool)
        if limits is not None:
            refused = with_wide_vectors(nest, population.plan, stores, limits)
        tables = Tables(nest, stores)
        by_buffer: dict[int, list[Store]] = defaultdict(list)
        for store in stores:
            by_buffer[store.buffer].append(store)
        bare = [store for store in stores if store.ops.into is not None and not store.ops.is_init]
        table = np.empty((len(by_buffer) + len(bare), NUM_FEATURES, population.count), np.float32)
        first = []
        for row, group in zip(table, by_buffer.values(), strict=False):
            _fill(nest, tables, group, line, known, row)
            first.append(group[0].place)
        for row, update in zip(table[len(by_buffer) :], bare, strict=True):
            _fill_bare(nest, update, row)
            first.append(place_of_store(update.stage, None))
        order = np.argsort(-np.stack(first), axis=0)
        if (order == order[:, :1]).all():
            table = table[order[:, 0]]
        else:
            table = np.take_along_axis(table, order[:, None, :], axis=0)
        log_scale_columns(table)
        values = np.ascontiguousarray(table.transpose(2, 0, 1))
    names = [ops.buffers[buffer].name for buffer in by_buffer]
    names += [ops.buffers[store.stage.ops.buffer + RESULT].name for store in bare]
    return PopulationRows(values, order, names, nest.forms, refused)


def _fill(
    nest: Nest,
    tables: Tables,
    stores: list[Store],
    line: int,
    known: dict[StoreOps, Known],
    row: FeatureRows,
) -> None:
    """Compute the columns of one buffer before they are scaled, into `row` (164, candidates)."""
    count = nest.forms.count
    counters = np.zeros((NUM_COUNTERS, count))
    products = [np.zeros(count) for _ in _KINDS]
    annotations: list[Floats] = []
    for store in stores:
        counts = count_store(nest.forms, store, known.setdefault(store.ops, {}))
        counters = r32(counters + r32(store.product * counts))
        annotations = []
        for k, kind in enumerate(_KINDS):
            annotations += _annotation(store, kind, products, k)
    last = stores[-1]
    loops = sum((loop.present.astype(np.int64) for loop in last.loops), nest.forms.zero)
    at = 0
    for part in (
        *(counters, annotations, _launch(last)),
        AccessColumns(nest, tables, last, line).slots(),
        intensity(last, counts[:NUM_FLOAT_COUNTERS].sum(axis=0), count),
        *(_allocation(nest, last), (last.product, loops, last.step)),
    ):
        for column in part:
            row[at] = column
            at += 1


def _fill_bare(nest: Nest, update: Store, row: FeatureRows) -> None:
    """Fill in the columns of a cross-thread reduction's result buffer, which is only allocated."""
    row[:] = 0
    for name in _NO_POSITIONS:
        row[FEATURE_NAMES.index(name)] = 1
    for name, column in zip(ALLOCATION, _allocation(nest, update)[:3], strict=False):
        row[FEATURE_NAMES.index(name)] = column


def _launch(store: Store) -> list[Any]:
    """The launch columns: whether there are threads, and the extent of each thread axis."""
    found: list[Any] = [0.0, *[1.0] * 7]
    for loop in store.loops:
        if loop.thread:
            place = LAUNCH[loop.thread]
            virtual = loop.thread == Annotation.VTHREAD
            found[0] = 1.0
            found[place] = found[place] * loop.extent if virtual else loop.extent
    return found


def _annotation(store: Store, kind: Annotation, products: list[Floats], k: int) -> list[Floats]:
    count = len(store.product)
    number, length = np.zeros(count), np.zeros(count)
    product = np.ones(count)
    for loop in store.loops:
        here = loop.present & (loop.kind == kind)
        if here.any():
            number = number + here
            length = np.where(here, loop.extent, length)
            product = np.where(here, r32(product * loop.extent), product)
    # A later store without such loops keeps the product of an earlier one.
    products[k] = np.where(number > 0, product, products[k])
    some = (number > 0).astype(np.float64)
    middle = [np.zeros(count)] * 6
    return [number, products[k], length, 1.0 - some, *middle, some]


def _allocation(nest: Nest, store: Store) -> list[Floats]:
    volume = np.ones(nest.forms.count)
    for extent in store.stage.extents if store.ops.into is None else ():
        volume = r32(volume * extent)
    eb = nest.ops.buffers[store.buffer].bytes
    outside = store.outside
    return [r32(volume * eb), r32(volume * outside), outside, r32(store.product / outside)]
