"""Find where loads of a value become equal in a way that simplifies the value.

A[i, j] + A[j, i]   ->   A[i, i] * 2        where i and j are one loop, or both have extent 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.ops import StoreOps
from autosched.features.batched.value_parts import simplified_value
from autosched.features.walk.count import count_ops
from autosched.te.operations.operation import tensor_loads
from autosched.tir.expr import Expr, Var
from autosched.tir.walk import rewrite_expr

Lost = Mapping[tuple[int, int], tuple[Flags, Ints]]


def simpler_when_merged(
    forms: Forms, ops: StoreOps, loaded: Sequence[Sequence[Form]], lost: Lost, as_ansor: bool
) -> Flags:
    """Where loads of the value read one element, for which simplification changes the value.

    `loaded` are the forms of the indices of each load. An index that is `lost` is no form, and is
    taken to be equal to any other.
    """
    pairs = {
        (a, b): equal
        for a, b in ops.may_merge
        if (equal := _equal(forms, loaded, lost, a, b)).any()
    }
    if not pairs:
        return np.zeros(forms.count, bool)
    patterns, which = np.unique(np.stack(list(pairs.values())), axis=1, return_inverse=True)
    changed = []
    for pattern in patterns.T:
        merged = [pair for pair, equal in zip(pairs, pattern, strict=True) if equal]
        changed.append(_changes(ops, merged, as_ansor))
    simpler: Flags = np.array(changed)[which.reshape(-1)]
    return simpler


def _equal(forms: Forms, loaded: Sequence[Sequence[Form]], lost: Lost, a: int, b: int) -> Flags:
    """Where loads a and b read one element."""
    found: Flags = np.ones(forms.count, bool)
    for d, (mine, other) in enumerate(zip(loaded[a], loaded[b], strict=True)):
        same: Flags = mine.base == other.base
        if same.any():
            same = forms.same(mine, other)
        for number in (a, b):
            if (number, d) in lost:
                same = same | lost[number, d][0]
        found = found & same
        if not found.any():
            break
    return found


def _changes(ops: StoreOps, merged: Sequence[tuple[int, int]], as_ansor: bool) -> bool:
    """Whether the value has other operations once the second load of each pair is the first."""
    loads = tensor_loads(ops.value)
    instead: dict[Expr, Expr] = {}
    for a, b in merged:
        first = loads[ops.places[a]]
        instead[loads[ops.places[b]]] = instead.get(first, first)
    simple = simplified_value(rewrite_expr(ops.value, instead.get), as_ansor)
    return _count_outside(simple) != _count_outside(ops.value)


def _count_outside(value: Expr) -> list[int]:
    """The operations of a value outside of the indices of its loads."""
    loads: dict[Expr, Expr] = {load: Var("load", load.dtype) for load in tensor_loads(value)}
    return count_ops(rewrite_expr(value, loads.get))
