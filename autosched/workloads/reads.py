"""Check the reads of a computation: free variables, bounds, and overflow of indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.errors import ConfigError
from autosched.te.bounds import reads
from autosched.te.bounds.reads import Read, range_of
from autosched.te.operations.graph import post_order_ops
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.data import is_data
from autosched.tir.expr import (
    Add,
    Expr,
    IntImm,
    Mul,
    Sub,
)
from autosched.tir.linear import linear
from autosched.tir.walk import free_vars
from autosched.workloads.evaluate import extremes


def reads_of(tensors: Sequence[Tensor]) -> Iterator[Read]:
    """Yield every read of a tensor with constant sizes, axis by axis."""
    return reads.reads_of(post_order_ops([tensor.op for tensor in tensors]))


def check_variables(title: str, tensors: Sequence[Tensor]) -> None:
    """Raise ConfigError for an operation that uses another operation's axis or a free variable."""
    for op in post_order_ops([tensor.op for tensor in tensors]):
        if isinstance(op, ComputeOp):
            unknown = frozenset().union(*map(free_vars, op.body)) - {
                axis.var for axis in op.root_iter_vars
            }
            if unknown:
                names = ", ".join(sorted(var.name for var in unknown))
                raise ConfigError(
                    f"{title}: {op.name} uses {names}, which is not one of its axes; reduce over "
                    "it (te.sum(..., axis=...)), or give a number"
                )


def check_reads(title: str, tensors: Sequence[Tensor]) -> None:
    """Raise ConfigError for a read that is out of bounds where it is executed.

    Indices that are no sums of axes are worked out for every point. What depends on data is rarely
    known.
    """
    for read in reads_of(tensors):
        why = read.refusal()
        if not why and read.ends() is None:
            found = extremes(read.op, read.index, read.conditions)
            if found is not None and not 0 <= found[0] <= found[1] < read.size:
                why = read.told(*found)
        if why:
            raise ConfigError(f"{title}: {why}")


def check_overflow(title: str, tensors: Sequence[Tensor]) -> None:
    """Raise ConfigError for arithmetic on indices whose result does not fit its type.

    A kernel would go on with the wrapped result: another value, or a read elsewhere.
    """
    for op in post_order_ops([tensor.op for tensor in tensors]):
        if isinstance(op, ComputeOp):
            for body in op.body:
                for e in _of_indices(body):
                    low, high = range_of(op, *linear(e))
                    if low < int(e.dtype.min_value) or high > int(e.dtype.max_value):
                        remedy = 'write it in int64, int64(i) in a text or i.astype("int64") in te'
                        if e.dtype.bits == 64:
                            remedy = "give smaller sizes or numbers"
                        raise ConfigError(
                            f"{title}: {op.name}: {e!r} reaches from {low} to {high}, more than "
                            f"{e.dtype} holds; {remedy}"
                        )


def _of_indices(e: Expr, *, inner: bool = False) -> Iterator[Expr]:
    """The largest sums and products of indices in `e`; parts of a sum (`inner`) belong to it."""
    arithmetic = isinstance(e, Add | Sub | Mul) and e.dtype.is_index and not is_data(e)
    if arithmetic and not inner:
        yield e
    sums = arithmetic and not (isinstance(e, Mul) and _is_product(e))
    for child in e.children():
        yield from _of_indices(child, inner=sums)


def _is_product(e: Mul) -> bool:
    """Whether neither factor is a constant."""
    return not isinstance(e.a, IntImm) and not isinstance(e.b, IntImm)
