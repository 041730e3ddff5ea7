"""Reductions: sum, max, min, prod, and user-defined ones of a combiner and an identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

from autosched.tir import op
from autosched.tir.conversion import number
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    Add,
    BinaryExpr,
    CommReducer,
    Expr,
    FloatImm,
    IntImm,
    IterKind,
    IterVar,
    Mul,
    Reduce,
    StringImm,
    Var,
)
from autosched.tir.given import function, text
from autosched.tir.operators import Operators
from autosched.tir.walk import loads

_Begun: TypeAlias = tuple[CommReducer, tuple[Expr, ...]]
"""A combiner, and the values that a reduction by it begins with; () for its identity."""


class Reducer:
    """A reduction for operands of any dtype; calling it makes the Reduce expression.

    `combine(x, y)` and `identity(dtype)` work on single values, or on tuples when several values
    are reduced together (`combine((x0, x1), (y0, y1))`, `identity(dtype0, dtype1)`). What they
    return is cast to the types of the values.
    """

    def __init__(
        self, combine: Callable[..., Any], identity: Callable[..., Any], name: str
    ) -> None:
        self.combine = combine
        self.identity = identity
        self.name = name
        self._reducers: dict[tuple[bool, tuple[DType, ...]], _Begun] = {}

    def __call__(
        self,
        expr: Any,
        *operands: Any,
        axis: Any = None,
        where: Any = None,
        init: Any = None,
    ) -> Any:
        """The reduction of `expr` (one expression or a tuple) over `axis` where `where` holds.

        `init` replaces the identity as the start value. The sum of bools is a bool: whether any is
        true; cast them to an integer to count. `axis`, `where` and `init` may be given by position.
        With expressions in place of the axis, all expressions are combined directly: `te.max(a, b,
        c)`. A tuple `expr` gives a tuple with a Reduce for each component.
        """
        if operands and axis is None and not isinstance(operands[0], IterVar | list | tuple):
            return self._combined((expr, *operands), where, init)
        if operands:
            axis, where, init = self._by_position(operands, (axis, where, init))
        axes = (axis,) if isinstance(axis, IterVar) else axis
        if axes is None:
            raise ValueError(f"te.{self.name} needs the axis to reduce over, a te.reduce_axis")
        for iv in axes if isinstance(axes, Sequence) else (axes,):
            if not isinstance(iv, IterVar) or iv.kind != IterKind.REDUCE:
                raise ValueError(f"te.{self.name} reduces over te.reduce_axis, found {iv!r}")
        axes = tuple(axes)
        if len(set(axes)) < len(axes):
            raise ValueError(f"te.{self.name} reduces over each axis once, found {axes!r}")
        several = isinstance(expr, tuple | list)
        source = tuple(map(op.as_expr, expr if several else (expr,)))
        for e in source:
            if isinstance(e, StringImm):
                raise TypeError(f"te.{self.name} reduces numbers, found the text {e!r}")
        if not source:
            raise ValueError(f"te.{self.name} reduces one value or several, found {expr!r}")
        reducer, start = self.reducer(several, tuple(e.dtype for e in source))
        start = start if init is None else self._start(source, init)
        condition = None if where is None else op.as_condition(f"te.{self.name}: where", where)
        parts = tuple(
            Reduce(reducer, source, axes, condition, k, start) for k in range(len(source))
        )
        return parts if several else parts[0]

    def _start(self, source: Sequence[Expr], init: Any) -> tuple[Expr, ...]:
        """The start values `init`, cast to the types of the expressions in `source`."""
        inits = tuple(init if isinstance(init, tuple | list) else (init,))
        if len(inits) != len(source):
            raise ValueError(
                f"te.{self.name}: init= has {len(inits)} values, {len(source)} are reduced"
            )
        return tuple(
            op.cast(e.dtype, value)
            if isinstance(value, Operators)
            else op.const(number(value), e.dtype)
            for e, value in zip(source, inits, strict=True)
        )

    def _combined(self, operands: Sequence[Any], where: Any, init: Any) -> Any:
        """The operands combined with each other, without a reduction over an axis."""
        if where is not None or init is not None:
            raise ValueError(
                f"te.{self.name}: where= and init= need a reduction over te.reduce_axis, found "
                f"{op.as_expr(operands[1])!r} instead of the axis"
            )
        return reduce(self.combine, map(op.as_expr, operands))

    def _by_position(self, given: Sequence[Any], named: tuple[Any, Any, Any]) -> list[Any]:
        """Axis, condition and init: the first ones from `given`, the rest from `named`.

        TypeError when an argument is given twice.
        """
        if len(given) > len(named) or any(x is not None for x in named[: len(given)]):
            raise TypeError(
                f"te.{self.name} takes an expression, axis, where and init, each once; found "
                f"{len(given)} after the expression"
            )
        return [*given, *named[len(given) :]]

    def reducer(self, several: bool, dtypes: tuple[DType, ...]) -> _Begun:
        """The CommReducer on values of `dtypes`, cached; `several` passes them as tuples."""
        key = (several, dtypes)
        found = self._reducers.get(key)
        if found is None:
            if several:
                lhs = tuple(Var(f"x_{k}", t) for k, t in enumerate(dtypes))
                rhs = tuple(Var(f"y_{k}", t) for k, t in enumerate(dtypes))
                result, identity = self.combine(lhs, rhs), self.identity(*dtypes)
                for what, values in (("combiner", result), ("identity", identity)):
                    self._check_count(what, values, len(dtypes))
            else:
                lhs, rhs = (Var("x", dtypes[0]),), (Var("y", dtypes[0]),)
                result = (self.combine(lhs[0], rhs[0]),)
                identity = (self.identity(dtypes[0]),)
            results, first = (
                tuple(op.cast(t, op.as_expr(e)) for t, e in zip(dtypes, values, strict=True))
                for values in (result, identity)
            )
            self._check_reads(results, (*lhs, *rhs))
            found = _begun(CommReducer(lhs, rhs, results, first, self.name))
            self._reducers[key] = found
        return found

    def _check_count(self, what: str, values: Any, wanted: int) -> None:
        if not isinstance(values, tuple | list) or len(values) != wanted:
            raise ValueError(
                f"te.{self.name}: the {what} of {wanted} values returns a tuple of {wanted}, "
                f"found {values!r}"
            )

    def _check_reads(self, results: Sequence[Expr], operands: Sequence[Var]) -> None:
        """ValueError where the combiner reads a tensor, which no schedule would compute for it."""
        for e in results:
            for load in loads(e):
                raise ValueError(
                    f"te.{self.name}: the combiner reads {load!r}, expected an expression of "
                    f"{', '.join(map(repr, operands))}; reduce what it reads beside them, as a "
                    "tuple"
                )


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Reducer:
    """A user-defined commutative reduction.

    Schedules combine terms in any order, and in parts that begin with the identity: `fcombine` must
    not depend on the order, and must give the other value of one and the identity. So the index of
    the largest value is, of equal ones, the smallest:

    >>> from autosched import te
    >>> def larger(x, y):
    ...     first = te.any(x[1] > y[1], te.all(te.eq(x[1], y[1]), x[0] < y[0]))
    ...     return te.select(first, x[0], y[0]), te.select(first, x[1], y[1])
    >>> argmax = te.comm_reducer(larger, lambda t0, t1: (te.max_value(t0), te.min_value(t1)))
    >>> A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), "k")
    >>> index, value = te.compute((4,), lambda i: argmax((k.var, A[i, k]), axis=k))

    A sum or product may begin with another number, which is added or multiplied once.
    """
    what = f"te.comm_reducer {text('te.comm_reducer: a name', name)}"
    function(f"{what}: fcombine", fcombine, "lambda x, y: x + y")
    function(f"{what}: fidentity", fidentity, "lambda t: te.const(0, t)")
    return Reducer(fcombine, fidentity, name)


def _begun(combiner: CommReducer) -> _Begun:
    """The combiner with the neutral elements of its sums and products, and what it begins with.

    A schedule may begin several parts of a reduction with the identity. Where that is another
    number, the reduction begins with it once; () where it is neutral.
    """
    first = combiner.identity
    numbers = (_NEUTRAL.get(_operator(combiner, k)) for k in range(len(first)))
    neutral = tuple(
        e if n is None else op.const(n, e.dtype) for n, e in zip(numbers, first, strict=True)
    )
    if all(a is b for a, b in zip(neutral, first, strict=True)):
        return combiner, ()
    parts = combiner.lhs, combiner.rhs, combiner.result, neutral, combiner.name
    return CommReducer(*parts), first


def operator_of(combiner: CommReducer) -> type[BinaryExpr] | None:
    """The operator (Add in `x + y`) if the combiner is that operator alone, else None."""
    return _operator(combiner, 0)


def _operator(combiner: CommReducer, k: int) -> type[BinaryExpr] | None:
    """The operator that alone makes component `k` of the combiner; None if there is none."""
    result = combiner.result[k]
    if not isinstance(result, BinaryExpr):
        return None
    own = result.a is combiner.lhs[k] and result.b is combiner.rhs[k]
    return type(result) if own else None


def adds(combiner: CommReducer) -> bool:
    """Whether the combiner adds two values up, and its identity is 0."""
    start = combiner.identity[0]
    is_zero = isinstance(start, IntImm | FloatImm) and start.value == 0
    return operator_of(combiner) is Add and is_zero


def _zero(dtype: DType) -> Expr:
    return op.const(0, dtype)


def _one(dtype: DType) -> Expr:
    return op.const(1, dtype)


_NEUTRAL: dict[type[BinaryExpr] | None, int] = {Add: 0, Mul: 1}

sum = Reducer(op.add, _zero, "sum")
prod = Reducer(op.mul, _one, "prod")
max = Reducer(op.max_, op.min_value, "max")
min = Reducer(op.min_, op.max_value, "min")
