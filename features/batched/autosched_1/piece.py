"""The stores of a population, with what is to be known of each before its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autosched.features.batched.autosched_1.kept import Kept
from autosched.features.batched.autosched_1.surroundings import Surroundings
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.nest import Nest, Population
from autosched.features.batched.stores import Floats, Store


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
    """A store with what surrounds it. Where `together`, the pieces `beside`, by number, are all
    that is in its sequence.

    `share` is the part of its iterations that are made (None: all), `sparse` what is left of a sum
    of what is zero but for remainders. On a GPU, `guards` has for each of the conditions around it
    how many loops are around that (-1: there is none), and `launch` what it runs on.
    """

    store: Store
    around: Surroundings
    beside: tuple[int, ...]
    together: Flags
    guards: Sequence[Ints] = ()
    share: Floats | None = None
    launch: Launch | None = None
    sparse: SparseSum | None = None


@dataclass(eq=False)
class Ready:
    """A population whose nest is made: the stores, and the candidates that keep a stage's values in
    an output, which are to be made again."""

    nest: Nest
    population: Population
    stores: list[Store]
    kept: list[Kept]

    @property
    def left(self) -> Flags:
        """Where nothing is made again."""
        found = ~self.nest.forms.bad
        for kept in self.kept:
            found = found & ~kept.where
        return found
