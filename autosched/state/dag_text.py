"""The printed form of a compute DAG, part of Ansor's record format."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.te.operations.operation import ComputeOp, Operation
from autosched.tir.dtype import DType, int32
from autosched.tir.expr import (
    Add,
    And,
    BinaryExpr,
    Call,
    Cast,
    CompareExpr,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    ProducerLoad,
    Reduce,
    Select,
    StringImm,
    Sub,
    Var,
)
from autosched.tir.op import const
from autosched.tir.printer import to_text

_INFIX: dict[type[BinaryExpr], str] = {
    Add: " + ",
    Sub: " - ",
    Mul: "*",
    Div: "/",
    Mod: " % ",
    And: " && ",
    Or: " || ",
}
_PREFIX: dict[type[BinaryExpr], str] = {
    FloorDiv: "floordiv",
    FloorMod: "floormod",
    Min: "min",
    Max: "max",
}

_FLOAT_SUFFIX = {DType("float32"): "f", DType("float64"): ""}


def expr_text(e: Expr) -> str:
    """`e` as Ansor prints it: infix operators in parentheses, `tir.` before intrinsics."""
    match e:
        case Var(name):
            return name
        case IntImm(value):
            return str(value) if e.dtype is int32 else f"({e.dtype}){value}"
        case FloatImm(value):
            return f"{_digits(value, e.dtype)}{_FLOAT_SUFFIX.get(e.dtype, 'h')}"
        case StringImm(value):
            return f'"{value}"'
        case ProducerLoad(producer, indices):
            return f"{producer.name}[{_list(indices)}]"
        case BinaryExpr(a, b):
            prefix = _PREFIX.get(type(e))
            if prefix is not None:
                return f"{prefix}({expr_text(a)}, {expr_text(b)})"
            infix = f" {e.symbol} " if isinstance(e, CompareExpr) else _INFIX[type(e)]
            return f"({expr_text(a)}{infix}{expr_text(b)})"
        case Not(a):
            return f"!{expr_text(a)}"
        case Cast(value):
            return f"{e.dtype}({expr_text(value)})"
        case Select(condition, a, b):
            return f"select({_list((condition, a, b))})"
        case Call(op, args):
            return f"tir.{op}({_list(args)})"
    return to_text(e)


def _digits(value: float, dtype: DType) -> str:
    """At most six digits of the number as it was written, as Ansor prints it: 0.1 of float16.

    Here constants are rounded to their types (0.1 to 0.0999756), in Ansor they are not. So where
    six digits give another number, the fewest digits that round to `value` are printed.
    """
    six = f"{value:g}"
    if dtype.bits > 16 or float(six) == value:
        return six
    rounded = FloatImm(value, dtype)  # equal constants are one object
    fewer = (f"{value:.{digits}g}" for digits in range(1, 6))
    return next((text for text in fewer if const(float(text), dtype) is rounded), six)


def _list(exprs: Sequence[Expr]) -> str:
    return ", ".join(map(expr_text, exprs))


_REDUCERS: dict[type[Expr], str] = {Add: " += ", Max: " max= ", Min: " min= "}


def dag_text(ops: Sequence[Operation], simple: bool = False) -> str:
    """One line per operation, or per output of an operation with several.

    Full text shows placeholder shapes. Simple text, which the hash key is made from, leaves them
    out and shows only the callee of a body that is a call.
    """
    lines: list[str] = []
    for op in ops:
        if not isinstance(op, ComputeOp):
            shape = ", ".join(map(expr_text, op.output(0).shape))
            lines.append(f"{op.name} = PLACEHOLDER {'' if simple else f'[{shape}]'}")
            continue
        head = f"{op.name}({', '.join(axis.var.name for axis in op.axis)})"
        for k, body in enumerate(op.body):
            output = f"{head}.v{k}" if len(op.body) > 1 else head
            lines.append(output + _body_text(body, k, simple))
    return "".join(f"{line}\n" for line in lines)


def _body_text(body: Expr, k: int, simple: bool) -> str:
    if isinstance(body, Call) and simple:
        return f" = Op(tir.{body.op})"
    if not isinstance(body, Reduce):
        return f" = {expr_text(body)}"
    combined = body.combiner.result[k]
    operator = _REDUCERS.get(type(combined))
    if operator is not None:
        return f"{operator}{expr_text(body.source[0])}"
    if isinstance(combined, Select):
        sources = ",".join(map(expr_text, body.source))
        return f" {expr_text(combined)}= ({sources})"
    return f"reduce{expr_text(combined)}"
