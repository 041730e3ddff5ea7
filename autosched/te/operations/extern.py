"""te.extern: outputs computed by a hand-written statement, such as a call of a library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autosched.arguments import found
from autosched.te.operations.compute import as_shape
from autosched.te.operations.operation import ExternOp
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import as_stmt
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType, TypeLike
from autosched.tir.expr import Call, Expr
from autosched.tir.given import all_of, function, text
from autosched.tir.stmt import Stmt


def extern(
    shape: Sequence[Any] | Expr | int,
    inputs: Tensor | Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "extern",
    dtype: TypeLike | Sequence[TypeLike] | None = None,
    in_buffers: Sequence[Buffer] | None = None,
    out_buffers: Sequence[Buffer] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors of `shape` filled by the statement of `fcompute(input buffers, output buffers)`.

    `shape` is one shape, or a list of shapes for several outputs; `dtype` one type or a list,
    by default that of the inputs when they agree. The function returns a statement or a call.

        def call(ins, outs):
            return te.call_extern("sort", ins[0].access_ptr("r"), outs[0].access_ptr("w"))

        C = te.extern((n,), [A], call)

    An input whose address a call gets without `access_ptr("r")` counts as written.
    """
    what = f"te.extern {text('te.extern: a name', name)}"
    function(f"{what}: fcompute", fcompute, "lambda ins, outs: te.call_extern('f', ins[0].data)")
    inputs = all_of(Tensor, f"{what}: inputs", inputs)
    sizes = shape if isinstance(shape, Sequence) else [shape]
    several = any(isinstance(size, Sequence) for size in sizes)
    shapes = [as_shape(s) for s in (sizes if several else [sizes])]
    if dtype is None:
        types = {t.dtype for t in inputs}
        if len(types) != 1:
            raise ValueError(f"te.extern {name}: the type of the output is not clear; give dtype")
        dtypes = [types.pop()] * len(shapes)
    elif isinstance(dtype, Sequence) and not isinstance(dtype, str):
        dtypes = list(map(DType, dtype))
    else:
        dtypes = [DType(dtype)] * len(shapes)
    if len(dtypes) != len(shapes):
        raise ValueError(f"te.extern {name}: {len(shapes)} outputs, {len(dtypes)} types")
    ins = (
        [decl_buffer(t.shape, t.dtype, t.op.name) for t in inputs]
        if in_buffers is None
        else all_of(Buffer, f"{what}: in_buffers", in_buffers)
    )
    outs = (
        [decl_buffer(s, t, name) for s, t in zip(shapes, dtypes, strict=True)]
        if out_buffers is None
        else all_of(Buffer, f"{what}: out_buffers", out_buffers)
    )
    if len(ins) != len(inputs) or len(outs) != len(shapes):
        raise ValueError(f"te.extern {name}: one buffer is needed for every input and output")
    made = fcompute(ins, outs)
    if not isinstance(made, Stmt | Call):
        why = f"the function returned no statement and no call, {found(made)}"
        raise ValueError(f"te.extern {name}: {why}")
    body = as_stmt(made)
    op = ExternOp(name, inputs, ins, outs, body, tag, attrs)
    return list(op.outputs) if several else op.output(0)
