"""The facts that feature set `autosched-1` records of one store during the walk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.features.ansor.slots import reuse_of
from autosched.features.autosched_1.locality import Locality, locality
from autosched.features.autosched_1.machine import Machine
from autosched.features.walk.access import accesses_of
from autosched.features.walk.count import count_mads, count_ops
from autosched.features.walk.scope import Access, Loop, Siblings
from autosched.features.walk.strides import Coefficients, Index, Strides
from autosched.features.walk.visitor import VTHREAD, Nest
from autosched.tir.expr import Expr, Var
from autosched.tir.stmt import BufferStore
from autosched.transform.vector.instructions import step_weight

_FLOAT_MAD, _FLOAT_ADDSUB, _FLOAT_MUL = range(3)


@dataclass(slots=True)
class Reuse:
    """Why an element is accessed again, after how many iterations and bytes, and how often."""

    kind: str
    iterations: float
    bytes: float
    count: float


@dataclass(slots=True)
class StoreFacts:
    """The facts of one store.

    `accesses` are in order of appearance, the stored buffer first. `strides` has for each access
    its stride along every loop, `reuse` how it is reused.

    `loops` are the enclosing loops, outermost first, `iterations` the product of their extents,
    `outermost` the outermost loop around the store (None without loops). `counts` are the
    operations of one iteration, `instructions` the instructions for a vector besides loads.
    `guards` is the number of loops around each condition. `launch`, `step` and `siblings` are
    copied from the walk. `floor` is the number of loops outside the perfect nest around the store
    `stmt`.

    `others` are the further places that accesses read: position of the access, index tuple and
    strides. Some access has no even stride along the variables `uneven`. `constant` is the constant
    part of the stored address.

    A store that leaves iterations out runs a `share` of them. If it is a sum, `whole` is the store
    with all iterations, and `outside` has for every depth of the loops of `whole` how many of them
    remain (`sparse_sums.py`).
    """

    stmt: BufferStore
    loops: list[Loop]
    outermost: Loop | None
    iterations: int
    accesses: list[Access]
    strides: list[list[int]]
    locality: Locality
    reuse: list[Reuse]
    counts: list[int]
    instructions: float
    guards: list[int]
    launch: list[float]
    step: int
    floor: int
    siblings: Siblings | None
    others: list[tuple[int, Index, list[int]]]
    uneven: frozenset[Var]
    constant: int
    share: float = 1.0
    whole: StoreFacts | None = None
    outside: Sequence[int] = ()

    @property
    def runs(self) -> float:
        """The number of iterations that are not left out."""
        return self.iterations * self.share

    @property
    def stored(self) -> Access:
        """The access of the stored buffer."""
        return self.accesses[0]

    @property
    def reduces(self) -> bool:
        """Whether the store accumulates: some loop does not move the element that it updates."""
        return self.stored.kind == "kReadWrite" and any(
            loop.extent > 1 and loop.var not in self.stored.used for loop in self.loops
        )

    def operations(self, kinds: range) -> int:
        """The operations of one iteration, a multiply-add as two; `kinds` index
        names.OP_COUNTERS."""
        return sum(self.counts[kinds.start : kinds.stop]) + (
            self.counts[_FLOAT_MAD] if _FLOAT_MAD in kinds else 0
        )


def store_facts(
    stmt: BufferStore, nest: Nest, machine: Machine, known: dict[Expr, Coefficients]
) -> StoreFacts:
    """Analyse the store.

    Adds the store's entries to the touch tables of its loops, and its indices to `known`.
    """
    accesses = list(reversed(accesses_of(stmt, nest)))
    loops = _distinct(nest.loops, accesses)
    strides = Strides(loops, known)
    measured = locality(accesses, loops, machine.line)
    along = [strides.along(access) for access in accesses]
    return StoreFacts(
        stmt,
        loops,
        nest.loops[0] if nest.loops else None,
        measured.inner[0],
        accesses,
        along,
        measured,
        [Reuse(*reuse_of(access, loops)) for access in accesses],
        _counts(stmt),
        step_weight(stmt.value),
        list(nest.guards),
        list(nest.launch),
        nest.step,
        _kept(nest.floor, nest.loops, loops),
        nest.siblings if len(loops) == len(nest.loops) else None,
        _others(accesses, strides),
        frozenset([var for access in accesses for var in strides.uneven(access)]),
        strides.constant(accesses[0]),
    )


def _others(accesses: Sequence[Access], strides: Strides) -> list[tuple[int, Index, list[int]]]:
    """The places that accesses read besides their first one."""
    return [
        (k, index, strides.of(index, access))
        for k, access in enumerate(accesses)
        if len(access.indices) > 1
        for index in dict.fromkeys(access.indices)
        if index != access.indices[0]
    ]


def _kept(floor: int, loops: Sequence[Loop], kept: Sequence[Loop]) -> int:
    """How many of the first `floor` of `loops` are among `kept`."""
    if len(loops) == len(kept):
        return floor
    return sum(any(loop is other for other in kept) for loop in loops[:floor])


def _counts(stmt: BufferStore) -> list[int]:
    """The counters of names.OP_COUNTERS; a sum with a product counts as one multiply-add."""
    counts = count_ops(stmt.value)
    if not counts[_FLOAT_ADDSUB] or not counts[_FLOAT_MUL]:
        return counts
    mads = min(count_mads(stmt.value), counts[_FLOAT_ADDSUB], counts[_FLOAT_MUL])
    counts[_FLOAT_MAD] = mads
    counts[_FLOAT_ADDSUB] -= mads
    counts[_FLOAT_MUL] -= mads
    return counts


def _distinct(loops: Sequence[Loop], accesses: Sequence[Access]) -> list[Loop]:
    """The loops; of several attributes of one thread axis, only the innermost.

    A cooperative fetch names the kernel's axes again: they are the same threads, not additional
    ones.
    """
    if not any(loop.thread for loop in loops):
        return list(loops)
    used = {var for access in accesses for var in access.used}
    last = {loop.thread: loop for loop in loops if loop.thread not in (0, VTHREAD)}
    return [
        loop
        for loop in loops
        if last.get(loop.thread, loop) is loop or (loop.var in used and loop.extent > 1)
    ]
