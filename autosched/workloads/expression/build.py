"""Translate expression statements to tensor expressions."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autosched import te
from autosched.te.operations.operation import CONST_MATRIX, CONST_TENSOR_ATTR
from autosched.te.operations.tensor import Tensor
from autosched.tir import op
from autosched.tir.dtype import DType, float32, int32
from autosched.tir.expr import Expr, IterVar, Var
from autosched.workloads.constant_tensor import constant_tensor
from autosched.workloads.expression.statement import Statement, index_list, loads_of, tensor_of
from autosched.workloads.expression.table import TableError, type_of
from autosched.workloads.expression.values import Translation
from autosched.workloads.workload import layout_free

_REDUCERS = {
    "sum": te.sum,
    "mean": te.sum,
    "prod": te.prod,
    "max": te.max,
    "argmax": te.max,
    "min": te.min,
    "argmin": te.min,
}
_FIRST_STAGE = {"mean": "total", "argmax": "max", "argmin": "min"}
"""Reducers that need two stages, and the suffix of the first stage's name."""


def build(
    statements: Sequence[Statement],
    shapes: Mapping[str, tuple[int, ...]],
    inputs: Sequence[str],
    outputs: Sequence[str],
    types: Mapping[str, str],
    free: Sequence[str] = (),
) -> list[Tensor]:
    """The argument tensors of the program: inputs, then outputs.

    `types` has the type of every input, and of each result whose type differs from that of its
    value. `free` names the layout-free inputs.
    """
    tensors: dict[str, Tensor] = {
        name: te.placeholder(shapes[name], types[name], name=name) for name in inputs
    }
    for statement in statements:
        try:
            tensors[statement.name] = _compute(statement, tensors, types, free)
        except (TableError, TypeError, ZeroDivisionError, OverflowError, ValueError) as error:
            said = str(error)
            statement.fail(said if len(said) <= 200 else f"{said[:197]}...")
    return [tensors[name] for name in (*inputs, *outputs)]


def _compute(
    statement: Statement,
    tensors: Mapping[str, Tensor],
    types: Mapping[str, str],
    free: Sequence[str],
) -> Tensor:
    given = types.get(statement.name)
    result = None if given is None else DType(given)
    if statement.table is not None:
        kind = type_of(statement.table, result)
        numbers = statement.table if kind.is_float else statement.table.astype(np.int64)
        return constant_tensor(numbers, statement.name, str(kind), statement.indices)
    outer = types.get(statement.outer.name) if statement.outer else None
    body = _Body(statement, tensors, result, None if outer is None else DType(outer))
    marked = [tensors[n] for n in free if n in map(tensor_of, loads_of(statement.body))]
    attrs = {**(layout_free(*marked) if marked else {}), **_unrolled(statement, tensors)}
    if not statement.reducer:
        return body.stage(statement.name, body.at, attrs)
    end = _FIRST_STAGE.get(statement.reducer)
    name = f"{statement.name}_{end}" if end else statement.name
    reduced = body.stage(name, body.reduced, attrs)
    match statement.reducer:
        case "mean":
            return body.stage(statement.name, lambda *at: body.averaged(reduced[at]), {})
        case "argmax" | "argmin":
            return body.stage(statement.name, lambda *at: body.place(at, reduced[at]), attrs)
    return reduced


