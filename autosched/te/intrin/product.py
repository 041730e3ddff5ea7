"""Where a tensor instruction fits a reduction: C[.., m, n] = sum(A[.., m, k] * B[.., k, n])."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autosched.te.intrin.instruction import Instruction
from autosched.te.operations.operation import ComputeOp
from autosched.tir.expr import Add, Cast, Expr, IntImm, IterVar, Mul, ProducerLoad, Reduce
from autosched.tir.linear import linear
from autosched.tir.walk import free_vars


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A reduction as a product of matrices: the loads of both, and the axes in their roles.

    `m` moves A alone, `n` is the last axis of the result and one index of B alone, and `k` is one
    index of both. The other axes stay loops around the product.
    """

    op: ComputeOp
    a: ProducerLoad
    b: ProducerLoad
    m: IterVar
    n: IterVar
    k: IterVar

    def others(self) -> tuple[list[IterVar], list[IterVar]]:
        """The data axes besides m and n, and the reduction axes besides k, in order."""
        data = [iv for iv in self.op.axis if iv not in (self.m, self.n)]
        return data, [iv for iv in self.op.reduce_axis if iv is not self.k]

    def k_is_last(self) -> bool:
        """Whether consecutive k of A lie side by side."""
        return self.a.indices[-1] is self.k.var and all(
            self.k.var not in free_vars(index) for index in self.a.indices[:-1]
        )

    def rows(self) -> tuple[int, int] | None:
        """The one index of A in which m is, and how far a row moves it; None for any other use."""
        found = [d for d, i in enumerate(self.a.indices) if self.m.var in free_vars(i)]
        terms = [linear(self.a.indices[d])[1] for d in found]
        step = terms[0].get(self.m.var, 0) if len(found) == 1 else 0
        alone = step > 0 and all(
            e is self.m.var or self.m.var not in free_vars(e) for e in terms[0]
        )
        return (found[0], step) if alone else None

    def over(self) -> IterVar | None:
        """The axis whose steps are the tiles of a column where rows are few: h beside a short w.

        It and `m` each move one index of A by one, the index of `over` right before that of `m`.
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
    """The constant extent of an axis that starts at 0; 0 when it is none."""
    dom = iv.dom
    if dom is None or not isinstance(dom.extent, IntImm) or not isinstance(dom.min, IntImm):
        return 0
    return dom.extent.value if dom.min.value == 0 else 0


def as_product(op: ComputeOp, it: Instruction) -> Product | None:
    """`op` as a product of matrices of the types of `it`; None when it is none."""
    if len(op.body) != 1 or len(op.axis) < 2:
        return None
    body = op.body[0]
    if not isinstance(body, Reduce) or body.dtype is not it.c.dtype or not _is_sum(body):
        return None
    source = body.source[0]
    if not isinstance(source, Mul) or any(not extent(iv) for iv in op.root_iter_vars):
        return None
    for first, second in ((source.a, source.b), (source.b, source.a)):
        a, b = _load(first, it.a.dtype.name), _load(second, it.b.dtype.name)
        if a is None or b is None:
            continue
        found = next(_roles(op, a, b), None)
        if found is not None:
            return found
    return None


def _is_sum(body: Reduce) -> bool:
    combiner = body.combiner
    result = combiner.result[0]
    plain = isinstance(result, Add) and (result.a, result.b) == (combiner.lhs[0], combiner.rhs[0])
    always = isinstance(body.condition, IntImm) and body.condition.value == 1
    return plain and always and not body.init and len(body.source) == 1


def _load(e: Expr, dtype: str) -> ProducerLoad | None:
    """The load of which `e` is the value, in the type of the product."""
    value = e.value if isinstance(e, Cast) else e
    if not isinstance(value, ProducerLoad) or value.dtype.name != dtype:
        return None
    return value


def _roles(op: ComputeOp, a: ProducerLoad, b: ProducerLoad) -> Iterator[Product]:
    of_a = {v for index in a.indices for v in free_vars(index)}
    of_b = {v for index in b.indices for v in free_vars(index)}
    n = op.axis[-1]
    if n.var in of_a or not _is_one_index(n, b):
        return
    rows = [iv for iv in op.axis if iv.var in of_a and iv.var not in of_b]
    steps = [iv for iv in op.reduce_axis if _is_one_index(iv, a) and _is_one_index(iv, b)]
    # Consecutive k of A side by side are read as they are.
    steps.sort(key=lambda iv: a.indices[-1] is not iv.var)
    if rows and steps:
        yield Product(op, a, b, rows[-1], n, steps[0])


def _is_one_index(iv: IterVar, load: ProducerLoad) -> bool:
    """Whether `iv` is exactly one of the indices, and in no other."""
    return sum(iv.var in free_vars(index) for index in load.indices) == 1 and any(
        index is iv.var for index in load.indices
    )
