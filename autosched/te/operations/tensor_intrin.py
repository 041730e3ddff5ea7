"""Tensor intrinsics: a small tensor program, and statements that compute it in hardware."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.arguments import found
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.te.operations.tensor import Tensor, TensorRegion
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import Expr, IterVar, Reduce, Var
from autosched.tir.given import all_of, function, names_and_values, text
from autosched.tir.op import as_expr
from autosched.tir.stmt import Evaluate, Stmt

if TYPE_CHECKING:
    from autosched.te.operations import (
        tensor_compute as _calls,  # `tensor_compute.py` binds itself here when it is loaded
    )
    from autosched.te.operations.tensor_compute import IntrinCall

_BUFFER_PARAMS = frozenset(("strides", "elem_offset", "offset_factor", "data_alignment", "scope"))


@dataclass(frozen=True, slots=True, eq=False)
class TensorIntrin:
    """The computation of `op` from `inputs`, as statements over `buffers` (inputs, then outputs).

    `body` computes the whole operation. A reduction may also have `reduce_init` (set the result to
    the identity) and `reduce_update` (accumulate); without them the whole reduction must be
    tensorized. `scalar_params` are variables in the statements to which a call gives values.

    A call in te.compute fills a region of the tensor at every point of the axes. Its arguments are
    regions for the inputs and values for the scalars, in their order:

        te.compute((m, 8), lambda i: vadd(A[i, 0:8], B[i, 0:8]))
        te.compute((m, 8), lambda i: gemv(W[i, k, 0:8, :], x[k, :], reduce_axis=k))
    """

    name: str
    op: Operation
    inputs: tuple[Tensor, ...]
    buffers: tuple[Buffer, ...]
    body: Stmt
    reduce_init: Stmt | None = None
    reduce_update: Stmt | None = None
    scalar_params: tuple[Var, ...] = ()

    def __call__(
        self,
        *args: TensorRegion | Tensor | Expr | int | float,
        reduce_axis: IterVar | Sequence[IterVar] = (),
    ) -> IntrinCall:
        """The call for use in te.compute; ValueError for arguments that do not fit it."""
        return _calls.call_intrin(self, args, reduce_axis)


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    scalar_params: Sequence[Var] = (),
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """The intrinsic that computes `op` by statements of `fcompute(input buffers, output buffers)`.

    `fcompute` returns one statement (or call), or (body, reduce_init, reduce_update). `binds` gives
    buffers (te.decl_buffer) for some tensors. The other buffers are compact and have a symbolic
    element offset, so that they can stand for any place within a tensor; `default_buffer_params`
    sets their te.decl_buffer arguments: strides, elem_offset, offset_factor, data_alignment, scope.
    With `scalar_params` (te.var), which the statements may mention, `fcompute` gets their list as
    third argument. Raises ValueError for arguments that do not fit together, and TypeError for
    other objects.
    """
    if not isinstance(op, ComputeOp):
        raise ValueError(f"decl_tensor_intrin {name}: expected a te.compute, found {op!r}")
    what = f"decl_tensor_intrin {text('decl_tensor_intrin: a name', name)}"
    function(f"{what}: fcompute", fcompute, "lambda ins, outs: te.call_extern('f', ins[0].data)")
    if not isinstance(bound := {} if binds is None else binds, Mapping):
        raise TypeError(f"{what}: binds are tensors and buffers, {found(bound)}")
    scalars = all_of(Var, f"{what}: scalar_params", scalar_params)
    tensors = (*op.inputs, *op.outputs)
    for tensor, buffer in bound.items():
        _check_bind(name, tensors, tensor, buffer)
    params = {} if default_buffer_params is None else default_buffer_params
    params = names_and_values(f"{what}: default_buffer_params", params)
    unknown = params.keys() - _BUFFER_PARAMS
    if unknown:
        raise ValueError(
            f"decl_tensor_intrin {name}: default_buffer_params: found {', '.join(sorted(unknown))},"
            f" expected some of {', '.join(sorted(_BUFFER_PARAMS))}"
        )
    buffers = [bound[t] if t in bound else intrin_buffer(t, t.op.name, **params) for t in tensors]
    n = len(op.inputs)
    result = fcompute(buffers[:n], buffers[n:], *([scalars] if scalars else []))
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
    return TensorIntrin(
        name,
        op,
        tuple(op.inputs),
        tuple(buffers),
        statements[0],
        init,
        update,
        tuple(scalars),
    )


def _check_bind(name: str, tensors: Sequence[Tensor], tensor: Tensor, buffer: Buffer) -> None:
    """ValueError unless `tensor` is one of `tensors` and `buffer` has its type and rank."""
    where = f"decl_tensor_intrin {name}: binds"
    if tensor not in tensors:
        names = ", ".join(t.name for t in tensors)
        raise ValueError(f"{where}: {tensor!r} is not one of the operation's tensors {names}")
    if buffer.dtype is not tensor.dtype or len(buffer.shape) != tensor.ndim:
        raise ValueError(f"{where}: {buffer!r} cannot stand for {tensor!r}: other type or rank")


def intrin_buffer(tensor: Tensor, name: str, **params: Any) -> Buffer:
    """A buffer for `tensor` with a symbolic element offset, unless `params` has one.

    `params` are arguments of te.decl_buffer.
    """
    params.setdefault("elem_offset", Var(f"{name}_offset"))
    return decl_buffer(tensor.shape, tensor.dtype, name, **params)


def as_stmt(value: Stmt | Expr) -> Stmt:
    """`value` as a statement: an expression becomes an Evaluate."""
    return value if isinstance(value, Stmt) else Evaluate(as_expr(value))
