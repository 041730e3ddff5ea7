"""Recognises a reduction as a matrix product: C[.., m, n] = sum(A[.., m, k] * B[.., k, n]).

A and B are tensors, or what the sum computes of some (`operand.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from autosched.te.intrin.instruction import Instruction, Operand
from autosched.te.intrin.operand import computed, is_computed
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.reduction import adds
from autosched.tir.constants import is_one
from autosched.tir.expr import Cast, Expr, IntImm, IterVar, Mul, ProducerLoad, Reduce
from autosched.tir.linear import linear
from autosched.tir.walk import free_vars


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """The reduction `op` as a matrix product: the loads of both factors, and the roles of the axes.

    `m` occurs in indices of A only. `n` is the last axis of the result and by itself one index of
    B, absent from A. `k` is by itself one index of A and one of B. The other axes stay loops around
    the product.
    """

    op: ComputeOp
    a: ProducerLoad
    b: ProducerLoad
    m: IterVar
    n: IterVar
    k: IterVar

    def computed(self) -> int:
        """How many of the operands the sum computes, so that packing does."""
        return is_computed(self.a) + is_computed(self.b)

    def others(self) -> tuple[list[IterVar], list[IterVar]]:
        """The data axes besides m and n, and the reduction axes besides k, in order."""
        data = [iv for iv in self.op.axis if iv not in (self.m, self.n)]
        return data, [iv for iv in self.op.reduce_axis if iv is not self.k]

    def k_is_last(self) -> bool:
        """Whether consecutive k of A are adjacent in memory."""
        return self.a.indices[-1] is self.k.var and all(
            self.k.var not in free_vars(index) for index in self.a.indices[:-1]
        )

    def rows(self) -> tuple[int, int] | None:
        """The position of the only index of A with m, and the coefficient of m there.

        None when m is in several indices, in a non-linear term, or has no positive coefficient.
        """
        found = [d for d, i in enumerate(self.a.indices) if self.m.var in free_vars(i)]
        terms = [linear(self.a.indices[d])[1] for d in found]
        step = terms[0].get(self.m.var, 0) if len(found) == 1 else 0
        alone = step > 0 and all(
            e is self.m.var or self.m.var not in free_vars(e) for e in terms[0]
        )
        return (found[0], step) if alone else None

    def over(self) -> IterVar | None:
        """The axis h of A[.., h, m, ..] along which tiles can be stacked when the rows m are few.

        In a convolution it is the image height beside a short width m. The axis and `m` each occur
        in one index of A with coefficient 1, the index of the axis right before that of `m`. None
        when there is no such axis.
        """
        at = self.rows()
        others = [
            iv for iv in self.others()[0] if at and iv.var in free_vars(self.a.indices[at[0] - 1])
        ]
        if at is None or at[0] == 0 or at[1] != 1 or len(others) != 1:
            return None
        index, over = self.a.indices[at[0] - 1], others[0]
        used = [i for i in (*self.a.indices, *self.b.indices) if over.var in free_vars(i)]
        terms = linear(index)[1]
        alone = all(e is over.var or over.var not in free_vars(e) for e in terms)
        return over if used == [index] and terms.get(over.var) == 1 and alone else None


def extent(iv: IterVar) -> int:
    """The extent of an axis that starts at 0 and has a constant extent; 0 for any other axis."""
    dom = iv.dom
    if dom is None or not isinstance(dom.extent, IntImm) or not isinstance(dom.min, IntImm):
        return 0
    return dom.extent.value if dom.min.value == 0 else 0


def as_product(op: ComputeOp, it: Instruction) -> Product | None:
    """`op` as a matrix product in the types of the instruction `it`; None when it is not one."""
    if len(op.body) != 1 or len(op.axis) < 2:
        return None
    body = op.body[0]
    if not isinstance(body, Reduce) or body.dtype is not it.c.dtype or not _is_sum(body):
        return None
    source = body.source[0]
    if not isinstance(source, Mul) or any(not extent(iv) for iv in op.root_iter_vars):
        return None
    sides = ((source.a, source.b), (source.b, source.a))
    for of_a, of_b in itertools.product((_load, _computed), repeat=2):
        for first, second in sides:
            a, b = of_a(op, first, it, it.a), of_b(op, second, it, it.b)
            if a is None or b is None:
                continue
            found = next(_roles(op, a, b), None)
            if found is not None:
                return found
    return None


def _is_sum(body: Reduce) -> bool:
    always = is_one(body.condition)
    return adds(body.combiner) and always and not body.init and len(body.source) == 1


def _load(op: ComputeOp, e: Expr, it: Instruction, operand: Operand) -> ProducerLoad | None:
    """The load in the type of the operand that `e` is, or that `e` casts; None for others."""
    value = e.value if isinstance(e, Cast) else e
    return value if isinstance(value, ProducerLoad) and value.dtype is operand.dtype else None


def _computed(op: ComputeOp, e: Expr, it: Instruction, operand: Operand) -> ProducerLoad | None:
    """The operand `e` as a computed tensor; of bytes that are packed as int16, as int16."""
    dtype = operand.dtype if it.offset or operand.dtype.is_float else operand.held
    return computed(e, dtype, {iv.var: extent(iv) for iv in op.root_iter_vars})


def _roles(op: ComputeOp, a: ProducerLoad, b: ProducerLoad) -> Iterator[Product]:
    of_a = {v for index in a.indices for v in free_vars(index)}
    of_b = {v for index in b.indices for v in free_vars(index)}
    n = op.axis[-1]
    if n.var in of_a or not _is_one_index(n, b):
        return
    rows = [iv for iv in op.axis if iv.var in of_a and iv.var not in of_b]
    steps = [iv for iv in op.reduce_axis if _is_one_index(iv, a) and _is_one_index(iv, b)]
    # Prefer a k that is the last index of A: its elements are adjacent, so A needs no packing.
    steps.sort(key=lambda iv: a.indices[-1] is not iv.var)
    if rows and steps:
        yield Product(op, a, b, rows[-1], n, steps[0])


def _is_one_index(iv: IterVar, load: ProducerLoad) -> bool:
    """Whether `iv` is by itself one of the indices of `load` and occurs in no other index."""
    return sum(iv.var in free_vars(index) for index in load.indices) == 1 and any(
        index is iv.var for index in load.indices
    )
