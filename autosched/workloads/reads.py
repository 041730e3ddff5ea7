"""Where a computation reads its tensors: reads outside of them, indices that leave their type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autosched.arith.analyzer import Analyzer
from autosched.errors import ConfigError
from autosched.te.operations.graph import post_order_ops
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.data import is_data
from autosched.tir.expr import (
    Add,
    Call,
    Expr,
    IntImm,
    Mul,
    ProducerLoad,
    Reduce,
    Select,
    Sub,
    Var,
)
from autosched.tir.linear import linear


@dataclass(frozen=True, slots=True)
class Read:
    """`op` reads an axis of `tensor`, of length `size`, at `index`.

    `guarded`: it stands in a branch, whose condition may keep it inside.
    """

    op: ComputeOp
    tensor: Tensor
    index: Expr
    size: int
    guarded: bool


def reads_of(tensors: Sequence[Tensor]) -> Iterator[Read]:
    """Every read of a tensor with constant sizes, axis by axis."""
    for op in post_order_ops([tensor.op for tensor in tensors]):
        if isinstance(op, ComputeOp):
            for body in op.body:
                yield from _reads(op, body, guarded=False)


def _reads(op: ComputeOp, e: Expr, *, guarded: bool) -> Iterator[Read]:
    match e:
        case ProducerLoad(producer, indices):
            for index, size in zip(indices, producer.shape, strict=True):
                if isinstance(size, IntImm):
                    yield Read(op, producer, index, size.value, guarded)
        case Select(condition, a, b) | Call("if_then_else", (condition, a, b)):
            yield from _reads(op, condition, guarded=guarded)
            yield from _reads(op, a, guarded=True)
            yield from _reads(op, b, guarded=True)
            return
        case Reduce(condition=condition):
            guarded = guarded or not isinstance(condition, IntImm)
    for child in e.children():
        yield from _reads(op, child, guarded=guarded)


def check_reads(title: str, tensors: Sequence[Tensor]) -> None:
    """Raise ConfigError for a read that leaves its tensor and that no condition guards."""
    for read in reads_of(tensors):
        if read.guarded:
            continue
        constant, terms = linear(read.index)
        if any(isinstance(part, ProducerLoad) for t in terms for part in _parts(t)):
            continue
        low, high = range_of(read.op, constant, terms)
        exact = all(isinstance(term, Var) for term in terms)
        outside = low >= read.size or high < 0
        if outside or (exact and (low < 0 or high >= read.size)):
            raise ConfigError(
                f"{title}: {read.op.name} reads {read.tensor.name} at {read.index!r}, elements "
                f"{low}..{high} of an axis of length {read.size}; choose with if_then_else, or "
                "make the result smaller"
            )


def check_overflow(title: str, tensors: Sequence[Tensor]) -> None:
    """Raise ConfigError for arithmetic on indices whose result does not fit its type.

    A kernel would go on with what is left of it: another value, or a read elsewhere.
    """
    for op in post_order_ops([tensor.op for tensor in tensors]):
        if isinstance(op, ComputeOp):
            for body in op.body:
                for e in _of_indices(body):
                    low, high = range_of(op, *linear(e))
                    if low < int(e.dtype.min_value) or high > int(e.dtype.max_value):
                        raise ConfigError(
                            f"{title}: {op.name}: {e!r} reaches from {low} to {high}, more than "
                            f'{e.dtype} holds; write it in int64, e.g. i.astype("int64")'
                        )


def _of_indices(e: Expr, *, inner: bool = False) -> Iterator[Expr]:
    """The largest sums and products of indices in `e`; those `inner` to a sum go with it."""
    arithmetic = isinstance(e, Add | Sub | Mul) and e.dtype.is_index and not is_data(e)
    if arithmetic and not inner:
        yield e
    sums = arithmetic and not (isinstance(e, Mul) and _is_product(e))
    for child in e.children():
        yield from _of_indices(child, inner=sums)


def _is_product(e: Mul) -> bool:
    """Whether neither factor is a constant."""
    return not isinstance(e.a, IntImm) and not isinstance(e.b, IntImm)


def _parts(e: Expr) -> Iterator[Expr]:
    yield e
    for child in e.children():
        yield from _parts(child)


def range_of(op: ComputeOp, constant: int, terms: Mapping[Expr, int]) -> tuple[int, int]:
    """Bounds of `constant` plus multiples of terms, over the domain of `op`."""
    analyzer = analyzer_of(op)
    low = high = constant
    for term, factor in terms.items():
        bound = analyzer.const_int_bound(term)
        ends = factor * bound.min_value, factor * bound.max_value
        low, high = low + min(ends), high + max(ends)
    return low, high


def analyzer_of(op: ComputeOp) -> Analyzer:
    """An analyzer that knows the domain of `op`."""
    analyzer = Analyzer()
    for axis in (*op.axis, *op.reduce_axis):
        if axis.dom is not None:
            analyzer.bind(axis.var, axis.dom)
    return analyzer
