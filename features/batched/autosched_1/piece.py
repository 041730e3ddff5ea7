"""The stores of a population, with the facts that their rows need."""

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
    """The launch of the kernel that a store is in.

    Blocks, threads of a block and virtual threads; bytes of shared memory of the kernel, and of
    local memory of a thread.
    """

    blocks: Ints
    threads: Ints
    virtual: Ints
    shared: Ints
    local: Ints


@dataclass(frozen=True, eq=False)
class SparseSum:
    """One of the nests that a sum becomes.

    `store` is the store in fewer loops. By loop of the sum, outermost first, `gone` tells where the
    loop is left out, `present` where it was there.
    """

    store: Store
    gone: list[Flags]
    present: list[Flags]

    def outside(self, depth: Ints) -> Ints:
        """How many of the `depth` outermost loops of the sum are left."""
        found, level = depth, np.zeros_like(depth)
        for gone, present in zip(self.gone, self.present, strict=True):
            found = found - (gone & (level < depth))
            level = level + present
        return found


@dataclass(eq=False)
class Piece:
    """A store with its surroundings.

    Where `together`, the pieces `beside`, by number, are all that is in its sequence. `share` is
    the share of its iterations that run (None: all). `sparse` is one nest of a sum whose terms are
    zero except at some remainders. On a GPU, `guards` has for each of the conditions around it the
    number of loops around the condition (-1: the candidate does not have it), and `launch` is the
    kernel's.
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
    """A population whose nest is built: its stores, and the candidates that keep a stage's values
    in an output, whose nests are to be built again."""

    nest: Nest
    population: Population
    stores: list[Store]
    kept: list[Kept]

    @property
    def left(self) -> Flags:
        """The candidates whose nests are not built again."""
        found = ~self.nest.forms.bad
        for kept in self.kept:
            found = found & ~kept.where
        return found
