"""Describe a sum whose terms are zero except at some remainders by one of its loop nests.

    for h in 16: for r in 4: Y[h] = Y[h] + P[h + r] * K[r]       (P[i] is zero unless i % 2 == 0)

The code generator makes one nest for the outputs of each remainder, with only the steps whose terms
count (SkipZeros). These nests differ only in where they begin. The store counted here is in one of
them, whose loops take every second iteration, and runs as often as all of them together, here
twice:

    for h in 8: for r in 2: Y[h * 2] = Y[h * 2] + P[h * 2 + r * 2] * K[r * 2]

The copies to P stay as they are, but only the copies that are read count. Analysing the nests
themselves takes three to seven times as long, and ranks candidates no better (0.794 and 0.786 of
the pairs of five transposed convolutions).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

from autosched.features.autosched_1.machine import Machine
from autosched.features.autosched_1.store import StoreFacts, store_facts
from autosched.features.walk.scope import Loop
from autosched.features.walk.visitor import Nest
from autosched.tir.expr import Expr, Var
from autosched.tir.op import const, mul
from autosched.tir.stmt import BufferStore, ForKind
from autosched.tir.walk import free_vars, substitute
from autosched.transform.loops.known_zeros import Pattern, Residue, zero_steps

Patterns = Mapping[Var, Sequence[Pattern]]


class SparseSum(NamedTuple):
    """One of the nests that a sum becomes.

    `store` is the store in that nest, `loops` the loops around it without those that run once.
    `outside[d]` is how many of the sum's d outermost loops are among `loops`. `times` is how often
    the nest's iterations run.
    """

    store: BufferStore
    loops: list[Loop]
    outside: list[int]
    times: float


def sparse_sum(store: BufferStore, loops: Sequence[Loop], patterns: Patterns) -> SparseSum | None:
    """The sum inside these loops (outermost first) as one nest; None if it leaves no terms out."""
    followed = [r for r in zero_steps(store, patterns) if _is_followed(r, store, loops)]
    if not followed:
        return None
    period = {loop.var: 1 for loop in loops if loop.counted}
    for residue in followed:
        for term, factor in residue.terms.items():
            if isinstance(term, Var) and term in period:
                own = residue.modulus // math.gcd(factor, residue.modulus)
                period[term] = math.lcm(period[term], own)
    found = [_strided(loop, period.get(loop.var, 1)) for loop in loops]
    outside = [0]
    for loop in found:
        outside.append(outside[-1] + (loop is not None))
    kept = [loop for loop in found if loop is not None]
    every = math.prod([loop.extent for loop in loops])
    some = math.prod([loop.extent for loop in kept])
    times = every / (some * math.prod([residue.modulus for residue in followed]))
    values: dict[Var, Expr] = {
        loop.var: const(0, loop.var.dtype)
        if own is None
        else mul(loop.var, const(period[loop.var], loop.var.dtype))
        for loop, own in zip(loops, found, strict=True)
        if own is not loop
    }
    return SparseSum(_replaced(store, values), kept, outside, times)


def sparse_facts(store: BufferStore, sparse: SparseSum, nest: Nest, machine: Machine) -> StoreFacts:
    """The facts of the store in one nest of its sum; `whole` has those of all its iterations."""
    around = copy(nest)
    around.loops = [replace(loop, table={}) for loop in nest.loops]
    whole = store_facts(store, around, machine, {})
    inside = copy(nest)
    inside.loops, inside.guards = sparse.loops, [sparse.outside[depth] for depth in nest.guards]
    inside.floor, inside.siblings = sparse.outside[nest.floor], None
    facts = store_facts(sparse.store, inside, machine, {})
    return replace(
        facts, share=sparse.times, counts=whole.counts, whole=whole, outside=sparse.outside
    )


def _is_followed(residue: Residue, store: BufferStore, loops: Sequence[Loop]) -> bool:
    """Whether the sum becomes nests by this remainder: neither lanes nor loops over the last
    dimension of the output are split by it, unless such a loop is parallel."""
    last = free_vars(store.indices[-1])
    kept = {
        loop.var
        for loop in loops
        if loop.kind is ForKind.VECTORIZED
        or (loop.kind is not ForKind.PARALLEL and loop.var in last)
    }
    return all(kept.isdisjoint(free_vars(term)) for term in residue.terms)


def _strided(loop: Loop, period: int) -> Loop | None:
    """The loop with one of every `period` iterations; None if it then runs once."""
    if period == 1:
        return loop
    extent, low = -(-loop.extent // period), loop.span[0]
    return replace(loop, extent=extent, span=(low, low + extent - 1)) if extent > 1 else None


def _replaced(store: BufferStore, values: Mapping[Var, Expr]) -> BufferStore:
    indices = tuple([substitute(index, values) for index in store.indices])
    return BufferStore(store.buffer, substitute(store.value, values), indices, store.predicate)
