"""Reductions: sum, max, min, prod, and those made of a combiner and an identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import CommReducer, Expr, IterKind, IterVar, Reduce, Var


class Reducer:
    """A reduction over any dtype; calling it makes the Reduce expression.

    `combine(x, y)` and `identity(dtype)` work on single values, or on tuples when several values
    are reduced together (`combine((x0, x1), (y0, y1))`, `identity(dtype0, dtype1)`).
    """

    def __init__(
        self, combine: Callable[..., Any], identity: Callable[..., Any], name: str
    ) -> None:
        self.combine = combine
        self.identity = identity
        self.name = name
        self._reducers: dict[tuple[bool, tuple[DType, ...]], CommReducer] = {}

    def __call__(
        self,
        expr: Any,
        axis: Any = None,
        where: Any = None,
        init: Any = None,
    ) -> Any:
        """The reduction of `expr` (one expression or a tuple) over `axis` where `where` holds.

        `init` replaces the identity. A sum of truth values is whether one of them is true; cast
        them to an integer to count. With an expression in place of the axis the two are
        combined directly: `te.max(a, b)`. A tuple gives a tuple of components.
        """
        axes = (axis,) if isinstance(axis, IterVar) else axis
        if not isinstance(axes, Sequence):
            if axis is None:
                raise ValueError(f"te.{self.name} needs the axis to reduce over")
            return self.combine(op.as_expr(expr), op.as_expr(axis))
        for iv in axes:
            if not isinstance(iv, IterVar) or iv.kind != IterKind.REDUCE:
                raise ValueError(f"te.{self.name} reduces over te.reduce_axis, found {iv!r}")
        several = isinstance(expr, tuple | list)
        source = tuple(map(op.as_expr, expr if several else (expr,)))
        inits = () if init is None else tuple(init if isinstance(init, tuple | list) else (init,))
        start = tuple(
            op.cast(e.dtype, op.as_expr(value))
            for e, value in zip(source, inits, strict=bool(inits))
        )
        reducer = self.reducer(several, tuple(e.dtype for e in source))
        condition = None if where is None else op.as_condition(f"te.{self.name}: where", where)
        parts = tuple(
            Reduce(reducer, source, tuple(axes), condition, k, start) for k in range(len(source))
        )
        return parts if several else parts[0]

    def reducer(self, several: bool, dtypes: tuple[DType, ...]) -> CommReducer:
        """The CommReducer on values of `dtypes`, made once for each."""
        key = (several, dtypes)
        found = self._reducers.get(key)
        if found is None:
            if several:
                lhs = tuple(Var(f"x_{k}", t) for k, t in enumerate(dtypes))
                rhs = tuple(Var(f"y_{k}", t) for k, t in enumerate(dtypes))
                result, identity = self.combine(lhs, rhs), self.identity(*dtypes)
            else:
                lhs, rhs = (Var("x", dtypes[0]),), (Var("y", dtypes[0]),)
                result = (self.combine(lhs[0], rhs[0]),)
                identity = (self.identity(dtypes[0]),)
            found = CommReducer(
                lhs,
                rhs,
                tuple(map(op.as_expr, result)),
                tuple(op.cast(t, op.as_expr(e)) for t, e in zip(dtypes, identity, strict=True)),
                self.name,
            )
            self._reducers[key] = found
        return found


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Reducer:
    """A commutative reduction of one's own.

    >>> from autosched import te
    >>> def larger(x, y):
    ...     return te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])
    >>> argmax = te.comm_reducer(larger, lambda t0, t1: (te.const(-1, t0), te.min_value(t1)))
    >>> A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), "k")
    >>> index, value = te.compute((4,), lambda i: argmax((k.var, A[i, k]), axis=k))
    """
    return Reducer(fcombine, fidentity, name)


def _zero(dtype: DType) -> Expr:
    return op.const(0, dtype)


def _one(dtype: DType) -> Expr:
    return op.const(1, dtype)


sum = Reducer(op.add, _zero, "sum")
prod = Reducer(op.mul, _one, "prod")
max = Reducer(op.max_, op.min_value, "max")
min = Reducer(op.min_, op.max_value, "min")
