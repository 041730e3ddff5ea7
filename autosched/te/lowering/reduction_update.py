"""Parts of lowering a reduction: where its loops begin, and the update by one source element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.te.bounds.message_passing import pass_down_bit_mask
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor_compute import TensorComputeOp
from autosched.tir.expr import Expr, IterVar, ProducerLoad, Reduce, Var
from autosched.tir.stmt import BufferStore, ProducerStore, Stmt, let, seq
from autosched.tir.walk import combine, distinct

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

_DATA, _REDUCE = 1, 2


def split_point(stage: Stage, op: ComputeOp | TensorComputeOp) -> tuple[int, set[IterVar]]:
    """The number of leaf loops outside of all reduction loops, and the pure reduction itervars.

    A pure reduction itervar derives from reduction axes only.
    """
    masks = dict.fromkeys(op.reduce_axis, _REDUCE)
    masks.update(dict.fromkeys(op.axis, _DATA))
    pass_down_bit_mask(stage, masks)
    leaves = stage.leaf_iter_vars
    common = next((k for k, iv in enumerate(leaves) if masks[iv] & _REDUCE), len(leaves))
    return common, {iv for iv, mask in masks.items() if mask == _REDUCE}


def assignments(op: ComputeOp, reduce: Reduce) -> Stmt:
    """The stores of combine(current element, source) to the outputs of `op`, at its axes."""
    indices = tuple(iv.var for iv in op.axis)
    parts = tuple(r.value_index for r in op.body if isinstance(r, Reduce))
    current: list[Expr] = list(reduce.combiner.lhs)
    for tensor, part in zip(op.outputs, parts, strict=True):
        current[part] = ProducerLoad(tensor, indices)
    combined = combine(reduce.combiner, tuple(current), reduce.source)
    return store_in_order(
        [ProducerStore(t, combined[k], indices) for t, k in zip(op.outputs, parts, strict=True)],
        [current[k] for k in parts],
    )


def store_in_order(
    updates: Sequence[ProducerStore | BufferStore], elements: Sequence[Expr]
) -> Stmt:
    """The `updates` in sequence; `elements[k]` is the load of the element that update k overwrites.

    When the value of an update reads an element that an earlier update overwrites, all values are
    computed before the first store. (Ansor does not do that and miscompiles such reductions.)
    """
    overwritten: set[Expr] = set()
    clash = False
    for update, element in zip(updates, elements, strict=True):
        clash = clash or any(node in overwritten for node in distinct(update.value))
        overwritten.add(element)
    if not clash:
        return seq(*updates)
    lets: list[tuple[Var, Expr]] = []
    stores: list[Stmt] = []
    for k, update in enumerate(updates):
        var = Var(f"updated_{k}", update.value.dtype)
        lets.append((var, update.value))
        if isinstance(update, ProducerStore):
            stores.append(ProducerStore(update.producer, var, update.indices))
        else:
            stores.append(BufferStore(update.buffer, var, update.indices))
    return let(lets, seq(*stores))
