"""Operation counts of one stored value, as Ansor counts them."""

from __future__ import annotations

from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
)
from autosched.tir.intrin import is_pure

# Offsets into names.OP_COUNTERS. Multiply-adds are never counted: Ansor's matcher never fires.
_ADDSUB, _MUL, _DIVMOD, _CMP, _MATHFUNC, _OTHERFUNC = range(1, 7)
_INT = 7
_BOOL_OP, _SELECT_OP = 14, 15
NUM_FLOAT_COUNTERS = 7
NUM_COUNTERS = 16

_BINARY: dict[type[Expr], int] = {
    Add: _ADDSUB,
    Sub: _ADDSUB,
    Mul: _MUL,
    Div: _DIVMOD,
    Mod: _DIVMOD,
    FloorDiv: _DIVMOD,
    FloorMod: _DIVMOD,
    **dict.fromkeys((Max, Min, EQ, NE, LT, LE, GT, GE), _CMP),
}


def count_ops(value: Expr) -> list[int]:
    """The sixteen counters of `names.OP_COUNTERS` for one evaluation of `value`.

    Index arithmetic inside loads counts. A binary operation counts as float or int by the type of
    its left operand, once for each lane; a call counts once, by its own type.
    """
    counters = [0] * NUM_COUNTERS
    stack = [value]
    while stack:
        node = stack.pop()
        cls = type(node)
        slot = _BINARY.get(cls)
        if slot is not None:
            assert isinstance(node, BinaryExpr)
            dtype = node.a.dtype
            counters[slot if dtype.is_float else slot + _INT] += dtype.lanes
        elif cls is And or cls is Or or cls is Not:
            counters[_BOOL_OP] += 1
        elif cls is Select:
            counters[_SELECT_OP] += 1
        elif isinstance(node, Call):
            slot = _MATHFUNC if is_pure(node.op) else _OTHERFUNC
            counters[slot if node.dtype.is_float else slot + _INT] += 1
        stack.extend(node.children())
    return counters


def count_mads(value: Expr) -> int:
    """How many float additions take a product as an operand: multiply-adds on most machines."""
    total = 0
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is Add and node.dtype.is_float:
            assert isinstance(node, BinaryExpr)
            total += type(node.a) is Mul or type(node.b) is Mul
        stack.extend(node.children())
    return total
