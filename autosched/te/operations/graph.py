"""The graph of operations: its producers and readers, its order, and replacing inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from autosched.te.operations.operation import ComputeOp, ExternOp, Operation, ScanOp, reading
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_compute import TensorComputeOp
from autosched.tir.expr import Expr
from autosched.tir.walk import rewrite_expr


def read_graph(outputs: Iterable[Operation]) -> dict[Operation, tuple[Tensor, ...]]:
    """Every operation that `outputs` need, with the tensors it reads."""
    graph: dict[Operation, tuple[Tensor, ...]] = {}
    stack = list(outputs)
    while stack:
        op = stack.pop()
        if op not in graph:
            graph[op] = op.inputs
            stack.extend(tensor.op for tensor in op.inputs)
    return graph


def post_order_ops(outputs: Sequence[Operation]) -> list[Operation]:
    """The operations `outputs` need, producers first: DFS over the inputs in their order."""
    order: dict[Operation, None] = {}
    entered: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = [(op, False) for op in reversed(outputs)]
    while stack:
        op, leaving = stack.pop()
        if leaving:
            order[op] = None
        elif op not in entered:
            entered.add(op)
            stack.append((op, True))
            stack.extend((tensor.op, False) for tensor in reversed(op.inputs))
    return list(order)


def feed_graph(ops: Iterable[Operation]) -> dict[Tensor, list[Operation]]:
    """Map each tensor to the operations among `ops` that read it, in the order of `ops`."""
    feed: dict[Tensor, list[Operation]] = {}
    for op in ops:
        for tensor in op.inputs:
            feed.setdefault(tensor, []).append(op)
    return feed


def sub_graph(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], include_inputs: bool
) -> list[Operation]:
    """The operations from `inputs` to `outputs`, producers first.

    The operations of `inputs` themselves are included only with `include_inputs`. Operations that
    do not depend on an input are left out.
    """
    boundary = {tensor.op for tensor in inputs}
    reached: dict[Operation, bool] = {}
    found: list[Operation] = []

    def visit(op: Operation) -> bool:
        if op in reached:
            return reached[op]
        reached[op] = op in boundary
        if op in boundary:
            if include_inputs:
                found.append(op)
            return True
        depends = [visit(tensor.op) for tensor in op.inputs]
        reached[op] = any(depends)
        if reached[op]:
            found.append(op)
        return reached[op]

    for tensor in outputs:
        visit(tensor.op)
    return found


def rewrite_body(op: ComputeOp, fn: Callable[[Expr], Expr | None]) -> ComputeOp:
    """`op` with `fn` applied bottom-up to its bodies; `op` itself when nothing changes."""
    body = tuple(rewrite_expr(e, fn) for e in op.body)
    if all(a is b for a, b in zip(body, op.body, strict=True)):
        return op
    return ComputeOp(op.name, op.axis, body, op.tag, op.attrs)


def replace_inputs(op: Operation, table: Mapping[Tensor, Tensor]) -> Operation:
    """`op` reading `table[t]` wherever it reads `t`; `op` itself when it reads no key of `table`.

    The new operation shares the axes of the old one and has new output tensors.
    """
    if not any(tensor in table for tensor in op.inputs):
        return op
    if isinstance(op, ComputeOp):
        return rewrite_body(op, reading(table))
    if isinstance(op, TensorComputeOp):
        return op.replace(table)

    def new(tensors: Iterable[Tensor]) -> list[Tensor]:
        return [table.get(tensor, tensor) for tensor in tensors]

    if isinstance(op, ScanOp):
        return ScanOp(
            op.name,
            op.scan_axis,
            new(op.init),
            new(op.update),
            op.state,
            op.inputs_list,
            op.spatial_axis,
            op.tag,
            op.attrs,
        )
    assert isinstance(op, ExternOp)
    return ExternOp(
        op.name,
        new(op.input_tensors),
        op.input_buffers,
        op.output_buffers,
        op.body,
        op.tag,
        op.attrs,
    )
