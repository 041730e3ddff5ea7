"""Count the floating-point operations of a compute DAG.

docs/semantics/states.md says what counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.te.operations.operation import ComputeOp, Operation
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    BinaryExpr,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    IterVar,
    Not,
    ProducerLoad,
    Reduce,
    Select,
    Var,
)


class _UncountableError(Exception):
    """The DAG has an extent or a node that cannot be counted."""


def count_flops(ops: Sequence[Operation]) -> float:
    """Operations of all compute stages; -1 when an extent is symbolic or a node is unknown.

    Counts the operators in the type class of the stage's output; index arithmetic, loads and
    calls are free. An operation's attribute `FLOP` overrides its count.
    """
    total = 0
    try:
        for op in ops:
            if not isinstance(op, ComputeOp):
                continue
            if "FLOP" in op.attrs:
                declared = op.attrs["FLOP"]
                total += declared.value if isinstance(declared, IntImm) else int(declared)
                continue
            each = sum(_count(body, _code(op.outputs[0].dtype)) for body in op.body)
            total += _extent(op.axis) * each
    except _UncountableError:
        return -1.0
    return float(total)


def _extent(axes: Sequence[IterVar]) -> int:
    extents = []
    for axis in axes:
        if axis.dom is None or not isinstance(axis.dom.extent, IntImm):
            raise _UncountableError
        extents.append(axis.dom.extent.value)
    return math.prod(extents)


def _code(dtype: DType) -> str:
    """The class of a type; as in Ansor, booleans are unsigned integers of one bit."""
    return "uint" if dtype.is_bool else dtype.code


def _count(e: Expr, kind: str) -> int:
    match e:
        case IntImm() | FloatImm() | Var() | ProducerLoad():
            return 0
        case Cast(value):
            return _count(value, kind)
        case Select(condition, a, b):
            return _count(condition, kind) + max(_count(a, kind), _count(b, kind))
        case BinaryExpr(a, b):
            counted = kind in (_code(a.dtype), _code(b.dtype))
            return counted + _count(a, kind) + _count(b, kind)
        case Not(a):
            return (_code(a.dtype) == kind) + _count(a, kind)
        case Call(_, args):
            return sum(_count(arg, kind) for arg in args)
        case Reduce():
            each = sum(_count(r, kind) for r in e.combiner.result)
            return _extent(e.axis) * (each + sum(_count(s, kind) for s in e.source))
    raise _UncountableError
