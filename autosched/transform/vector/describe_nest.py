"""Describe a loop nest by the numbers that its plan is made from."""

from __future__ import annotations

from collections.abc import Collection

from autosched.nest.loop_nest import InnerLoop, LoopNest
from autosched.tir.expr import Add, BufferLoad, Expr, IntImm, Ramp, Var
from autosched.tir.linear import linear
from autosched.tir.walk import distinct, free_vars
from autosched.transform.vector.conditions import Load, conditions_along, guarded_parts
from autosched.transform.vector.index_steps import step_along
from autosched.transform.vector.reduction_nest import Nest, folded_term


def describe_nest(nest: Nest, barred: Collection[int] = ()) -> LoopNest:
    """The loops of `nest`, the strides of its store and reads along them, and its present lanes.

    The loops at the positions `barred` cannot become lanes.
    """
    reads = _reads(nest)
    steps, apart, terms = [], [], []
    for read in reads:
        step, even, moving = _lanes_of(read.indices[0])
        steps.append(step)
        apart.append(not even)
        terms.append(moving)
    parts = guarded_parts(nest.value)

    def blocks(load: Load, var: Var) -> int:
        return step_along(_lanes_of(load.indices[0])[2], var)[1]

    loops = []
    for k, axis in enumerate(nest.axes):
        along = [step_along(t, axis.var) for t in terms]
        lengths = tuple(length for _, length in along)
        conditions = conditions_along(parts, axis.var, blocks)
        loops.append(
            InnerLoop(
                axis.extent,
                axis.stride,
                tuple(step for step, _ in along),
                blocks=lengths if any(lengths) else (),
                lanes=1 if k in barred else conditions.lanes,
                conditional=conditions.conditional,
            )
        )
    return LoopNest(
        tuple(loops),
        nest.width,
        tuple(steps),
        apart=tuple(apart) if any(apart) else (),
        closed=any(part.dtype.lanes > 1 for part in parts),
    )


def can_fold(nest: Nest, reassociate: bool) -> bool:
    """Whether partial results of the reduction may be added up in another order.

    For a sum of floats that changes the result, and needs `reassociate`.
    """
    if isinstance(nest.value, Add) and nest.value.dtype.is_float and not reassociate:
        return False
    return folded_term(nest) is not None


def _reads(nest: Nest) -> list[BufferLoad]:
    """The distinct loads of a step, except the loads of the output."""
    found: dict[BufferLoad, None] = {}
    for e in distinct(nest.value):
        if isinstance(e, BufferLoad) and e.buffer.data is not nest.buffer.data:
            found[e] = None
    return list(found)


def _lanes_of(index: Expr) -> tuple[int, bool, dict[Expr, int]]:
    """The distance between an index's lanes, whether it is constant, and the terms that move it."""
    match index:
        case Ramp(base, IntImm(stride), _):
            return stride, True, linear(base)[1]
    if index.dtype.lanes == 1:
        return 0, True, linear(index)[1]
    return 0, False, dict.fromkeys(free_vars(index), 1)
