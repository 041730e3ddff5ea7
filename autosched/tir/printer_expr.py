"""Prints expressions, and chooses the names of variables and buffers.

`ExprPrinter` is the lower half of the printer; `printer.py` prints statements.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_one, is_zero
from autosched.tir.dtype import DType, bool_, handle, int32
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
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)

# The binding strengths of an expression's text are Python's, so that it reads as Python.
_LET, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = range(9)

_STRENGTH: dict[type[BinaryExpr], int] = {
    Or: _OR,
    And: _AND,
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE), _COMPARE),
    Add: _SUM,
    Sub: _SUM,
    **dict.fromkeys((Mul, Div, FloorDiv, FloorMod), _PRODUCT),
}

# Calls with a usual type, which is not printed; most are made for their side effect only.
_USUAL_TYPES: dict[str, DType] = {
    "isnullptr": bool_,
    "tvm_struct_set": int32,
    "tvm_throw_last_error": int32,
    "TVMBackendAllocWorkspace": handle,
    "TVMBackendFreeWorkspace": int32,
    "tvm_storage_sync": int32,
    "tvm_thread_allreduce": handle,
    "prefetch": int32,
    "ret": int32,
    "tuple": handle,
}

_CLASSIFY = ("isnan", "isinf", "isfinite")  # true or false for each lane of their argument

KEYWORDS = frozenset(
    re.findall(r"\w+", "and assert def else False for if in let None not or pass True while with")
)
"""The words that cannot be names."""

_ODD = re.compile(r"[^\w.]|\.(?!\w)", re.ASCII)


class ExprPrinter:
    """Prints expressions; one printer gives each variable and buffer one name."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._used: set[str] = set(KEYWORDS)
        self._next: dict[str, int] = {}
        self._viewed: set[Var] = set()
        self._declared: set[Buffer] = set()

    # -- names

    def fresh(self, hint: str) -> str:
        """A new name: `hint`, or `hint_1`, `hint_2`, ... when it is taken."""
        hint = _ODD.sub("_", hint) or "v"
        if not (hint[0].isalpha() or hint[0] == "_"):
            hint = f"_{hint}"
        name = hint
        while name in self._used:
            count = self._next.get(hint, 0) + 1
            self._next[hint] = count
            name = f"{hint}_{count}"
        self._used.add(name)
        return name

    def var(self, var: Var) -> str:
        """The name of `var`."""
        name = self._names.get(var)
        if name is None:
            name = self._names[var] = self.fresh(var.name)
        return name

    def buffer(self, buffer: Buffer) -> str:
        """The name of `buffer`: the first buffer over a pointer shares the pointer's name."""
        name = self._names.get(buffer)
        if name is None:
            if buffer.data in self._viewed or (
                buffer.data in self._names and buffer.name != buffer.data.name
            ):
                name = self.fresh(buffer.name)
            else:
                self._viewed.add(buffer.data)
                name = self._names.get(buffer.data) or self.fresh(buffer.name)
                self._names.setdefault(buffer.data, name)
            self._names[buffer] = name
        return name

    def producer(self, tensor: Any) -> str:
        """The name of a tensor (or of an operation)."""
        name = self._names.get(tensor)
        if name is None:
            name = self._names[tensor] = self.fresh(tensor.name)
        return name

    def alias(self, thing: Var, name: str) -> None:
        """Give `thing` the name of another object."""
        self._names[thing] = name

    # -- expressions

    def expr(self, e: Expr, strength: int = 0) -> str:
        """The text of `e`, in parentheses when it binds weaker than `strength`."""
        rule = _RULES.get(type(e))
        if rule is not None:
            text, own = rule(self, e)
        else:
            text, own = self._binary(e) if isinstance(e, BinaryExpr) else (object.__repr__(e), 0)
        return f"({text})" if own < strength else text

    def exprs(self, items: tuple[Expr, ...]) -> str:
        """The texts of `items`, separated by commas."""
        return ", ".join(map(self.expr, items))

    def shape(self, items: tuple[Expr, ...]) -> str:
        """The texts of `items` as a Python tuple."""
        return f"({self.exprs(items)}{',' * (len(items) == 1)})"

    def range(self, r: Range) -> str:
        """The text `min:min + extent`."""
        return ":".join(self.ends(r))

    def ends(self, r: Range) -> tuple[str, str]:
        """The texts of `min` and of `min + extent`."""
        low, extent = r.min, r.extent
        first = self.expr(low)
        if isinstance(low, IntImm) and isinstance(extent, IntImm):
            return first, self.expr(IntImm(low.value + extent.value, extent.dtype))
        if is_zero(low):
            return first, self.expr(extent)
        return first, f"{self.expr(low, _SUM)} + {self.expr(extent, _PRODUCT)}"

    def region(self, name: str, ranges: tuple[Range, ...]) -> str:
        """The text `name[a:b, c:d]`."""
        return f"{name}[{', '.join(map(self.range, ranges))}]"

    def indices(self, indices: tuple[Expr, ...]) -> str:
        """The indices in brackets; a ramp of stride 1 is printed as a slice."""
        return f"[{', '.join(map(self._index, indices))}]"

    def _index(self, e: Expr) -> str:
        if isinstance(e, Ramp) and is_one(e.stride):
            return self.range(Range(e.base, IntImm(e.lanes, e.base.dtype)))
        return self.expr(e)

    def _binary(self, e: BinaryExpr) -> tuple[str, int]:
        kind = type(e)
        own = _STRENGTH.get(kind)
        if kind is Mod or (kind is Div and not e.dtype.is_float) or own is None:
            name = {Mod: "truncmod", Div: "truncdiv", Min: "min", Max: "max"}[kind]
            return f"{name}({self.expr(e.a)}, {self.expr(e.b)})", _ATOM
        left = own + 1 if own == _COMPARE else own
        return f"{self.expr(e.a, left)} {e.symbol} {self.expr(e.b, own + 1)}", own

    def _var(self, e: Var) -> tuple[str, int]:
        return self.var(e), _ATOM

    def _int(self, e: IntImm) -> tuple[str, int]:
        if e.dtype.is_bool:
            return str(bool(e.value)), _ATOM
        if e.dtype.name == "int32":
            return str(e.value), _ATOM if e.value >= 0 else _UNARY
        return f"{e.dtype}({e.value})", _ATOM

    def _float(self, e: FloatImm) -> tuple[str, int]:
        text = _float_text(e)
        if e.dtype.name == "float32" and math.isfinite(e.value):
            return text, _UNARY if text.startswith("-") else _ATOM
        return f"{e.dtype}({text})", _ATOM

    def _string(self, e: StringImm) -> tuple[str, int]:
        return quoted(e.value), _ATOM

    def _not(self, e: Not) -> tuple[str, int]:
        return f"not {self.expr(e.a, _NOT)}", _NOT

    def _cast(self, e: Cast) -> tuple[str, int]:
        if isinstance(e.value, IntImm | FloatImm):  # `float64(1.0)` would be a constant
            return f"cast({e.dtype}, {self.expr(e.value)})", _ATOM
        return f"{e.dtype}({self.expr(e.value)})", _ATOM

    def _select(self, e: Select) -> tuple[str, int]:
        return f"Select({self.exprs((e.condition, e.true_value, e.false_value))})", _ATOM

    def _load(self, e: BufferLoad) -> tuple[str, int]:
        text = self.buffer(e.buffer) + self.indices(e.indices)
        if e.predicate is not None:
            text = f"load({text}, predicate={self.expr(e.predicate)})"
        return text, _ATOM

    def _producer_load(self, e: ProducerLoad) -> tuple[str, int]:
        return self.producer(e.producer) + self.indices(e.indices), _ATOM

    def _let(self, e: Let) -> tuple[str, int]:
        value = self.expr(e.value)
        return f"let {self.var(e.var)} = {value} in {self.expr(e.body)}", _LET

    def _call(self, e: Call) -> tuple[str, int]:
        args = [self.expr(a) for a in e.args]
        if e.dtype is not call_dtype(e.op, e.args):
            args.append(f"dtype={e.dtype}")
        return f"{e.op}({', '.join(args)})", _ATOM

    def _ramp(self, e: Ramp) -> tuple[str, int]:
        return f"ramp({self.expr(e.base)}, {self.expr(e.stride)}, {e.lanes})", _ATOM

    def _broadcast(self, e: Broadcast) -> tuple[str, int]:
        return f"broadcast({self.expr(e.value)}, {e.lanes})", _ATOM

    def _shuffle(self, e: Shuffle) -> tuple[str, int]:
        return f"shuffle([{self.exprs(e.vectors)}], [{self.exprs(e.indices)}])", _ATOM

    def _reduce(self, e: Reduce) -> tuple[str, int]:
        axes = ", ".join(map(self.iter_var, e.axis))
        parts = [self.exprs(e.source), f"axis=[{axes}]"]
        if e.init:
            parts.append(f"init=[{self.exprs(e.init)}]")
        if not isinstance(e.condition, IntImm) or not e.condition.value:
            parts.append(f"where={self.expr(e.condition)}")
        if e.value_index:
            parts.append(f"value_index={e.value_index}")
        return f"{e.combiner.name or 'reduce'}({', '.join(parts)})", _ATOM

    # -- objects in expressions and attributes that are not expressions

    def iter_var(self, iv: IterVar) -> str:
        """The text `name in lo:hi`, or `name` without a domain."""
        name = self.var(iv.var)
        return name if iv.dom is None else f"{name} in {self.range(iv.dom)}"

    def reducer(self, r: CommReducer) -> str:
        """`reducer("sum", [x: int32], [y: int32], [x + y], [0])`: left, right, result, identity."""
        left, right = (
            ", ".join(f"{self.var(v)}: {v.dtype}" for v in side) for side in (r.lhs, r.rhs)
        )
        result, identity = self.exprs(r.result), self.exprs(r.identity)
        return f"reducer({quoted(r.name)}, [{left}], [{right}], [{result}], [{identity}])"

    def value(self, value: Any) -> str:
        """The text of any object that may be printed."""
        match value:
            case Expr():
                return self.expr(value)
            case Buffer():
                return self.buffer(value)
            case IterVar():
                return self.var(value.var)
            case Range():
                return self.range(value)
            case CommReducer():
                return self.reducer(value)
            case str():
                return quoted(value)
            case list() | tuple():
                return f"[{', '.join(map(self.value, value))}]"
            case dict():
                items = (f"{quoted(str(k))}: {self.value(v)}" for k, v in value.items())
                return f"{{{', '.join(items)}}}"
            case _ if hasattr(value, "outputs") or hasattr(value, "op"):
                return self.producer(value)
        return str(value)

    def attribute(self, value: Any) -> str:
        """The text of an attribute's value, which distinguishes expressions from numbers."""
        match value:
            case Expr():
                return f"expr({self.expr(value)})"
            case list() | tuple():
                return f"[{', '.join(map(self.attribute, value))}]"
            case dict():
                items = (f"{quoted(str(k))}: {self.attribute(v)}" for k, v in value.items())
                return f"{{{', '.join(items)}}}"
            case float() if not math.isfinite(value):
                return f'float("{value}")'
        return self.value(value)


