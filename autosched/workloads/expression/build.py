"""Expression statements as tensor expressions."""

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
"""Reducers of two stages, and what the name of the first ends in."""


def build(
    statements: Sequence[Statement],
    shapes: Mapping[str, tuple[int, ...]],
    inputs: Sequence[str],
    outputs: Sequence[str],
    types: Mapping[str, str],
    free: Sequence[str] = (),
) -> list[Tensor]:
    """The argument tensors of the program: inputs, then outputs; `free` are layout free.

    `types` has the type of every input and of those results that are not to have the type of
    their value.
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
    body = _Body(statement, tensors, result)
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
    """What a statement computes, of type `result` if that is given."""

    statement: Statement
    tensors: Mapping[str, Tensor]
    result: DType | None

    def stage(self, name: str, element: Callable[..., Expr], attrs: Mapping[str, Any]) -> Tensor:
        """A tensor with the statement's indices."""
        names = list(self.statement.indices)
        tensor: Tensor = te.compute(
            self.statement.shape, element, name=name, attrs=attrs, axis_names=names
        )
        return tensor

    def at(self, *indices: Var, axes: Sequence[IterVar] = ()) -> Expr:
        """The value, at the reduction's `axes` where it is one."""
        statement = self.statement
        env: dict[str, Expr] = dict(zip(statement.indices, indices, strict=True))
        env.update(zip(statement.reduce_indices, (axis.var for axis in axes), strict=True))
        result = None if statement.finds_place else self.result
        means = Translation(env, self.tensors, statement.extents, result)
        value = means.typed(statement.body)
        if statement.finds_place and value.dtype.is_storage_float:
            # An extremum would be rounded when it is stored, and then equal to none of the values.
            value = replace(means, result=float32).typed(statement.body)
        if value.dtype.is_bool and result is None:
            raise TypeError(f"{statement.name} is a truth value; give its type under dtype")
        return op.cast(result or value.dtype, value)

    def reduced(self, *indices: Var) -> Expr:
        """The reduction of the values; of a mean their sum, of a place what stands there."""
        axes = self._axes()
        value = self.at(*indices, axes=axes)
        if self.statement.reducer == "mean" and not value.dtype.is_float:
            raise TypeError(f"the mean of {value.dtype} needs a float type; write sum(...) // n")
        found: Expr = _REDUCERS[self.statement.reducer](value, axis=axes)
        return found

    def averaged(self, total: Expr) -> Expr:
        """The mean of values that add up to `total`."""
        return op.div(total, op.const(float(self._count), total.dtype))

    def place(self, indices: Sequence[Var], extremum: Expr) -> Expr:
        """The first place at which the values have their extremum, which is NaN where one is.

        An infinity that a maximum or minimum does not begin with counts as what it begins with.
        """
        axes, result = self._axes(), self.result or int32
        value, last = self.at(*indices, axes=axes), self._count - 1
        if result.is_integral and last > result.max_value:
            raise TypeError(
                f"{result} holds no place up to {last}; give {self.statement.name} another type "
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
        """How many values are reduced to one."""
        return math.prod(self.statement.extents[name] for name in self.statement.reduce_indices)


def _unrolled(statement: Statement, tensors: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """The hint of a sum with a table's numbers: the axes along which it is read are unrolled.

    None where it adds up along others, too.
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
