"""Store constant inputs in the order in which a candidate reads them.

An operation lists the inputs whose layout may change in its attribute `layout_free_placeholders`
(tensors). For C[i,j] = sum_k A[i,k]*B[k,j] with B layout free, k split by 8 and j by 16, the loops
k.0, j.0, k.1, j.1 make B's new shape (K/8, N/16, 8, 16), which they read in order.

The caller passes the input in that order (FOR_PRE_TRANSFORMED), or a parallel stage of its own
transforms it first (INSERT_TRANSFORM_STAGE).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.arguments import instance
from autosched.errors import ConfigError
from autosched.layout import LayoutChange, LayoutOption
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import Annotation, Iterator, clean_name
from autosched.state.packed_inputs import PackedDAG, packed_input
from autosched.state.state import State
from autosched.state.steps import (
    AnnotationStep,
    CacheReadStep,
    ComputeAtStep,
    FuseStep,
    Step,
    inserted_stages,
)
from autosched.te.operations.compute import compute
from autosched.te.operations.graph import replace_inputs, rewrite_body
from autosched.te.operations.operation import (
    LAYOUT_FREE,
    ComputeOp,
    Operation,
    PlaceholderOp,
)
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.instruction_stages import INSTRUCTION, PACKED
from autosched.tir.constants import is_zero
from autosched.tir.expr import Expr, IntImm, ProducerLoad, Var
from autosched.tir.op import add, const, floordiv, floormod, mul

__all__ = [
    "LayoutChange",
    "LayoutOption",
    "LayoutRewrite",
    "layout_free_tensors",
    "rewrite_layout",
]


@dataclass(frozen=True)
class LayoutRewrite:
    """A computation and a candidate with changed layouts, and the changes."""

    dag: ComputeDAG
    steps: tuple[Step, ...]
    changes: tuple[LayoutChange, ...]


def rewrite_layout(
    dag: ComputeDAG, steps: Sequence[Step], option: LayoutOption = LayoutOption.NO_REWRITE
) -> LayoutRewrite:
    """`dag` and `steps` with every layout-free input stored in the order in which `steps` read it.

    An input keeps its order where the loops do not determine one: an index is not one axis, or a
    split does not divide. It also does where a tensor instruction reads it, and where a transform
    stage would come before a copy that the steps make of it for some readers. Raises ScheduleError
    when the steps are illegal.
    """
    instance("layout", option, LayoutOption, "LayoutOption.NO_REWRITE")
    unchanged = LayoutRewrite(dag, tuple(steps), ())
    if option == LayoutOption.NO_REWRITE or not steps:
        return unchanged
    free = layout_free_tensors(dag)
    if not free:
        return unchanged
    state = dag.infer_bound_of(steps)
    result = unchanged
    handled: set[Operation] = set()
    for stage_id, stage in enumerate(state.stages):
        op = stage.op
        for tensor in _marked(op):
            if not isinstance(op, ComputeOp) or tensor.op in handled or tensor not in op.inputs:
                continue
            if tensor not in free:  # only the layout of an argument can change
                continue
            if option == LayoutOption.INSERT_TRANSFORM_STAGE and _is_copied(dag, steps, tensor):
                continue
            if _is_packed(state, tensor):
                continue
            change = _layout_change(state, stage_id, op, tensor)
            if change is not None:
                handled.add(tensor.op)
                result = _rewritten(result, tensor, change, option)
    if option == LayoutOption.FOR_PRE_TRANSFORMED and not result.changes:
        found = [packed_input(state, tensor) for tensor in free]
        packed = tuple(change for change in found if change is not None)
        result = replace(result, dag=PackedDAG(dag, packed), changes=packed) if packed else result
    return result


def _is_copied(dag: ComputeDAG, steps: Sequence[Step], tensor: Tensor) -> bool:
    """Whether one of the steps is the cache_read of an input."""
    position = dag.ops.index(tensor.op)
    for step in steps:
        if isinstance(step, CacheReadStep) and step.stage_id == position:
            return True
        if step.stage_id < position:
            position += inserted_stages(step)
    return False


def _is_packed(state: State, tensor: Tensor) -> bool:
    """Whether a stage of a tensor instruction reads the input, in the order that it needs."""
    readers = [stage.op for stage in state.stages if tensor in stage.op.inputs]
    return any(INSTRUCTION in op.attrs or PACKED in op.attrs for op in readers)


def layout_free_tensors(dag: ComputeDAG) -> tuple[Tensor, ...]:
    """The arguments of `dag` that some reading operation marks as layout free.

    Raises ConfigError when the attribute is not a list of tensors.
    """
    free = {t for op in dag.ops for t in _marked(op) if t in op.inputs}
    return tuple(t for t in dag.tensors if t in free and isinstance(t.op, PlaceholderOp))


def _marked(op: Operation) -> Sequence[Tensor]:
    tensors = op.attrs.get(LAYOUT_FREE, ())
    if not isinstance(tensors, list | tuple) or not all(isinstance(t, Tensor) for t in tensors):
        raise ConfigError(
            f"{op.name}: the attribute {LAYOUT_FREE} must be a list of tensors, found {tensors!r}"
        )
    return tensors


def new_indices(change: LayoutChange, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """The new indices of the element at the original `indices`."""
    inner = [1] * len(change.shape)
    result: list[Expr] = []
    for axis, extent in reversed(change.dims):
        result.append(floormod(floordiv(indices[axis], inner[axis]), extent))
        inner[axis] *= extent
    return tuple(reversed(result))


def original_indices(change: LayoutChange, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """The original indices of the element that is stored at `indices`."""
    stride = [1] * len(change.shape)
    result: list[Expr] = [const(0)] * len(change.shape)
    for (axis, extent), index in zip(reversed(change.dims), reversed(indices), strict=True):
        result[axis] = add(mul(index, stride[axis]), result[axis])
        stride[axis] *= extent
    return tuple(result)


def _layout_change(
    state: State, stage_id: int, op: ComputeOp, tensor: Tensor
) -> LayoutChange | None:
    load = next(load for load in op.loads if load.producer is tensor)
    names: list[str] = []
    for index in load.indices:
        if isinstance(index, Var):
            names.append(clean_name(index.name))
        elif is_zero(index):
            names.append("IntImm")
        else:
            return None
    sizes = [extent.value if isinstance(extent, IntImm) else -1 for extent in tensor.shape]
    if len(set(names)) != len(names) or min(sizes) < 1:
        return None
    dims = _new_dims(state, stage_id, names)
    if not dims:
        return None
    # An axis of length 1 indexed by the constant 0 has no loop, and no dimension.
    position = state.dag.tensors.index(tensor)
    return LayoutChange.of_axes(tensor.op.name, position, _shown(load.indices), sizes, dims)


def _shown(indices: Sequence[Expr]) -> list[str]:
    """The names of the axes in texts: `j`, also where a cache computes along its own `j.c`."""
    own = [index.name if isinstance(index, Var) else "IntImm" for index in indices]
    plain = [name.removesuffix(".c") for name in own]
    return [clean_name(name) for name in (plain if len(set(plain)) == len(plain) else own)]


def _new_dims(state: State, stage_id: int, names: Sequence[str]) -> list[tuple[int, int]] | None:
    """The loops around and in the stage that index the input, as (axis, extent); None where more
    loops are around the stage than in it."""
    own = list(state.stages[stage_id].iters)
    target = state.attach_map.target_of(stage_id)
    around: list[Iterator] = []
    if target is not None:
        around = list(state.stages[target[0]].iters[: target[1] + 1])
    outer, inner = _unfused(around), _unfused(own)
    loops = outer + inner
    dims: list[tuple[int, int]] = []
    for k, it in enumerate(loops):
        # A loop of the target takes the name of the stage's own loop at the same position.
        source = k + len(outer) if k < len(outer) else k
        if source >= len(loops):
            return None
        name = loops[source].name.partition(".")[0]
        if name in names:
            dims.append((names.index(name), 1 if it.extent is None else it.extent))
    return dims


def _unfused(iters: Sequence[Iterator]) -> list[Iterator]:
    return [part for it in iters for part in (_unfused(it.orig_iters) if it.orig_iters else [it])]


def _rewritten(
    before: LayoutRewrite, tensor: Tensor, change: LayoutChange, option: LayoutOption
) -> LayoutRewrite:
    dag, steps = before.dag, before.steps
    stored: Tensor
    new_ops: list[Operation] = []
    table: dict[Tensor, Tensor] = {}
    if option == LayoutOption.FOR_PRE_TRANSFORMED:
        shape = tuple(map(const, change.new_shape))
        stored = PlaceholderOp(tensor.op.name, shape, tensor.dtype).output(0)
        table[tensor] = stored
    else:
        stored = compute(
            change.new_shape,
            lambda *ax: tensor[original_indices(change, ax)],
            name="auto_scheduler_layout_transform",
        )
        steps = _with_transform_stage(steps, dag.ops.index(tensor.op) + 1, len(change.dims))

    def load(e: Expr) -> Expr | None:
        if isinstance(e, ProducerLoad) and e.producer is tensor:
            return ProducerLoad(stored, new_indices(change, e.indices))
        return None

    for op in dag.ops:
        new: Operation = op
        if op is tensor.op:
            new_ops += [stored.op] if tensor in table else [op, stored.op]
            continue
        if isinstance(op, ComputeOp) and tensor in op.inputs:
            new = rewrite_body(op, load)
            new.attrs["ori_placeholder_layout"] = change.original_layout
            new.attrs["new_placeholder_layout"] = change.new_layout
        new = replace_inputs(new, {t: n for t, n in table.items() if t is not tensor})
        if new is not op:
            table.update(zip(op.outputs, new.outputs, strict=True))
        new_ops.append(new)
    tensors = [table.get(t, t) for t in dag.tensors]
    return LayoutRewrite(ComputeDAG(tensors, new_ops), steps, (*before.changes, change))


def _with_transform_stage(steps: Sequence[Step], position: int, rank: int) -> tuple[Step, ...]:
    """`steps` for a DAG with an additional stage at `position`, which they schedule last."""
    result: list[Step] = []

    def moved(stage_id: int) -> int:
        return stage_id + (stage_id >= position)

    for step in steps:
        new = replace(step, stage_id=moved(step.stage_id))
        if isinstance(new, ComputeAtStep):
            new = replace(new, target_stage_id=moved(new.target_stage_id))
        elif isinstance(new, CacheReadStep):
            new = replace(new, reader_stage_ids=tuple(map(moved, new.reader_stage_ids)))
        result.append(new)
        if new.stage_id < position:
            position += inserted_stages(new)
    if rank >= 3:
        result.append(FuseStep(position, (0, 1, 2) if rank >= 5 else (0, 1)))
    result.append(AnnotationStep(position, 0, Annotation.PARALLEL))
    return tuple(result)
