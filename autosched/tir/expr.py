"""Expressions: slotted, immutable, interned, compared by identity.

Two expressions built from the same parts are the same object, so `a is b` is deep equality for
expressions over the same variables. The class constructors build a node as it is; the functions
in `op.py` (and the Python operators) fold constants and unify types first.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from autosched.tir.dtype import DType, bool_, float32, handle, int32

if TYPE_CHECKING:
    from autosched.tir.buffer import Buffer

Scalar = int | float | bool


class _Ref(weakref.ref["Expr"]):
    __slots__ = ("key",)
    key: tuple[Any, ...]


_refs: dict[tuple[Any, ...], _Ref] = {}


def _drop(ref: weakref.ref[Expr]) -> None:
    key = ref.key  # type: ignore[attr-defined]  # only _Ref objects carry this callback
    if _refs.get(key) is ref:
        del _refs[key]


_E = TypeVar("_E", bound="Expr")


def _intern(key: tuple[Any, ...], node: _E) -> _E:
    ref = _Ref(node, _drop)
    ref.key = key
    _refs[key] = ref
    return node


def _lookup(key: tuple[Any, ...]) -> Any:
    ref = _refs.get(key)
    return None if ref is None else ref()


class Expr:
    """Base of all expressions. `dtype` is the type of the value."""

    __slots__ = ("__weakref__", "_vars", "dtype")
    __match_args__: ClassVar[tuple[str, ...]] = ()
    dtype: DType
    _vars: frozenset[Var]

    def children(self) -> tuple[Expr, ...]:
        """Direct sub-expressions, in evaluation order."""
        return ()

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        """The same node over other sub-expressions, built by the folding constructors."""
        assert not children
        return self

    def __repr__(self) -> str:
        from autosched.tir.printer import to_text

        return to_text(self)

    def __bool__(self) -> bool:
        raise TypeError(
            f"the truth value of the symbolic expression {self!r} is not known; use te.all, "
            "te.any, te.if_then_else or Analyzer.can_prove"
        )

    def __add__(self, other: Expr | Scalar) -> Expr:
        return _op().add(self, other)

    def __radd__(self, other: Expr | Scalar) -> Expr:
        return _op().add(other, self)

    def __sub__(self, other: Expr | Scalar) -> Expr:
        return _op().sub(self, other)

    def __rsub__(self, other: Expr | Scalar) -> Expr:
        return _op().sub(other, self)

    def __mul__(self, other: Expr | Scalar) -> Expr:
        return _op().mul(self, other)

    def __rmul__(self, other: Expr | Scalar) -> Expr:
        return _op().mul(other, self)

    def __truediv__(self, other: Expr | Scalar) -> Expr:
        return _op().div(self, other)

    def __rtruediv__(self, other: Expr | Scalar) -> Expr:
        return _op().div(other, self)

    def __floordiv__(self, other: Expr | Scalar) -> Expr:
        return _op().floordiv(self, other)

    def __rfloordiv__(self, other: Expr | Scalar) -> Expr:
        return _op().floordiv(other, self)

    def __mod__(self, other: Expr | Scalar) -> Expr:
        return _op().floormod(self, other)

    def __rmod__(self, other: Expr | Scalar) -> Expr:
        return _op().floormod(other, self)

    def __neg__(self) -> Expr:
        return _op().neg(self)

    def __lt__(self, other: Expr | Scalar) -> Expr:
        return _op().lt(self, other)

    def __le__(self, other: Expr | Scalar) -> Expr:
        return _op().le(self, other)

    def __gt__(self, other: Expr | Scalar) -> Expr:
        return _op().gt(self, other)

    def __ge__(self, other: Expr | Scalar) -> Expr:
        return _op().ge(self, other)

    def astype(self, dtype: str | DType) -> Expr:
        """This value converted to `dtype`."""
        return _op().cast(dtype, self)


_op_module: Any = None


def _op() -> Any:
    global _op_module
    if _op_module is None:
        from autosched.tir import op

        _op_module = op
    return _op_module


class Var(Expr):
    """A variable, unique by identity; `name` is a hint for printing only.

    A pointer variable has dtype `handle`, `element` (the type it points to) and `scope`.
    """

    __slots__ = ("element", "name", "scope")
    __match_args__ = ("name",)

    def __init__(
        self,
        name: str,
        dtype: str | DType = int32,
        *,
        element: DType | None = None,
        scope: str = "",
    ) -> None:
        self.name = name
        self.dtype = DType(dtype)
        self.element = element
        self.scope = scope


class SizeVar(Var):
    """A variable known to be non-negative: a symbolic size."""

    __slots__ = ()


def pointer(name: str, element: DType, scope: str = "global") -> Var:
    """A fresh pointer variable to `element`s in storage scope `scope`."""
    return Var(name, handle, element=element, scope=scope)


class IntImm(Expr):
    """An integer or bool constant; the value is a Python int (0 or 1 for bool)."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: int

    def __new__(cls, value: int, dtype: DType = int32) -> IntImm:
        key = (IntImm, value, dtype)
        node: IntImm | None = _lookup(key)
        if node is None:
            node = object.__new__(cls)
            node.value, node.dtype = value, dtype
            _intern(key, node)
        return node


