"""Ranges, iteration variables and reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.tir.dtype import bool_
from autosched.tir.expr_core import Expr, IntImm, Node, Var
from autosched.tir.operators import Operators

if TYPE_CHECKING:
    from autosched.tir import op as _op  # `op.py` binds itself here when it is loaded


class Range:
    """The half-open interval [min, min + extent)."""

    __slots__ = ("extent", "min")
    __match_args__ = ("min", "extent")

    def __init__(self, min: Expr, extent: Expr) -> None:
        self.min = min
        self.extent = extent

    @staticmethod
    def of(extent: Expr | int, min: Expr | int = 0) -> Range:
        """[min, min + extent) from ints or expressions; ints take the other's dtype or int32."""
        low, size = _op.unify(min, extent)
        return Range(low, size)

    def __repr__(self) -> str:
        return f"[{self.min}, {self.min} + {self.extent})"


class IterVar(Operators):
    """An iteration variable: domain, variable, kind (see IterKind) and thread tag ("" if none).

    In expressions it stands for its variable: `A[i, k]` with IterVars i, k.
    """

    __slots__ = ("dom", "kind", "thread_tag", "var")

    def __init__(self, dom: Range | None, var: Var, kind: str, thread_tag: str = "") -> None:
        self.dom = dom
        self.var = var
        self.kind = kind
        self.thread_tag = thread_tag

    def __repr__(self) -> str:
        dom = "" if self.dom is None else f", {self.dom!r}"
        tag = f", {self.thread_tag}" if self.thread_tag else ""
        return f"IterVar({self.var.name}{dom}, {self.kind}{tag})"


class IterKind:
    """The kinds of an IterVar, as strings."""

    DATA_PAR = "data_par"
    THREAD = "thread"
    REDUCE = "reduce"
    ORDERED = "ordered"
    OPAQUE = "opaque"
    UNROLLED = "unrolled"
    VECTORIZED = "vectorized"
    PARALLELIZED = "parallelized"
    TENSORIZED = "tensorized"


class CommReducer:
    """A commutative reduction: `result` in terms of `lhs` and `rhs`, with its identity.

    All four are tuples of the same length, one entry per value reduced together (argmax has two).
    """

    __slots__ = ("identity", "lhs", "name", "result", "rhs")

    def __init__(
        self,
        lhs: tuple[Var, ...],
        rhs: tuple[Var, ...],
        result: tuple[Expr, ...],
        identity: tuple[Expr, ...],
        name: str = "",
    ) -> None:
        self.lhs = lhs
        self.rhs = rhs
        for var in (*lhs, *rhs):
            var._data = True  # the operands of a reduction are data (data.py)
        self.result = result
        self.identity = identity
        self.name = name


class Reduce(Node):
    """Component `value_index` of the reduction of `source` over `axis` where `condition` holds.

    `init` is empty or one expression per component that replaces the identity.
    """

    __slots__ = ("axis", "combiner", "condition", "init", "source", "value_index")
    __match_args__ = ("combiner", "source", "init", "axis", "condition", "value_index")
    combiner: CommReducer
    source: tuple[Expr, ...]
    init: tuple[Expr, ...]
    axis: tuple[IterVar, ...]
    condition: Expr
    value_index: int

    def __new__(
        cls,
        combiner: CommReducer,
        source: tuple[Expr, ...],
        axis: tuple[IterVar, ...],
        condition: Expr | None = None,
        value_index: int = 0,
        init: tuple[Expr, ...] = (),
    ) -> Reduce:
        if condition is None:
            condition = IntImm(1, bool_)
        dtype = source[value_index].dtype
        node: Reduce = cls._make(dtype, combiner, source, init, axis, condition, value_index)
        return node

    def children(self) -> tuple[Expr, ...]:
        return (*self.source, *self.init, self.condition)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        n = len(self.source)
        return Reduce(
            self.combiner,
            children[:n],
            self.axis,
            children[-1],
            self.value_index,
            children[n:-1],
        )
