"""Expression statements as tensor expressions."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.tir import op
from autosched.tir.expr import Expr, Var
from autosched.workloads.expression_extents import loads_of
from autosched.workloads.workload import layout_free

if TYPE_CHECKING:
    from autosched.workloads.expression_extents import Statement

_UNARY = (
    *("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos"),
    *("floor", "ceil", "round"),
)
FUNCTIONS = {**dict.fromkeys((*_UNARY, "abs"), 1), "max": 2, "min": 2, "pow": 2}

_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: op.add,
    ast.Sub: op.sub,
    ast.Mult: op.mul,
    ast.Div: op.div,
    ast.FloorDiv: op.floordiv,
    ast.Mod: op.floormod,
    ast.Eq: op.eq,
    ast.NotEq: op.ne,
    ast.Lt: op.lt,
    ast.LtE: op.le,
    ast.Gt: op.gt,
    ast.GtE: op.ge,
}
_REDUCERS = {"sum": te.sum, "max": te.max, "min": te.min, "prod": te.prod}


def build(
    statements: Sequence[Statement],
    shapes: Mapping[str, tuple[int, ...]],
    inputs: Sequence[str],
    outputs: Sequence[str],
    dtype: str,
    free: Sequence[str] = (),
) -> list[Tensor]:
    """The argument tensors of the program: inputs, then outputs; `free` are layout free."""
    tensors: dict[str, Tensor] = {
        name: te.placeholder(shapes[name], dtype, name=name) for name in inputs
    }
    for statement in statements:
        try:
            tensors[statement.name] = _compute(statement, tensors, dtype, free)
        except (TypeError, ZeroDivisionError, OverflowError) as error:
            statement.fail(str(error))
    return [tensors[name] for name in (*inputs, *outputs)]


def _compute(
    statement: Statement, tensors: Mapping[str, Tensor], dtype: str, free: Sequence[str]
) -> Tensor:
    axes = {
        name: te.reduce_axis((0, statement.extents[name]), name=name)
        for name in statement.reduce_indices
    }

    def element(*indices: Var) -> Expr:
        env: dict[str, Expr] = dict(zip(statement.indices, indices, strict=True))
        env.update((name, axis.var) for name, axis in axes.items())
        value = op.cast(dtype, _translate(statement.body, env, tensors))
        if not statement.reducer:
            return value
        result: Expr = _REDUCERS[statement.reducer](value, axis=list(axes.values()))
        return result

    shape = [statement.extents[name] for name in statement.indices]
    read = {load.value.id for load in loads_of(statement.body) if isinstance(load.value, ast.Name)}
    marked = [tensors[name] for name in free if name in read]
    tensor: Tensor = te.compute(
        shape,
        element,
        name=statement.name,
        attrs=layout_free(*marked) if marked else {},
        axis_names=list(statement.indices),
    )
    return tensor


def _translate(e: ast.expr, env: Mapping[str, Expr], tensors: Mapping[str, Tensor]) -> Expr:
    def go(child: ast.expr) -> Expr:
        return _translate(child, env, tensors)

    match e:
        case ast.Constant(value=value):
            return op.as_expr(value)
        case ast.Name(id=name):
            return env[name]
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            indices = index.elts if isinstance(index, ast.Tuple) else [index]
            return tensors[name][tuple(map(go, indices))]
        case ast.BinOp(left=left, op=operator, right=right):
            return _binary(operator, left, right, go)
        case ast.UnaryOp(op=operator, operand=operand):
            inner = go(operand)
            if isinstance(operator, ast.Not):
                return op.not_(inner)
            return op.neg(inner) if isinstance(operator, ast.USub) else inner
        case ast.BoolOp(op=operator, values=values):
            join = op.all_ if isinstance(operator, ast.And) else op.any_
            return join(*map(go, values))
        case ast.Compare(left=left, ops=operators, comparators=comparators):
            terms = [left, *comparators]
            pairs = zip(terms, operators, terms[1:], strict=False)
            return op.all_(*(_binary(o, a, b, go) for a, o, b in pairs))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return op.if_then_else(go(test), go(body), go(orelse))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _call(name, [go(arg) for arg in args])
    raise TypeError(f"{ast.unparse(e)} is not a value")


def _binary(operator: ast.AST, left: ast.expr, right: ast.expr, go: Any) -> Expr:
    a, b = go(left), go(right)
    # Literals take the type of the other side, so that `A[i] * 2` stays a float product.
    if isinstance(right, ast.Constant):
        b = right.value
    elif isinstance(left, ast.Constant):
        a = left.value
    result: Expr = _OPERATORS[type(operator)](a, b)
    return result


def _call(name: str, args: Sequence[Expr]) -> Expr:
    if name in ("max", "min"):
        return op.max_(*args) if name == "max" else op.min_(*args)
    if name == "pow":
        return op.call("pow", *op.unify(*args))
    value = args[0]
    if name == "abs":
        if value.dtype.is_float:
            return op.call("fabs", value)
        return op.max_(value, op.neg(value))
    if not value.dtype.is_float:
        raise TypeError(f"{name} needs a float, found {value.dtype}")
    return op.call(name, value)
