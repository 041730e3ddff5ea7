"""The facts that `autosched_1/store.py` and `locality.py` record of a store, for many candidates.

Tables by loop may be packed (`packed_loops.py`): a line then has one loop of each candidate. Where
a candidate has no loop in a line, the extent is 1, and the levels outside and inside of it are
equal. A level is a line of such a table, or one more for a single iteration. A depth counts only
the loops that are present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

import numpy as np

from autosched.features.batched.along_loops import products_from_last, sums_from_last
from autosched.features.batched.autosched_1.blocks import steps_along
from autosched.features.batched.autosched_1.device.fetched import fetched_access
from autosched.features.batched.autosched_1.device.parts import part_access
from autosched.features.batched.autosched_1.packed_loops import PackedLoops
from autosched.features.batched.autosched_1.texts import TextAccess, either, text_access
from autosched.features.batched.forms import Flags, Form, Ints
from autosched.features.batched.nest import Nest
from autosched.features.batched.plan import UnsupportedError
from autosched.features.batched.stores import Floats, Store, Touched
from autosched.state.iterator import Annotation

_LARGEST = float(1 << 44)


class Facts:
    """The facts of one store.

    `present`, `extent`, `kind` and `thread` are by loop; `thread` is the annotation of a loop bound
    to a thread axis. `apart` tells which loops run their iterations at the same time. `inner` has
    the iterations by level, one entry more than loops. `used` tells by loop of the store itself
    (not packed) which loops the accesses use.

    `depth` has by level the number of loops outside. `accesses` are the accesses, the stored buffer
    first; for each of them, `elements` and `lines` are by level, `uses` is by loop, `runs` are
    contiguous bytes, and `texts` has the known facts of indices that are no forms. `places` are the
    index tuples that loops move, as (access, index tuple): the first of each access, then further
    ones at which some access reads; for each of them, `strides` are by loop. `uneven` tells by loop
    whether some place does not move evenly along it; there, `steps` and `blocks` have for each
    place the results of `step_along`, elsewhere the stride and 0.
    """

    def __init__(self, nest: Nest, store: Store, line: int) -> None:
        self.nest, self.store, self.forms = nest, store, nest.forms
        forms, loops = nest.forms, store.loops
        count, size = len(loops), nest.forms.count
        present: Flags = np.zeros((count, size), bool)
        extent: Ints = np.ones((count, size), np.int64)
        kind: Ints = np.zeros((count, size), np.int64)
        for j, loop in enumerate(loops):
            present[j] = loop.present
            extent[j] = loop.extent
            kind[j] = loop.kind
        bound = np.array([loop.thread for loop in loops], bool)
        self.packed = PackedLoops(present, bool(bound.any()))
        self.present: Flags = self.packed.loops(present)
        self.thread: tuple[int, ...] = (0,) * len(self.present)
        self.extent: Ints = np.where(self.present, self.packed.loops(extent, 1), 1)
        self.kind: Ints = np.where(self.present, self.packed.loops(kind), 0)
        self.depth: Ints = self.packed.depth
        self.inner: Ints = np.ones((len(self.present) + 1, size), np.int64)
        if len(self.present):
            self.inner[:-1] = products_from_last(self.extent)
            forms.refuse(
                self.extent.astype(np.float64).prod(axis=0) > _LARGEST, "more than 2**44 iterations"
            )
        self.iterations: Ints = self.inner[0]
        self.number: Ints = self.packed.number
        self.apart: Flags = self.present & (self.kind == Annotation.PARALLEL)
        if bound.any():
            self.thread = tuple([loop.thread for loop in loops])
            self.apart = self.apart | (self.present & bound[:, None])
        self.vector: Flags = self.present & (self.kind == Annotation.VECTORIZE)
        self.accesses = list(reversed(store.touched))
        if any(not access.tuples[0] for access in self.accesses):
            raise UnsupportedError("a buffer without dimensions")
        self.element_bytes = [nest.ops.buffers[a.buffer].bytes for a in self.accesses]
        self.storage = [storage_of(nest, a.buffer) for a in self.accesses]
        self.used: list[Flags] = [_uses(access, store, size) for access in self.accesses]
        self.uses: list[Flags] = [self.packed.loops(used) for used in self.used]
        self.texts = [
            _text(store, access, storage)
            for access, storage in zip(self.accesses, self.storage, strict=True)
        ]
        uneven: Flags = np.zeros((count, size), bool)
        others: list[tuple[int, int]] = []
        for k, text in enumerate(self.texts):
            others += [(k, number) for number in self._others(k, text)]
            self._plain(self.accesses[k], text, uneven)
        self.places = [*((k, 0) for k in range(len(self.accesses))), *others]
        uneven &= present
        self.uneven: Flags = self.packed.loops(uneven)
        strides = [
            self._along(self.accesses[k].tuples[number], self.storage[k])
            for k, number in self.places
        ]
        for (k, number), own in zip(self.places, strides, strict=True):
            text = self.texts[k]
            if text is not None:
                beside = np.where(text.added_to, own, 0)
                own[:] = np.where(text.where, text.strides[number] + beside, own)
        self.strides = [np.where(self.present, self.packed.loops(own), 0) for own in strides]
        self._note_steps(uneven, strides)
        self._measure(line)

    def _others(self, k: int, text: TextAccess | None) -> list[int]:
        """The index tuples of an access that differ from all those before them.

        Candidates that differ in this from most candidates are refused.
        """
        tuples, found = self.accesses[k].tuples, list[int]()
        if len(tuples) < 2:
            return found
        good = ~self.forms.bad
        shape = len(tuples), len(tuples[0]), self.forms.count
        bases = np.array([[form.base for form in one] for one in tuples]).reshape(shape)
        for number in range(1, len(tuples)):
            same = np.zeros(self.forms.count, bool)
            alike = np.all(bases[:number] == bases[number], axis=1).any(axis=1)
            for n in alike.nonzero()[0]:
                same |= self._same(tuples[number], tuples[n])
            if text is not None and text.again is not None:
                same = np.where(text.where & ~text.added_to, text.again[number], same)
            differ = good & ~same
            if 2 * np.count_nonzero(differ) > np.count_nonzero(good):
                found.append(number)
                differ = ~differ
            self.forms.refuse(differ, "several reads of one buffer at different indices")
        return found

    def _same(self, one: Sequence[Form], other: Sequence[Form]) -> Flags:
        """Where two index tuples are written alike."""
        pairs = zip(one, other, strict=True)
        found: Flags = np.all([self.forms.same(a, b) for a, b in pairs], axis=0)
        return found

    def _plain(self, access: Touched, text: TextAccess | None, uneven: Flags) -> None:
        """Record in `uneven` where the indices of the access are digits of a loop."""
        plain: Flags | bool = True if text is None else ~text.where | text.added_to
        for index in access.tuples:
            for form in index:
                for slot, term in form.every():
                    j = self.store.at.get(slot)
                    if j is not None:
                        uneven[j] |= plain & self.forms.is_digit(slot, term)
        if text is not None:
            uneven |= text.where & text.uneven

    def _note_steps(self, uneven: Flags, strides: list[Ints]) -> None:
        """Compute how places move along uneven loops."""
        none = np.zeros_like(self.extent)
        self.steps = self.strides
        self.blocks = [none] * len(strides)
        if not uneven.any():
            return
        self.steps, self.blocks = [], []
        for (k, number), own in zip(self.places, strides, strict=True):
            index, text = self.accesses[k].tuples[number], self.texts[k]
            steps, blocks = own.copy(), np.zeros_like(own)
            for j, loop in enumerate(self.store.loops):
                if loop.thread or not uneven[j].any():  # the nest of the code is inside all threads
                    continue
                step, block = steps_along(self.forms, index, self.storage[k], loop.slot)
                if text is not None:
                    told = text.where & (text.uneven[j] | ~text.added_to)
                    beside = np.where(told, 0, step)
                    step = np.where(text.where, text.steps[number, j] + beside, step)
                    block = np.where(told, text.blocks[number, j], block)
                steps[j] = np.where(uneven[j], step, steps[j])
                blocks[j] = np.where(uneven[j], block, 0)
            self.steps.append(np.where(self.present, self.packed.loops(steps), 0))
            self.blocks.append(self.packed.loops(blocks))

    def _along(self, index: list[Form], storage: list[Ints]) -> Ints:
        """Elements between the first two iterations of each loop of the store, without packing."""
        found = np.zeros((len(self.store.loops), self.forms.count), np.int64)
        scale: Ints | int = 1
        for d in range(len(index) - 1, -1, -1):
            for slot, term in index[d].every():
                j = self.store.at.get(slot)
                if j is not None:
                    found[j] += np.where(term.lower > 1, 0, term.scale) * scale
            scale = scale * np.maximum(storage[d], 1)
        return found

    def _measure(self, line: int) -> None:
        forms = self.forms
        self.within: Floats = np.ones(forms.count)
        self.elements: list[Ints] = []
        self.lines: list[Ints] = []
        self.runs: list[Ints] = []
        self.bytes: Ints = np.zeros_like(self.inner)
        for access, text, storage, size in zip(
            self.accesses, self.texts, self.storage, self.element_bytes, strict=True
        ):
            region = [self._region(forms) for forms in zip(*access.tuples, strict=True)]
            if text is not None:
                pairs = zip(text.inside, text.regions, region, strict=True)
                region = [
                    np.where(where, self.packed.levels(own), other) for where, own, other in pairs
                ]
            elements = np.ones_like(self.inner)
            for dim, extent in zip(region, self.nest.shapes[access.buffer], strict=True):
                elements = elements * dim
                self.within = np.minimum(self.within, extent / dim[0])
            run, runs = _run(region, storage, size)
            lines = runs * -(-run // line)
            short = (run < line) & (runs > 1)
            if short.any():
                close = np.minimum(runs, _span_lines(region, storage, size, line))
                lines = np.where(short, close, lines)
            self.elements.append(elements)
            self.lines.append(lines)
            self.runs.append(run[0] if len(run) else forms.full(size))
            self.bytes += lines * line

    def _region(self, places: Sequence[Form]) -> Ints:
        """The extent of an index by level, over all its places."""
        if len(places) == 1:
            return 1 + self._reach(places[0], np.abs)
        lows = [form.base + self._reach(form, _down) for form in places]
        highs = [form.base + self._reach(form, _up) for form in places]
        runs = np.zeros(self.inner.shape, bool)  # without a running loop, the extent counts as 1
        runs[:-1] = sums_from_last(self.present.astype(np.int64)) > 0
        found: Ints = np.where(runs, 1 + np.max(highs, axis=0) - np.min(lows, axis=0), 1)
        return found

    def _reach(self, form: Form, part: Callable[[Ints], Ints]) -> Ints:
        """How far the index moves by level, with `part` (say, its absolute value) of each
        stride."""
        loops = self.store.loops
        reach = np.zeros((len(loops), self.forms.count), np.int64)
        for slot, term in form.every():
            j = self.store.at.get(slot)
            if j is not None:
                last = loops[j].extent - 1
                if term.upper is not self.forms.whole or term.lower is not self.forms.one:
                    digit = self.forms.is_digit(slot, term)
                    last = np.where(digit, self.forms.largest(slot, term), last)
                reach[j] += part(term.scale) * last
        found = np.zeros_like(self.inner)
        found[:-1] = sums_from_last(np.where(self.present, self.packed.loops(reach), 0))
        return found

    def note_touched(self) -> None:
        """Write the elements and bytes touched under each loop into the store, for `Tables`."""
        memory: Ints = np.zeros((len(self.store.loops), self.forms.count), np.int64)
        for access, elements, size in zip(
            self.accesses, self.elements, self.element_bytes, strict=True
        ):
            sizes = self.packed.unpacked(elements)
            access.sizes = list(sizes)
            memory += sizes * size
        self.store.memory = list(memory)

    def outside(self, level: Ints) -> Ints:
        """The level of the loop around each given level: the next present loop further out."""
        last = np.zeros_like(level)
        for j in range(len(self.present)):
            last = np.where(self.present[j] & (j < level), j, last)
        return last

    def fits(self, capacity: int) -> Ints:
        """The outermost level such that its data, and the data of all levels inside, fit."""
        level = self.forms.full(len(self.present))
        fits = np.ones(self.forms.count, bool)
        for j in range(len(self.present) - 1, -1, -1):
            fits = fits & (self.bytes[j] <= capacity)
            level = np.where(fits, j, level)
        return level

    @overload
    def at(self, table: Ints, level: Ints) -> Ints: ...
    @overload
    def at(self, table: Floats, level: Ints) -> Floats: ...
    def at(self, table: Ints | Floats, level: Ints) -> Ints | Floats:
        """For each candidate, the entry of a table at its level."""
        found: Ints | Floats = table.take(level * self.forms.count + self.forms.every)
        return found

    def level_of(self, depth: Ints) -> Ints:
        """The first level at a depth."""
        found: Ints = (self.depth < depth).sum(axis=0)
        return found


def _down(scale: Ints) -> Ints:
    found: Ints = np.minimum(scale, 0)
    return found


def _up(scale: Ints) -> Ints:
    found: Ints = np.maximum(scale, 0)
    return found


def _uses(access: Touched, store: Store, count: int) -> Flags:
    """By loop of the store, whether the access uses the loop's variable."""
    found: Flags = np.zeros((len(store.loops), count), bool)
    if access.written:
        for j, loop in enumerate(store.loops):
            found[j] = access.uses(loop.slot, count)
        return found
    for indices in access.tuples:
        for form in indices:
            for slot, term in form.every():
                at = store.at.get(slot)
                if at is not None:
                    found[at] |= term.scale != 0
    return found


