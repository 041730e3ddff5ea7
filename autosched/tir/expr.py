"""Expressions: slotted, immutable, interned, compared by identity.

Two expressions built from the same parts are the same object, so `a is b` is deep equality for
expressions over the same variables. The class constructors build a node as it is; the functions
in `op.py` (and the Python operators) fold constants and unify types first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from autosched.tir.dtype import DType, bool_
from autosched.tir.expr_core import (
    Expr,
    ExprRule,
    FloatImm,
    IntImm,
    Node,
    Scalar,
    SizeVar,
    StringImm,
    Var,
    _drop,
    _Ref,
    _refs,
    pointer,
)
from autosched.tir.iteration import CommReducer, IterKind, IterVar, Range, Reduce

if TYPE_CHECKING:
    from autosched.tir import op as _op  # `op.py` binds itself here when it is loaded
    from autosched.tir.buffer import Buffer

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "And",
    "BinaryExpr",
    "Broadcast",
    "BufferLoad",
    "Call",
    "Cast",
    "CommReducer",
    "CompareExpr",
    "Div",
    "Expr",
    "ExprRule",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "IntImm",
    "IterKind",
    "IterVar",
    "Let",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Node",
    "Not",
    "Or",
    "ProducerLoad",
    "Ramp",
    "Range",
    "Reduce",
    "Scalar",
    "Select",
    "Shuffle",
    "SizeVar",
    "StringImm",
    "Sub",
    "Var",
    "binary",
    "pointer",
]


def binary(cls: type[BinaryExpr], a: Expr, b: Expr) -> BinaryExpr:
    """The interned node `cls(a, b)`, not folded; calling the class would cost twice as much."""
    key = (cls, a, b)
    ref = _refs.get(key)
    if ref is not None:
        found = ref()
        if found is not None:
            return found  # type: ignore[return-value]  # its key names the class
    node = object.__new__(cls)
    node.a = a
    node.b = b
    node.dtype = a.dtype if cls.keeps_type else bool_.with_lanes(a.dtype.lanes)
    ref = _Ref(node, _drop)
    ref.key = key
    _refs[key] = ref
    return node


class BinaryExpr(Expr):
    """The base of operators with operands `a` and `b` of the same type."""

    __slots__ = ("a", "b")
    __match_args__ = ("a", "b")
    a: Expr
    b: Expr
    symbol: ClassVar[str]
    fold: ClassVar[str]
    keeps_type: ClassVar[bool] = True

    def __new__(cls, a: Expr, b: Expr) -> BinaryExpr:
        return binary(cls, a, b)

    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        try:
            result: Expr = getattr(_op, self.fold)(*children)
        except ZeroDivisionError:  # refused where a user writes it; x // 0 and x % 0 are 0
            return _op.const(0, children[0].dtype)
        return result


class Add(BinaryExpr):
    """`a + b`."""

    __slots__ = ()
    symbol, fold = "+", "add"


class Sub(BinaryExpr):
    """`a - b`."""

    __slots__ = ()
    symbol, fold = "-", "sub"


class Mul(BinaryExpr):
    """`a * b`."""

    __slots__ = ()
    symbol, fold = "*", "mul"


class Div(BinaryExpr):
    """Float division; on integers it truncates toward zero."""

    __slots__ = ()
    symbol, fold = "/", "truncdiv"


class Mod(BinaryExpr):
    """Remainder of the truncating division."""

    __slots__ = ()
    symbol, fold = "%", "truncmod"


class FloorDiv(BinaryExpr):
    """Division rounded toward minus infinity."""

    __slots__ = ()
    symbol, fold = "//", "floordiv"


class FloorMod(BinaryExpr):
    """The remainder of FloorDiv: it has the sign of the divisor."""

    __slots__ = ()
    symbol, fold = "%", "floormod"


class Min(BinaryExpr):
    """The smaller operand."""

    __slots__ = ()
    symbol, fold = "min", "min_"


class Max(BinaryExpr):
    """The larger operand."""

    __slots__ = ()
    symbol, fold = "max", "max_"


class CompareExpr(BinaryExpr):
    """The base of comparisons: the result is bool with the operands' lanes."""

    __slots__ = ()
    keeps_type = False


class EQ(CompareExpr):
    """`a == b`."""

    __slots__ = ()
    symbol, fold = "==", "eq"


class NE(CompareExpr):
    """`a != b`."""

    __slots__ = ()
    symbol, fold = "!=", "ne"


class LT(CompareExpr):
    """`a < b`."""

    __slots__ = ()
    symbol, fold = "<", "lt"


class LE(CompareExpr):
    """`a <= b`."""

    __slots__ = ()
    symbol, fold = "<=", "le"


class GT(CompareExpr):
    """`a > b`."""

    __slots__ = ()
    symbol, fold = ">", "gt"


class GE(CompareExpr):
    """`a >= b`."""

    __slots__ = ()
    symbol, fold = ">=", "ge"


class And(BinaryExpr):
    """`a and b`: both conditions hold."""

    __slots__ = ()
    symbol, fold = "and", "and_"


class Or(BinaryExpr):
    """`a or b`: at least one condition holds."""

    __slots__ = ()
    symbol, fold = "or", "or_"


class Not(Node):
    """`not a`: the condition does not hold."""

    __slots__ = ("a",)
    __match_args__ = ("a",)
    a: Expr

    def __new__(cls, a: Expr) -> Not:
        node: Not = cls._make(a.dtype, a)
        return node

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        result: Expr = _op.not_(*children)
        return result


