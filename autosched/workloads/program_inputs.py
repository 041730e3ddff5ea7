"""Random inputs of programs: of expressions, and of functions that declare tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.te.operations.graph import post_order_ops
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Cast, Expr, ProducerLoad
from autosched.tir.walk import pre_order
from autosched.workloads.index_values import drawn_values
from autosched.workloads.workload import Array, computes_in_double, random_inputs


def program_inputs(
    tensors: Sequence[Tensor], num_inputs: int, seed: int, *, wraps: bool = True
) -> list[Array]:
    """Random inputs, the first `num_inputs` of `tensors`, the same for the same seed.

    Values that are read as indices are in bounds. Integers are so large that arithmetic in fewer
    bits is wrong, where all of it `wraps` in the reference as in kernels. Raises ConfigError when
    no value of an index tensor is in bounds.
    """
    return random_inputs(
        tensors[:num_inputs],
        seed,
        drawn_values(tensors),
        double=computes_in_double(tensors),
        wide=frozenset(tensors) - _measured(tensors) if wraps else frozenset(),
    )


def _measured(tensors: Sequence[Tensor]) -> frozenset[Tensor]:
    """The tensors of integers of which floats, indices or the lengths of loops are made.

    The exponential of any integer is 0 or infinite, and a sum of floats shows its largest terms.
    """
    found: set[Tensor] = set()
    for op in reversed(post_order_ops([tensor.op for tensor in tensors])):
        if isinstance(op, ComputeOp):
            for e in _measures(op, found):
                loads = (load for load in pre_order(e) if isinstance(load, ProducerLoad))
                found.update(load.producer for load in loads if load.dtype.is_integral)
        else:
            found.update(op.inputs)
    return frozenset(found)


def _measures(op: ComputeOp, found: set[Tensor]) -> Iterator[Expr]:
    """The expressions in `op` of which such things are made, all of it where its output is one."""
    for axis in op.reduce_axis:
        if axis.dom is not None:
            yield axis.dom.min
            yield axis.dom.extent
    for body in op.body:
        if not found.isdisjoint(op.outputs):
            yield body
        for e in pre_order(body):
            if isinstance(e, Cast) and e.dtype.is_float and e.value.dtype.is_integral:
                yield e.value
            elif isinstance(e, ProducerLoad):
                yield from e.indices
