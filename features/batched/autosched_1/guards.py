"""Conditions that depend on loaded values: `transform/vector/conditions.py` as arrays.

for i in 8: Y[i] = if_then_else(A[i] > 0, A[i], 0)   lanes that begin with i cannot grow
"""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np

from autosched.features.batched.forms import Flags
from autosched.features.batched.stores import Store
from autosched.te.operations.operation import tensor_loads
from autosched.tir.expr import Call, Expr
from autosched.tir.walk import pre_order
from autosched.transform.vector.vectorize_expr import conjuncts


def guarded_along(store: Store, count: int) -> tuple[Flags, Flags, Flags]:
    """Three tables by loop around the store.

    Whether what a condition guards varies along the loop, whether the condition does, and whether
    the iterations then have no vector form.
    """
    varies, asks, alone = np.zeros((3, len(store.loops), count), bool)
    guarded = [e for e in pre_order(store.ops.value) if _is_choice(e)]
    if guarded:
        uses = _uses_of_loads(store, count)
        for part in guarded:
            own = _along(part, uses, varies)
            conditions = [_along(c, uses, varies) for c in conjuncts(part.children()[0])]
            asked: Flags = np.any(conditions, axis=0)
            together = [
                reduce(or_, [c[j] & c for c in conditions]) for j in range(len(store.loops))
            ]
            for arm in part.children()[1:]:
                for load in tensor_loads(arm):
                    used = uses[id(load)]
                    for j, vector in enumerate(together):
                        alone[j] |= asked[j] & ~used[j] & np.any(vector & used, axis=0)
            if any(isinstance(e, Call) or id(e) in uses for e in pre_order(part.children()[2])):
                alone |= asked & ~np.all(conditions, axis=0)
            varies, asks = varies | own, asks | asked
    return varies, asks, alone


def _is_choice(e: Expr) -> bool:
    return isinstance(e, Call) and e.op == "if_then_else"


def _along(e: Expr, uses: dict[int, Flags], like: Flags) -> Flags:
    """By loop, whether it is in an index of a load in `e`."""
    return reduce(or_, [uses[id(load)] for load in tensor_loads(e)], np.zeros_like(like))


def _uses_of_loads(store: Store, count: int) -> dict[int, Flags]:
    """For each load in the value, by its id: by loop, whether its index uses the loop."""
    loads = tensor_loads(store.ops.value)
    numbers = {place: number for number, place in enumerate(store.ops.places)}
    return {
        id(load): np.array(
            [store.load_uses(numbers.get(k), loop.slot, count) for loop in store.loops], bool
        ).reshape(len(store.loops), count)
        for k, load in enumerate(loads)
    }
