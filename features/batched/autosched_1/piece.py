"""The stores of a population, and the copies of them that passes make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.features.batched.autosched_1.cut_texts import CutText, IndexTexts
from autosched.features.batched.autosched_1.kept import Kept
from autosched.features.batched.autosched_1.surroundings import Surroundings
from autosched.features.batched.autosched_1.values import Chosen
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.nest import Nest, Population
from autosched.features.batched.stores import Floats, Store
from autosched.tir.expr import Var


@dataclass(frozen=True, eq=False)
class Launch:
    """What a GPU runs a store on: blocks, threads of each and virtual threads; and bytes of its
    kernel's shared memory, and of a thread's local one."""

    blocks: Ints
    threads: Ints
    virtual: Ints
    shared: Ints
    local: Ints


@dataclass(frozen=True, eq=False)
class SparseSum:
    """A sum in one of its nests: the store in fewer loops, and which of all loops are left out,
    outermost first."""

    store: Store
    gone: list[Flags]
    present: list[Flags]

    def outside(self, depth: Ints) -> Ints:
        """How many of the loops that are outside a depth of all of them are left."""
        found, level = depth, np.zeros_like(depth)
        for gone, present in zip(self.gone, self.present, strict=True):
            found = found - (gone & (level < depth))
            level = level + present
        return found


@dataclass(eq=False)
class Piece:
    """A store, or a copy of one, with what surrounds it. Where `together`, the pieces `beside`, by
    number, are all that is in its sequence. `correction` has what a cut changes in the counters of
    indices, one of what `texts` say, `compared` by axis what changes in comparisons.

    `exists` says which candidates have this copy, `guards` how many loops are around each of the
    conditions that it is in (-1: none more). Of a copy with a border, `chosen` says what becomes of
    its value, `simplifies` where its conditions have the whole program simplified, and `share` the
    part of its iterations in which its branches are taken (None: all). On a GPU, `guards` are all
    conditions, and `launch` what it runs on. `added` is what a cut adds to the loops, by slot, that
    limits of a window ask for; `same_as` the number of a piece that has all but what surrounds it
    in common. `sparse` is what is left of a sum of what is zero but for remainders.
    """

    store: Store
    around: Surroundings
    beside: tuple[int, ...]
    together: Flags
    correction: Ints | None = None
    exists: Flags | None = None
    chosen: Chosen | None = None
    guards: Sequence[Ints] = field(default_factory=list)
    simplifies: Flags | None = None
    share: Floats | None = None
    launch: Launch | None = None
    texts: IndexTexts | None = None
    compared: Mapping[Var, CutText] = field(default_factory=dict)
    added: Mapping[int, Ints] = field(default_factory=dict)
    same_as: int | None = None
    sparse: SparseSum | None = None


@dataclass(eq=False)
class Ready:
    """A population whose nest is made: the stores, candidates refused for their conditions, and
    those that keep a stage's values in an output, which are to be made again."""

    nest: Nest
    population: Population
    stores: list[Store]
    conditional: Flags
    kept: list[Kept]

    @property
    def left(self) -> Flags:
        """Where no loop is cut, and nothing is made again."""
        found = ~(self.nest.forms.bad | self.conditional)
        for kept in self.kept:
            found = found & ~kept.where
        return found