@dataclass(frozen=True)
class _Body:
    """The value of a statement; `result` is its type, or None for the type of the value.

    `outer` is the type of the statement that a helper is for, if given.
    """

    statement: Statement
    tensors: Mapping[str, Tensor]
    result: DType | None
    outer: DType | None

    def stage(self, name: str, element: Callable[..., Expr], attrs: Mapping[str, Any]) -> Tensor:
        """A tensor with the statement's indices."""
        names = list(self.statement.indices)
        tensor: Tensor = te.compute(
            self.statement.shape, element, name=name, attrs=attrs, axis_names=names
        )
        return tensor

    def at(self, *indices: Var, axes: Sequence[IterVar] = ()) -> Expr:
        """The value at `indices`, and at the reduction's `axes` if the statement has one."""
        statement = self.statement
        env: dict[str, Expr] = dict(zip(statement.indices, indices, strict=True))
        env.update(zip(statement.reduce_indices, (axis.var for axis in axes), strict=True))
        result = None if statement.finds_place else self.result
        means = self._means(Translation(env, self.tensors, statement.extents, result))
        value = means.typed(statement.body)
        if statement.finds_place and value.dtype.is_storage_float:
            # A stored extremum would be rounded, and then equal none of the values.
            value = replace(means, result=float32).typed(statement.body)
        return op.cast(result or self._kind(value, means), value)

    def _kind(self, value: Expr, means: Translation) -> DType:
        """The type of a value that is given none; truth values are counted and compared as int32.

        In a mean, numbers that are no floats have the type of the floats around it.
        """
        reducer, around, own = self.statement.reducer, means.result, value.dtype
        if reducer == "mean" and around is not None and around.is_float and not own.is_float:
            return around
        if own.is_bool and not reducer:
            raise TypeError(f"{self.statement.name} is a truth value; give its type under dtype")
        return int32 if own.is_bool else own

    def _means(self, own: Translation) -> Translation:
        """`own`, for a helper with its elements as wide as in the value that it is a part of."""
        statement = self.statement
        if statement.outer is None or self.result is not None or statement.finds_place:
            return own
        match statement.part:
            case "index":
                return replace(own, in_index=True)
            case "value" | "condition" as part:
                in_condition = part == "condition"
                return replace(own, result=self.outer, in_condition=in_condition, in_helper=True)
        return own

    def reduced(self, *indices: Var) -> Expr:
        """The reduction of the values: for a mean their sum, for a place their extremum."""
        axes = self._axes()
        value = self.at(*indices, axes=axes)
        if self.statement.reducer == "mean" and not value.dtype.is_float:
            raise TypeError(f"the mean of {value.dtype} needs a float type; write sum(...) // n")
        found: Expr = _REDUCERS[self.statement.reducer](value, axis=axes)
        return found

    def averaged(self, total: Expr) -> Expr:
        """The mean of values whose sum is `total`; narrow floats do not hold every count."""
        kind = total.dtype if total.dtype.bits >= 32 else float32
        mean = op.div(op.cast(kind, total), op.const(float(self._count), kind))
        return op.cast(total.dtype, mean)

    def place(self, indices: Sequence[Var], extremum: Expr) -> Expr:
        """The first place where the values reach `extremum`, which is NaN if one of them is.

        The reduction starts from a finite value; an infinity beyond it counts as that value.
        """
        axes, result = self._axes(), self.result or int32
        value, last = self.at(*indices, axes=axes), self._count - 1
        if result.is_integral and last > result.max_value:
            raise TypeError(
                f"{result} cannot hold the index {last}; give {self.statement.name} another type "
                "under dtype"
            )
        hit: Expr
        if value.dtype.is_float:
            if self.statement.reducer == "argmax":
                bounded = op.max_(value, op.min_value(value.dtype))
            else:
                bounded = op.min_(value, op.max_value(value.dtype))
            hit = op.any_(op.eq(bounded, extremum), op.ne(value, value))
        else:
            hit = op.eq(value, extremum)
        place = op.cast(result, axes[0].var)
        found: Expr = te.min(op.select(hit, place, op.const(last, result)), axis=axes)
        return found

    def _axes(self) -> list[IterVar]:
        lengths = self.statement.extents
        return [te.reduce_axis((0, lengths[n]), name=n) for n in self.statement.reduce_indices]

    @property
    def _count(self) -> int:
        """The number of values that are reduced to one."""
        return math.prod(self.statement.extents[name] for name in self.statement.reduce_indices)


def _unrolled(statement: Statement, tensors: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """The hint to unroll the axes along which a sum reads tables of numbers.

    Empty where it sums along other axes, too.
    """
    reads = (
        load
        for load in loads_of(statement.body)
        if CONST_MATRIX in tensors[tensor_of(load)].op.attrs
    )
    names = {i.id for load in reads for i in index_list(load) if isinstance(i, ast.Name)}
    if not statement.reducer or not names.issuperset(statement.reduce_indices):
        return {}
    every = (*statement.indices, *statement.reduce_indices)
    return {CONST_TENSOR_ATTR: [name for name in every if name in names]}
