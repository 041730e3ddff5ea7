"""The reads of tensors by operations, and the detection of reads out of bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autosched.arith.analyzer import Analyzer
from autosched.te.bounds.box import Box, Ends, box_of, scaled
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.te.operations.tensor import Tensor
from autosched.tir.constants import is_zero
from autosched.tir.expr import (
    Call,
    Expr,
    IntImm,
    IterVar,
    Not,
    ProducerLoad,
    Range,
    Reduce,
    Select,
)
from autosched.tir.linear import linear
from autosched.tir.walk import distinct, rewrite_expr


@dataclass(frozen=True, slots=True)
class Read:
    """A read by `op` of one axis of `tensor`, of length `size`, at `index`.

    `conditions` are the conditions of the branches around the read: all hold where it is executed.
    """

    op: ComputeOp
    tensor: Tensor
    index: Expr
    size: int
    conditions: tuple[Expr, ...]

    @property
    def guarded(self) -> bool:
        """Whether the read stands in a branch, whose condition may keep it in bounds."""
        return bool(self.conditions)

    def refusal(self) -> str:
        """The text that says why the read is out of bounds; empty when it is not known to be.

        A read whose index is data (loaded from a tensor) is rarely known to be out of bounds.
        """
        if any(map(_is_empty, self.op.root_iter_vars)):
            return ""
        ends = self.ends()
        if ends is not None:
            low, high = ends
            outside = low < 0 or high >= self.size
        elif self.guarded:
            return ""
        else:
            low, high = range_of(self.op, *linear(self.index))
            outside = low >= self.size or high < 0
        return self.told(low, high) if outside else ""

    def ends(self) -> Ends | None:
        """The first and the last element that is read.

        None if the index is no sum of axes, or if a condition is no bound on a single axis.
        """
        constant, terms = linear(self.index)
        box = box_of(self.conditions, _ends(self.op))
        if box is None or not terms.keys() <= box.keys():
            return None
        each = [(constant, constant), *(scaled(box[v], factor) for v, factor in terms.items())]
        low, high = (sum(parts) for parts in zip(*each, strict=True))
        return low, high

    def told(self, low: int, high: int) -> str:
        """The text that says that the elements `low` to `high` are read, and what to do."""
        remedy = (
            "choose with te.if_then_else (`a if condition else b` in a text), or make the result "
            "smaller"
        )
        if self.guarded:
            remedy = "let the condition around it keep it inside"
        return (
            f"{self.op.name} reads {self.tensor.name} at {self.index!r}, elements {low}..{high} of "
            f"an axis of length {self.size}; {remedy}"
        )


def reads_of(ops: Iterable[Operation]) -> Iterator[Read]:
    """Every read by `ops`, one for each tensor axis of constant size.

    Those in the domains of reduction axes are read whatever the condition of the reduction.
    """
    for op in ops:
        if isinstance(op, ComputeOp):
            for e in _domains(op):
                yield from _reads(op, e, (), set())
            for body in op.body:
                yield from _reads(op, body, (), set())


def unguarded_reads_of(ops: Iterable[Operation]) -> Iterator[Read]:
    """The reads of `reads_of` that stand in no branch."""
    for op in ops:
        if isinstance(op, ComputeOp):
            for root in (*_domains(op), *op.body):
                for e in distinct(root, _evaluated):
                    if isinstance(e, ProducerLoad):
                        yield from _of_load(op, e, ())


def _domains(op: ComputeOp) -> Iterator[Expr]:
    for axis in op.reduce_axis:
        assert axis.dom is not None, "te.reduce_axis has a domain"
        yield axis.dom.min
        yield axis.dom.extent


def _of_load(op: ComputeOp, load: ProducerLoad, conditions: tuple[Expr, ...]) -> Iterator[Read]:
    for index, size in zip(load.indices, load.producer.shape, strict=True):
        if isinstance(size, IntImm):
            yield Read(op, load.producer, index, size.value, conditions)


def _evaluated(e: Expr) -> Sequence[Expr]:
    """The children of `e` that are evaluated whatever a condition is."""
    match e:
        case Select(condition) | Call("if_then_else", (condition, _, _)):
            return (condition,)
        case Reduce(condition=condition) if not isinstance(condition, IntImm):
            return ()
    return e.children()


def _reads(op: ComputeOp, e: Expr, conditions: tuple[Expr, ...], seen: set[Expr]) -> Iterator[Read]:
    """The reads in `e`, besides those in `seen`, which have been found under these conditions."""
    if e in seen:
        return
    seen.add(e)
    match e:
        case ProducerLoad():
            yield from _of_load(op, e, conditions)
        case Select(condition, a, b) | Call("if_then_else", (condition, a, b)):
            yield from _reads(op, condition, conditions, seen)
            yield from _reads(op, a, (*conditions, condition), set())
            yield from _reads(op, b, (*conditions, Not(condition)), set())
            return
        case Reduce(condition=condition) if not isinstance(condition, IntImm):
            conditions = (*conditions, condition)
    for child in e.children():
        yield from _reads(op, child, conditions, seen)


def range_of(op: ComputeOp, constant: int, terms: Mapping[Expr, int]) -> tuple[int, int]:
    """The bounds of `constant` plus the sum of factor * term, over the domain of `op`."""
    analyzer = analyzer_of(op)
    low = high = constant
    for term, factor in terms.items():
        bound = analyzer.const_int_bound(rewrite_expr(term, _as_select))
        ends = factor * bound.min_value, factor * bound.max_value
        low, high = low + min(ends), high + max(ends)
    return low, high


def _as_select(e: Expr) -> Expr | None:
    """An if_then_else call as a Select: analyzers, as TVM's, have bounds of a Select only."""
    return Select(*e.args) if isinstance(e, Call) and e.op == "if_then_else" else None


def analyzer_of(op: ComputeOp) -> Analyzer:
    """An analyzer that knows the domains of the axes of `op`."""
    analyzer = Analyzer()
    for axis in op.root_iter_vars:
        if axis.dom is not None:
            analyzer.bind(axis.var, axis.dom)
    return analyzer


def _ends(op: ComputeOp) -> Box:
    """The first and last value of each axis of `op` whose domain is constant."""
    found: Box = {}
    for axis in op.root_iter_vars:
        match axis.dom:
            case Range(min=IntImm(low), extent=IntImm(extent)):
                found[axis.var] = low, low + extent - 1
    return found


def _is_empty(axis: IterVar) -> bool:
    """Whether the axis has no values, so that nothing is read."""
    return axis.dom is not None and is_zero(axis.dom.extent)
