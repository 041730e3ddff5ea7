"""KeepOperand: compute the operand of a product once, in the space `autosched` on CPUs.

R[i, k] = gelu(X[i, k])                         for i, k: R[i, k] = gelu(X[i, k])
Y[i, j] = sum(k, R[i, k] * B[k, j])      ->     for i.0, j.0, k.0, i.1, j.1 ...:
                                                  Y[i, j] += R[i, k] * B[k, j]

Ansor inlines all element-by-element stages but exponentials: each tile of Y then computes the
functions, quotients and conversions of X again. An operand that is kept can also be computed from
the tiles of a product before it, and be stored instead of that product.
"""

from __future__ import annotations

import math

from autosched.search.rules.blocking import LEAST_REUSE, extent_of
from autosched.search.rules.protocol import Context, Decision, FunctionRule
from autosched.state import queries
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.tir.expr import BinaryExpr, Call, Expr, ProducerLoad
from autosched.tir.walk import free_vars


def is_operand(state: State, stage_id: int) -> bool:
    """Whether a stage that is to be tiled reads the stage."""
    return any(
        queries.needs_multi_level_tiling(state, k) for k in queries.consumers(state, stage_id)
    )


def _is_worth_keeping(context: Context, state: State, stage_id: int) -> Decision:
    """Apply to an operand of floats that would be inlined, if it is worth keeping.

    It is if it is computed from the results of a product, or if it has arithmetic that would be
    repeated LEAST_REUSE times or more.
    """
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or op.reduce_axis or not op.output(0).dtype.is_float:
        return Decision.SKIP
    if not queries.is_strictly_inlineable(state, stage_id) or not is_operand(state, stage_id):
        return Decision.SKIP
    of_product = any(
        queries.needs_multi_level_tiling(state, k)
        and queries.has_reduce_iter(state, k)
        and queries.elementwise_match(state, k, stage_id)
        for k in queries.producers(state, stage_id)
    )
    costs = any(map(_computes, op.body)) and _reuse(state, stage_id) >= LEAST_REUSE
    return Decision.APPLY_AND_SKIP_REST if of_product or costs else Decision.SKIP


def _computes(e: Expr) -> bool:
    """Whether an expression has arithmetic outside of indices."""
    if isinstance(e, ProducerLoad):
        return False
    return isinstance(e, BinaryExpr | Call) or any(map(_computes, e.children()))


def _reuse(state: State, stage_id: int) -> int:
    """For how many results a reader reads each element; the least number over all readers."""
    op = state.stages[stage_id].op
    return min(_times(state.stages[k].op, op) for k in queries.consumers(state, stage_id))


def _times(reader: Operation, operand: Operation) -> int:
    assert isinstance(reader, ComputeOp)
    loads = reader.loads
    moved = {
        v
        for load in loads
        if load.producer.op is operand
        for e in load.indices
        for v in free_vars(e)
    }
    return math.prod(extent_of(a.dom.extent) for a in reader.axis if a.dom and a.var not in moved)


KEEP_OPERAND = FunctionRule(
    "KeepOperand", _is_worth_keeping, lambda _, state, stage_id: [(state, stage_id - 1)]
)
