"""Tensor intrinsics: a small tensor program and the statement that does it in hardware."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autosched.te.operations.operation import ComputeOp, Operation
from autosched.te.operations.tensor import Tensor
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr, Reduce, Var, pointer
from autosched.tir.op import as_expr
from autosched.tir.stmt import Evaluate, Stmt


@dataclass(frozen=True, slots=True, eq=False)
class TensorIntrin:
    """What `op` computes from `inputs`, as statements over `buffers` (inputs, then outputs).

    `body` does it all. A reduction may also have `reduce_init` (set the result to the identity)
    and `reduce_update` (accumulate); without them the whole reduction must be tensorized.
    """

    name: str
    op: Operation
    inputs: tuple[Tensor, ...]
    buffers: tuple[Buffer, ...]
    body: Stmt
    reduce_init: Stmt | None = None
    reduce_update: Stmt | None = None


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
) -> TensorIntrin:
    """The intrinsic that does `op`; `fcompute(input buffers, output buffers)` writes it.

    It returns one statement (or call), or (body, reduce_init, reduce_update). `binds` gives
    buffers of one's own; the others are compact, with an element offset of their own so that they
    can lie anywhere within the tensors they stand for.
    """
    if not isinstance(op, ComputeOp):
        raise ValueError(f"decl_tensor_intrin {name}: expected a te.compute, found {op!r}")
    binds = binds or {}
    buffers = [
        binds[t] if t in binds else intrin_buffer(t, t.op.name) for t in (*op.inputs, *op.outputs)
    ]
    n = len(op.inputs)
    result = fcompute(buffers[:n], buffers[n:])
    parts = list(result) if isinstance(result, tuple | list) else [result]
    if len(parts) > 3 or not parts:
        raise ValueError(f"decl_tensor_intrin {name}: expected one to three statements")
    statements = [None if part is None else as_stmt(part) for part in parts]
    if statements[0] is None:
        raise ValueError(f"decl_tensor_intrin {name}: the body is missing")
    init, update = [*statements[1:], None, None][:2]
    if update is None and len(parts) == 2:
        raise ValueError(f"decl_tensor_intrin {name}: reduce_init needs reduce_update beside it")
    if (init or update) and not isinstance(op.body[0], Reduce):
        raise ValueError(f"decl_tensor_intrin {name}: {op.name} is not a reduction")
    return TensorIntrin(name, op, tuple(op.inputs), tuple(buffers), statements[0], init, update)


def intrin_buffer(tensor: Tensor, name: str) -> Buffer:
    """A compact buffer for `tensor` that may lie at any element offset."""
    return Buffer(
        pointer(name, tensor.dtype),
        tensor.dtype,
        tensor.shape,
        elem_offset=Var(f"{name}_offset"),
        name=name,
    )


def as_stmt(value: Stmt | Expr) -> Stmt:
    """`value` as a statement: a call is evaluated."""
    return value if isinstance(value, Stmt) else Evaluate(as_expr(value))