def quoted(text: str) -> str:
    """`text` in double quotes, escaped as in JSON."""
    return json.dumps(text, ensure_ascii=False)


def call_dtype(op: str, args: tuple[Expr, ...]) -> DType | None:
    """The type of a call without `dtype=` in its text; None if there is no default."""
    if op in _USUAL_TYPES:
        return _USUAL_TYPES[op]
    if op in _CLASSIFY and args:
        return bool_.with_lanes(args[0].dtype.lanes)
    typical = 1 if op == "if_then_else" else 0
    return args[typical].dtype if len(args) > typical else None


def _float_text(e: FloatImm) -> str:
    if math.isinf(e.value) or math.isnan(e.value):
        return f'"{e.value}"'
    if e.dtype.name in ("float32", "float16"):
        return str(e.dtype.numpy.type(e.value).item()) if e.value == 0 else _shortest(e)
    return repr(e.value)


def _shortest(e: FloatImm) -> str:
    text = np.format_float_positional(e.dtype.numpy.type(e.value), trim="0")
    if len(text) <= 16:
        return text
    return np.format_float_scientific(e.dtype.numpy.type(e.value), trim="0")


_RULES: dict[type[Expr], Callable[[ExprPrinter, Any], tuple[str, int]]] = {
    Var: ExprPrinter._var,
    SizeVar: ExprPrinter._var,
    IntImm: ExprPrinter._int,
    FloatImm: ExprPrinter._float,
    StringImm: ExprPrinter._string,
    Not: ExprPrinter._not,
    Cast: ExprPrinter._cast,
    Select: ExprPrinter._select,
    BufferLoad: ExprPrinter._load,
    ProducerLoad: ExprPrinter._producer_load,
    Let: ExprPrinter._let,
    Call: ExprPrinter._call,
    Ramp: ExprPrinter._ramp,
    Broadcast: ExprPrinter._broadcast,
    Shuffle: ExprPrinter._shuffle,
    Reduce: ExprPrinter._reduce,
}