class FloatImm(Expr):
    """A float constant; interned by its exact bits, so 0.0 and -0.0 differ."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: float

    def __new__(cls, value: float, dtype: DType = float32) -> FloatImm:
        key = (FloatImm, struct.pack("<d", value), dtype)
        node: FloatImm | None = _lookup(key)
        if node is None:
            node = object.__new__(cls)
            node.value, node.dtype = value, dtype
            _intern(key, node)
        return node


class StringImm(Expr):
    """A string constant (arguments of calls and attributes)."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: str

    def __new__(cls, value: str) -> StringImm:
        key = (StringImm, value)
        node: StringImm | None = _lookup(key)
        if node is None:
            node = object.__new__(cls)
            node.value, node.dtype = value, handle
            _intern(key, node)
        return node


class BinaryExpr(Expr):
    """Base of operators with operands `a` and `b` of the same type."""

    __slots__ = ("a", "b")
    __match_args__ = ("a", "b")
    a: Expr
    b: Expr
    symbol: ClassVar[str]
    fold: ClassVar[str]

    def __new__(cls, a: Expr, b: Expr) -> BinaryExpr:
        key = (cls, a, b)
        node: BinaryExpr | None = _lookup(key)
        if node is None:
            node = object.__new__(cls)
            node.a, node.b = a, b
            node.dtype = cls._result(a.dtype)
            _intern(key, node)
        return node

    @staticmethod
    def _result(dtype: DType) -> DType:
        return dtype

    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        result: Expr = getattr(_op(), self.fold)(*children)
        return result


class Add(BinaryExpr):
    __slots__ = ()
    symbol, fold = "+", "add"


class Sub(BinaryExpr):
    __slots__ = ()
    symbol, fold = "-", "sub"


class Mul(BinaryExpr):
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
    __slots__ = ()
    symbol, fold = "//", "floordiv"


class FloorMod(BinaryExpr):
    __slots__ = ()
    symbol, fold = "%", "floormod"


class Min(BinaryExpr):
    __slots__ = ()
    symbol, fold = "min", "min_"


class Max(BinaryExpr):
    __slots__ = ()
    symbol, fold = "max", "max_"


class CompareExpr(BinaryExpr):
    """Base of comparisons: the result is bool with the operands' lanes."""

    __slots__ = ()

    @staticmethod
    def _result(dtype: DType) -> DType:
        return bool_.with_lanes(dtype.lanes)


class EQ(CompareExpr):
    __slots__ = ()
    symbol, fold = "==", "eq"


class NE(CompareExpr):
    __slots__ = ()
    symbol, fold = "!=", "ne"


class LT(CompareExpr):
    __slots__ = ()
    symbol, fold = "<", "lt"


class LE(CompareExpr):
    __slots__ = ()
    symbol, fold = "<=", "le"


class GT(CompareExpr):
    __slots__ = ()
    symbol, fold = ">", "gt"


class GE(CompareExpr):
    __slots__ = ()
    symbol, fold = ">=", "ge"


class And(BinaryExpr):
    __slots__ = ()
    symbol, fold = "and", "and_"


class Or(BinaryExpr):
    __slots__ = ()
    symbol, fold = "or", "or_"


class Node(Expr):
    """Base of the other interned nodes; `_make` interns on the class, dtype and fields."""

    __slots__ = ()

    @classmethod
    def _make(cls, dtype: DType, *fields: Any) -> Any:
        key = (cls, dtype, *fields)
        node: Any = _lookup(key)
        if node is None:
            node = object.__new__(cls)
            node.dtype = dtype
            for name, field in zip(cls.__match_args__, fields, strict=True):
                setattr(node, name, field)
            _intern(key, node)
        return node


class Not(Node):
    __slots__ = ("a",)
    __match_args__ = ("a",)
    a: Expr

    def __new__(cls, a: Expr) -> Not:
        node: Not = cls._make(a.dtype, a)
        return node

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        result: Expr = _op().not_(*children)
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
        result: Expr = _op().cast(self.dtype.with_lanes(children[0].dtype.lanes), children[0])
        return result


class Select(Node):
    """`true_value if condition else false_value`; both are evaluated."""

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
        result: Expr = _op().select(*children)
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
        return Ramp(*children, self.lanes)


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
        return Broadcast(*children, self.lanes)


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


class Range:
    """The half-open interval [min, min + extent)."""

    __slots__ = ("extent", "min")
    __match_args__ = ("min", "extent")

    def __init__(self, min: Expr, extent: Expr) -> None:
        self.min = min
        self.extent = extent

    @staticmethod
    def of(extent: Expr | int, min: Expr | int = 0) -> Range:
        """[min, min + extent) from ints or expressions; ints take the other's dtype or int32."""
        op = _op()
        low, size = op.unify(min, extent)
        return Range(low, size)

    def __repr__(self) -> str:
        return f"[{self.min}, {self.min} + {self.extent})"


