"""Expression statements as tensor expressions."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence

import numpy as np

from autosched import te
from autosched.te.operations.operation import CONST_MATRIX, CONST_TENSOR_ATTR
from autosched.te.operations.tensor import Tensor
from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, Var
from autosched.workloads.constant_tensor import constant_tensor
from autosched.workloads.expression.statement import Statement, index_list, loads_of, tensor_of
from autosched.workloads.expression.table import TableError, type_of
from autosched.workloads.expression.values import Translation
from autosched.workloads.workload import layout_free

_REDUCERS = {"sum": te.sum, "max": te.max, "min": te.min, "prod": te.prod, "mean": te.sum}


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
    axes = {
        name: te.reduce_axis((0, statement.extents[name]), name=name)
        for name in statement.reduce_indices
    }
    given = types.get(statement.name)
    result = None if given is None else DType(given)
    if statement.table is not None:
        kind = type_of(statement.table, result)
        numbers = statement.table if kind.is_float else statement.table.astype(np.int64)
        return constant_tensor(numbers, statement.name, str(kind), statement.indices)

    def element(*indices: Var) -> Expr:
        env: dict[str, Expr] = dict(zip(statement.indices, indices, strict=True))
        env.update((name, axis.var) for name, axis in axes.items())
        value = Translation(env, tensors, statement.extents, result).typed(statement.body)
        if value.dtype.is_bool and result is None:
            raise TypeError(f"{statement.name} is a truth value; give its type under dtype")
        value = op.cast(result or value.dtype, value)
        if not statement.reducer:
            return value
        if statement.reducer == "mean" and not value.dtype.is_float:
            raise TypeError(f"the mean of {value.dtype} needs a float type; write sum(...) // n")
        reduced: Expr = _REDUCERS[statement.reducer](value, axis=list(axes.values()))
        return reduced

    shape = [statement.extents[name] for name in statement.indices]
    marked = [tensors[n] for n in free if n in map(tensor_of, loads_of(statement.body))]
    mean = statement.reducer == "mean"
    tensor: Tensor = te.compute(
        shape,
        element,
        name=f"{statement.name}_total" if mean else statement.name,
        attrs={**(layout_free(*marked) if marked else {}), **_unrolled(statement, tensors)},
        axis_names=list(statement.indices),
    )
    if not mean:
        return tensor
    count = math.prod(statement.extents[name] for name in statement.reduce_indices)
    averaged: Tensor = te.compute(
        shape,
        lambda *indices: op.div(tensor[indices], op.const(float(count), tensor.dtype)),
        name=statement.name,
        axis_names=list(statement.indices),
    )
    return averaged


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