def _text(store: Store, access: Touched, storage: list[Ints]) -> TextAccess | None:
    """The facts of the access for the candidates that have a text in it; None without texts."""
    if not access.written:
        return None
    found, where = fetched_access(store, access, storage)
    on_device = store.stage.context.forms.virtual or any(loop.thread for loop in store.loops)
    rest = part_access if store.ops.parts and on_device else text_access
    return either(found, rest(store, access, storage, where))


def storage_of(nest: Nest, buffer: int) -> list[Ints]:
    """The extents of a buffer's storage: its realised region, else its shape, as for an output."""
    stages = [stage for stage in nest.stages.values() if stage.ops.buffer == buffer]
    if len(stages) == 1:
        return stages[0].extents
    return nest.shapes[buffer]


def _run(region: list[Ints], storage: list[Ints], size: int) -> tuple[Ints, Ints]:
    """By level, the contiguous bytes of a region, and the number of such runs."""
    if not region:
        return np.full((1, 1), size, np.int64), np.ones((1, 1), np.int64)
    run: Ints = size * region[-1]
    runs = np.ones_like(run)
    joins: Flags = region[-1] == storage[-1]
    for d in range(len(region) - 2, -1, -1):
        run = np.where(joins, run * region[d], run)
        runs = np.where(joins, runs, runs * region[d])
        joins = joins & (region[d] == storage[d])
    return run, runs


def _span_lines(region: list[Ints], storage: list[Ints], size: int, line: int) -> Ints:
    span: Ints = np.ones_like(region[0])
    scale: Ints | int = 1
    for d in range(len(region) - 1, -1, -1):
        span = span + (region[d] - 1) * scale
        scale = scale * np.maximum(storage[d], 1)
    return -(-span * size // line)