class Cast(Node):
    """`value` converted to the node's `dtype`."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: Expr

    def __new__(cls, dtype: DType, value: Expr) -> Cast:
        node: Cast = cls._make(dtype, value)
        return node

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        # The lanes follow the operand, so that a scalar cast becomes a vector one.
        result: Expr = _op.cast(self.dtype.with_lanes(children[0].dtype.lanes), children[0])
        return result


class Select(Node):
    """`true_value if condition else false_value`, where both values may be evaluated.

    `transform/expressions/guard_selects.py` guards values that must not be.
    """

    __slots__ = ("condition", "false_value", "true_value")
    __match_args__ = ("condition", "true_value", "false_value")
    condition: Expr
    true_value: Expr
    false_value: Expr

    def __new__(cls, condition: Expr, true_value: Expr, false_value: Expr) -> Select:
        node: Select = cls._make(true_value.dtype, condition, true_value, false_value)
        return node

    def children(self) -> tuple[Expr, ...]:
        return (self.condition, self.true_value, self.false_value)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        result: Expr = _op.select(*children)
        return result


class BufferLoad(Node):
    """`buffer[indices]`. A last index that is a vector makes a vector load.

    `predicate` is None or a bool vector: lanes where it is false are not read.
    """

    __slots__ = ("buffer", "indices", "predicate")
    __match_args__ = ("buffer", "indices", "predicate")
    buffer: Buffer
    indices: tuple[Expr, ...]
    predicate: Expr | None

    def __new__(
        cls, buffer: Buffer, indices: tuple[Expr, ...], predicate: Expr | None = None
    ) -> BufferLoad:
        lanes = indices[-1].dtype.lanes if indices else 1
        dtype = buffer.dtype.with_lanes(buffer.dtype.lanes * lanes)
        node: BufferLoad = cls._make(dtype, buffer, indices, predicate)
        return node

    def children(self) -> tuple[Expr, ...]:
        return self.indices if self.predicate is None else (*self.indices, self.predicate)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        n = len(self.indices)
        return BufferLoad(self.buffer, children[:n], children[n] if len(children) > n else None)


class ProducerLoad(Node):
    """`producer[indices]` where the producer is a `te.Tensor`; never reaches a PrimFunc."""

    __slots__ = ("indices", "producer")
    __match_args__ = ("producer", "indices")
    producer: Any
    indices: tuple[Expr, ...]

    def __new__(cls, producer: Any, indices: tuple[Expr, ...]) -> ProducerLoad:
        node: ProducerLoad = cls._make(producer.dtype, producer, indices)
        return node

    def children(self) -> tuple[Expr, ...]:
        return self.indices

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return ProducerLoad(self.producer, children)


class Let(Node):
    """`body` with `var` bound to `value`."""

    __slots__ = ("body", "value", "var")
    __match_args__ = ("var", "value", "body")
    var: Var
    value: Expr
    body: Expr

    def __new__(cls, var: Var, value: Expr, body: Expr) -> Let:
        node: Let = cls._make(body.dtype, var, value, body)
        return node

    def children(self) -> tuple[Expr, ...]:
        return (self.value, self.body)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return Let(self.var, *children)


class Call(Node):
    """A call of the intrinsic `op` (see `intrin.py`), whose result has type `dtype`."""

    __slots__ = ("args", "op")
    __match_args__ = ("op", "args")
    op: str
    args: tuple[Expr, ...]

    def __new__(cls, dtype: DType, op: str, args: tuple[Expr, ...]) -> Call:
        node: Call = cls._make(dtype, op, args)
        return node

    def children(self) -> tuple[Expr, ...]:
        return self.args

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return Call(self.dtype, self.op, children)


class Ramp(Node):
    """The vector `base, base + stride, ... ` of `lanes` elements."""

    __slots__ = ("base", "lanes", "stride")
    __match_args__ = ("base", "stride", "lanes")
    base: Expr
    stride: Expr
    lanes: int

    def __new__(cls, base: Expr, stride: Expr, lanes: int) -> Ramp:
        node: Ramp = cls._make(base.dtype.with_lanes(lanes), base, stride, lanes)
        return node

    def children(self) -> tuple[Expr, ...]:
        return (self.base, self.stride)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        base, stride = children
        return Ramp(base, stride, self.lanes)


class Broadcast(Node):
    """The vector of `lanes` copies of the scalar `value`."""

    __slots__ = ("lanes", "value")
    __match_args__ = ("value", "lanes")
    value: Expr
    lanes: int

    def __new__(cls, value: Expr, lanes: int) -> Broadcast:
        node: Broadcast = cls._make(value.dtype.with_lanes(lanes), value, lanes)
        return node

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        (value,) = children
        return Broadcast(value, self.lanes)


class Shuffle(Node):
    """The lanes `indices` (constants) of the concatenated `vectors`."""

    __slots__ = ("indices", "vectors")
    __match_args__ = ("vectors", "indices")
    vectors: tuple[Expr, ...]
    indices: tuple[Expr, ...]

    def __new__(cls, vectors: tuple[Expr, ...], indices: tuple[Expr, ...]) -> Shuffle:
        dtype = vectors[0].dtype.with_lanes(len(indices))
        node: Shuffle = cls._make(dtype, vectors, indices)
        return node

    def children(self) -> tuple[Expr, ...]:
        return (*self.vectors, *self.indices)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        n = len(self.vectors)
        return Shuffle(children[:n], children[n:])