class IterVar:
    """An iteration variable: domain, variable, kind (see IterKind) and thread tag ("" if none)."""

    __slots__ = ("dom", "kind", "thread_tag", "var")

    def __init__(self, dom: Range | None, var: Var, kind: str, thread_tag: str = "") -> None:
        self.dom = dom
        self.var = var
        self.kind = kind
        self.thread_tag = thread_tag

    def __repr__(self) -> str:
        dom = "" if self.dom is None else f", {self.dom!r}"
        return f"IterVar({self.var.name}{dom}, {self.kind}{', ' * bool(self.thread_tag)}{self.thread_tag})"

    # Iteration variables stand for their variable in expressions: A[i, k] with IterVars i, k.
    def __add__(self, other: Expr | Scalar | IterVar) -> Expr:
        return _op().add(self.var, other)

    def __radd__(self, other: Expr | Scalar) -> Expr:
        return _op().add(other, self.var)

    def __sub__(self, other: Expr | Scalar | IterVar) -> Expr:
        return _op().sub(self.var, other)

    def __rsub__(self, other: Expr | Scalar) -> Expr:
        return _op().sub(other, self.var)

    def __mul__(self, other: Expr | Scalar | IterVar) -> Expr:
        return _op().mul(self.var, other)

    def __rmul__(self, other: Expr | Scalar) -> Expr:
        return _op().mul(other, self.var)

    def __floordiv__(self, other: Expr | Scalar | IterVar) -> Expr:
        return _op().floordiv(self.var, other)

    def __mod__(self, other: Expr | Scalar | IterVar) -> Expr:
        return _op().floormod(self.var, other)

    def __lt__(self, other: Expr | Scalar | IterVar) -> Expr:
        return _op().lt(self.var, other)

    def __le__(self, other: Expr | Scalar | IterVar) -> Expr:
        return _op().le(self.var, other)

    def __gt__(self, other: Expr | Scalar | IterVar) -> Expr:
        return _op().gt(self.var, other)

    def __ge__(self, other: Expr | Scalar | IterVar) -> Expr:
        return _op().ge(self.var, other)


class IterKind:
    """The kinds of an IterVar, as strings."""

    DATA_PAR = "data_par"
    THREAD = "thread"
    REDUCE = "reduce"
    ORDERED = "ordered"
    OPAQUE = "opaque"
    UNROLLED = "unrolled"
    VECTORIZED = "vectorized"
    PARALLELIZED = "parallelized"
    TENSORIZED = "tensorized"


class CommReducer:
    """A commutative reduction: `result` in terms of `lhs` and `rhs`, with its identity.

    All four are tuples of the same length, one entry per value reduced together (argmax has two).
    """

    __slots__ = ("identity", "lhs", "name", "result", "rhs")

    def __init__(
        self,
        lhs: tuple[Var, ...],
        rhs: tuple[Var, ...],
        result: tuple[Expr, ...],
        identity: tuple[Expr, ...],
        name: str = "",
    ) -> None:
        self.lhs = lhs
        self.rhs = rhs
        self.result = result
        self.identity = identity
        self.name = name

    def combine(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """`result` with `left` for lhs and `right` for rhs."""
        from autosched.tir.walk import substitute

        table: dict[Var, Expr] = dict(zip(self.lhs, left, strict=True))
        table.update(zip(self.rhs, right, strict=True))
        return tuple(substitute(r, table) for r in self.result)


class Reduce(Node):
    """The reduction of `source` over `axis` where `condition` holds; component `value_index`.

    `init` is empty or one expression per component that replaces the identity.
    """

    __slots__ = ("axis", "combiner", "condition", "init", "source", "value_index")
    __match_args__ = ("combiner", "source", "init", "axis", "condition", "value_index")
    combiner: CommReducer
    source: tuple[Expr, ...]
    init: tuple[Expr, ...]
    axis: tuple[IterVar, ...]
    condition: Expr
    value_index: int

    def __new__(
        cls,
        combiner: CommReducer,
        source: tuple[Expr, ...],
        axis: tuple[IterVar, ...],
        condition: Expr | None = None,
        value_index: int = 0,
        init: tuple[Expr, ...] = (),
    ) -> Reduce:
        if condition is None:
            condition = IntImm(1, bool_)
        dtype = source[value_index].dtype
        node: Reduce = cls._make(dtype, combiner, source, init, axis, condition, value_index)
        return node

    def children(self) -> tuple[Expr, ...]:
        return (*self.source, *self.init, self.condition)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        n = len(self.source)
        return Reduce(
            self.combiner,
            children[:n],
            self.axis,
            children[-1],
            self.value_index,
            children[n:-1],
        )


ExprRule = Callable[[Expr], Expr]
