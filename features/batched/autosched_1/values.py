"""What a stored value says of its code, whatever the loops around it."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.features.batched.ops import ProgramOps, StageOps, StoreOps, loads_of
from autosched.features.batched.plan import UnsupportedError
from autosched.features.walk.count import count_mads
from autosched.tir.expr import Add, Expr, Max, Min, ProducerLoad, Var
from autosched.transform.vector.instructions import step_weight


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """Its multiply-adds, the vector instructions of one iteration besides loads, whether it reads
    the element that is stored to, and whether it only adds something to that, or takes the larger
    or smaller."""

    mads: int
    weight: float
    updates: bool
    folds: bool


def value_facts(ops: StoreOps, stage: StageOps) -> ValueFacts:
    """Those of one store. Raises UnsupportedError where they depend on the candidate."""
    if ops.conditional:
        raise UnsupportedError("a value with conditions")
    value = ops.value
    own = _own_loads(ops)
    if any(load.indices != stage.axes[: stage.data] for load in own):
        raise UnsupportedError("an element read of the stored buffer that is another one")
    sides = (value.a, value.b) if isinstance(value, Add | Max | Min) else ()
    folds = len(own) == 1 and any(side is own[0] for side in sides)
    return ValueFacts(count_mads(value), step_weight(_bare(value)), bool(own), folds)


def _own_loads(ops: StoreOps) -> list[ProducerLoad]:
    """The loads of the buffer that is stored to."""
    found = []
    others = [indices for _, indices in ops.loads]
    for load in loads_of(ops.value):
        if others and load.indices is others[0]:
            del others[0]
        else:
            found.append(load)
    return found


def _bare(value: Expr) -> Expr:
    """The value with a variable for each load."""
    if isinstance(value, ProducerLoad):
        return Var("load", value.dtype)
    children = value.children()
    return value.with_children(tuple(map(_bare, children))) if children else value


def check_program(ops: ProgramOps) -> None:
    """Raises UnsupportedError for a program of which passes change the stores.

    ShareOutput keeps values in an output that reads them element by element after others did.
    """
    for stage in ops.stages:
        if not stage.is_output:
            continue
        own = stage.axes[: stage.data]
        read = {b for store in stage.stores for b, indices in store.loads if indices == own}
        for other in ops.stages:
            readers = [
                s
                for s in ops.stages
                for store in s.stores
                for b, _ in store.loads
                if b == other.buffer
            ]
            if other.buffer in read and other.scope != "local" and len(readers) > 1:
                raise UnsupportedError("values that may be kept in an output")
