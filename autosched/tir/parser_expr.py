"""Parses expressions, and keeps the names of variables and buffers.

`ExprParser` is the lower half of the parser; `parser_stmt.py` parses statements. The grammar is
Python's, with IR nodes written as calls, as the printer writes them. Nothing is folded.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_zero
from autosched.tir.dtype import DType, bool_, float32, int32
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
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Range,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
    binary,
)
from autosched.tir.intrin import EFFECTS
from autosched.tir.op import const
from autosched.tir.parser_tokens import Cursor, ParseError, Token, dtype_or_none
from autosched.tir.printer_expr import call_dtype

_COMPARE: dict[str, type[BinaryExpr]] = {"==": EQ, "!=": NE, "<": LT, "<=": LE, ">": GT, ">=": GE}
_SUM: dict[str, type[BinaryExpr]] = {"+": Add, "-": Sub}
_PRODUCT: dict[str, type[BinaryExpr]] = {"*": Mul, "/": Div, "//": FloorDiv, "%": FloorMod}
_CALLED: dict[str, type[BinaryExpr]] = {"min": Min, "max": Max, "truncdiv": Div, "truncmod": Mod}


class ExprParser(Cursor):
    """Parses expressions; one parser gives each name one variable and one buffer."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.vars: dict[str, Var] = {}
        self.buffers: dict[str, Buffer] = {}

    def bind(self, token: Token, dtype: DType, make: Callable[[], Var] | None = None) -> Var:
        """Bind the variable called `token`; ParseError if it has another type already."""
        var = self.vars.get(token.text)
        if var is None:
            var = self.vars[token.text] = make() if make else Var(token.text, dtype)
        if var.dtype is not dtype:
            raise self.error(f"`{token.text}` is {var.dtype} above, {dtype} here", token)
        return var

    def exprs(self, end: str) -> tuple[Expr, ...]:
        """Parse expressions separated by commas, and the closing bracket `end`."""
        found: list[Expr] = []
        self.list_of(lambda: found.append(self.expr()), end)
        return tuple(found)

    # -- expressions, from the weakest binding to the strongest

    def expr(self) -> Expr:
        """Parse an expression."""
        if self.accept("let"):
            return self._let()
        result = self._and()
        while self.peek("or"):
            result = self._binary(self.next(), Or, result, self._and())
        return result

    def _let(self) -> Expr:
        token = self.name("a variable after `let`")
        self.expect("=", "after the variable of `let`")
        value = self.expr()
        var = self.bind(token, value.dtype)
        self.expect("in", "after the value of `let`")
        return Let(var, value, self.expr())

    def _and(self) -> Expr:
        result = self._not()
        while self.peek("and"):
            result = self._binary(self.next(), And, result, self._not())
        return result

    def _not(self) -> Expr:
        if not self.peek("not"):
            return self._comparison()
        self.next()
        return Not(self.condition(self._not, several=True))

    def condition(self, parse: Callable[[], Expr], *, several: bool = False) -> Expr:
        """Parse a truth value, or with `several` lanes of them."""
        start = self.token
        value = parse()
        if not value.dtype.is_bool or (value.dtype.lanes > 1 and not several):
            raise self.error(
                f"expected a condition, found {value.dtype}; compare it, e.g. with 0", start
            )
        return value

    def _comparison(self) -> Expr:
        left = self._sum()
        if self.token.kind != "OP" or self.token.text not in _COMPARE:
            return left
        sign = self.next()
        return self._binary(sign, _COMPARE[sign.text], left, self._sum())

    def _sum(self) -> Expr:
        result = self._product()
        while self.token.kind == "OP" and self.token.text in _SUM:
            sign = self.next()
            result = self._binary(sign, _SUM[sign.text], result, self._product())
        return result

    def _product(self) -> Expr:
        result = self._atom()
        while self.token.kind == "OP" and self.token.text in _PRODUCT:
            sign = self.next()
            right = self._atom()
            if sign.text == "/" and not result.dtype.is_float:
                raise self.error("`/` is for floats: write // or truncdiv(a, b)", sign)
            result = self._binary(sign, _PRODUCT[sign.text], result, right)
        return result

    def _binary(self, sign: Token, kind: type[BinaryExpr], a: Expr, b: Expr) -> Expr:
        if a.dtype is not b.dtype:
            raise self.error(
                f"`{sign.text}` of {a.dtype} and {b.dtype}; expected one type, such as "
                f"{a.dtype}(...) on the right",
                sign,
            )
        return binary(kind, a, b)

    def _atom(self) -> Expr:
        token = self.token
        if token.kind == "NUMBER" or self.peek("-"):
            return self._number(None)
        if token.kind == "STRING":
            return StringImm(self.string("a string"))
        if self.accept("("):
            result = self.expr()
            self.expect(")", "after the expression in brackets")
            return result
        if token.kind == "NAME" and token.text in ("True", "False"):
            self.next()
            return IntImm(int(token.text == "True"), bool_)
        name = self.name("an expression")
        if self.accept("["):
            return self._load(name)
        if self.accept("("):
            return self._call(name)
        return self.variable(name)

    def variable(self, name: Token) -> Expr:
        """The variable called `name`; ParseError when there is none."""
        if name.text not in self.vars:
            raise self._unknown("variable", name, self.vars)
        return self.vars[name.text]

    def _unknown(self, what: str, name: Token, known: Iterable[str]) -> ParseError:
        near = difflib.get_close_matches(name.text, known, n=3) or sorted(known)[:8]
        return self.error(
            f"unknown {what} `{name.text}`; known here: {', '.join(near) or 'none'}", name
        )

    def _number(self, dtype: DType | None) -> Expr:
        """Parse a number of `dtype`; without one, digits alone are int32, all others float32."""
        negative = self.accept("-")
        token = self.kind("NUMBER", "a number after `-`")
        whole = token.text.isdigit()
        dtype = dtype or (int32 if whole else float32)
        value = int(token.text) if whole else float(token.text)
        if dtype.is_float or dtype.is_custom:
            return const(-float(value) if negative else float(value), dtype)
        value = -value if negative else value
        if not whole or not dtype.is_integral or not dtype.min_value <= value <= dtype.max_value:
            raise self.error(f"{value} is no {dtype}; write its type, such as int64(...)", token)
        return IntImm(int(value), dtype)

    # -- loads and calls

    def buffer(self, name: Token) -> Buffer:
        """The buffer called `name`; ParseError when there is none."""
        if name.text not in self.buffers:
            raise self._unknown("buffer", name, self.buffers)
        return self.buffers[name.text]

    def _load(self, name: Token) -> BufferLoad:
        buffer = self.buffer(name)
        indices: list[Expr] = []
        self.list_of(lambda: indices.append(self._index()), "]")
        if len(indices) != len(buffer.shape):
            raise self.error(
                f"`{name.text}` has {len(buffer.shape)} dimensions, found {len(indices)} indices",
                name,
            )
        return BufferLoad(buffer, tuple(indices))

    def _index(self) -> Expr:
        start = self.token
        low = self.expr()
        if not self.accept(":"):
            return low
        extent = self._extent(low)
        if not isinstance(extent, IntImm):
            raise self.error("the length of a slice is a number", start)
        return Ramp(low, IntImm(1, low.dtype), extent.value)

    def range(self) -> Range:
        """Parse `min:min + extent`."""
        low = self.expr()
        self.expect(":", "in a range")
        return Range(low, self._extent(low))

    def _extent(self, low: Expr) -> Expr:
        """Parse the end of a range that starts at `low`; return the extent."""
        token = self.token
        return self.extent_between(low, self.expr(), token)

    def extent_between(self, low: Expr, stop: Expr, token: Token) -> Expr:
        """The extent of [low, stop), where `stop` is written as `low + extent`."""
        if isinstance(low, IntImm) and isinstance(stop, IntImm):
            return IntImm(stop.value - low.value, stop.dtype)
        if isinstance(stop, Add) and stop.a is low:
            return stop.b
        if is_zero(low):
            return stop
        raise self.error(f"expected the end of the range as {low!r} + LENGTH", token)

    def _call(self, name: Token) -> Expr:
        special = _SPECIAL.get(name.text)
        if special is not None:
            return special(self, name)
        if name.text in _CALLED:
            args = self._args(name, 2)
            return self._binary(name, _CALLED[name.text], *args)
        dtype = dtype_or_none(name.text)
        if dtype is not None:
            return self._conversion(dtype)
        if name.text not in EFFECTS:
            near = difflib.get_close_matches(name.text, EFFECTS, n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise self.error(f"unknown intrinsic `{name.text}`{hint}", name)
        return self._intrinsic(name)

    def _args(self, name: Token, count: int) -> tuple[Expr, ...]:
        args = self.exprs(")")
        if len(args) != count:
            raise self.error(f"`{name.text}` takes {count} arguments, found {len(args)}", name)
        return args

    def _intrinsic(self, name: Token) -> Expr:
        args: list[Expr] = []
        dtype: DType | None = None
        while not self.accept(")"):
            if self.accept("dtype", "="):
                dtype = self.dtype()
                self.expect(")", "after the type of a call")
                break
            args.append(self.expr())
            if not self.peek(")"):
                self.expect(",", f"or `)` after an argument of {name.text}")
        dtype = dtype or call_dtype(name.text, tuple(args))
        if dtype is None:
            raise self.error(f"`{name.text}` without arguments needs dtype=...", name)
        return Call(dtype, name.text, tuple(args))

    def _conversion(self, dtype: DType) -> Expr:
        """Parse the argument of `float16(0.5)`, a constant, or `float16(x)`, a cast."""
        sign = 1 if self.peek("-") else 0
        number, after = self.ahead(sign), self.ahead(sign + 1)
        if number.kind == "NUMBER" and after.text == ")":
            value = self._number(dtype)
        elif number.kind == "STRING" and dtype.is_float:
            text = self.string("inf or nan")
            if text not in ("inf", "-inf", "nan"):
                raise self.error(f'expected "inf", "-inf" or "nan", found {number}', number)
            value = FloatImm(float(text), dtype)
        else:
            value = Cast(dtype, self.expr())
        self.expect(")", f"after the argument of {dtype}")
        return value

    def _cast(self, name: Token) -> Expr:
        dtype = self.dtype()
        self.expect(",", "after the type of a cast")
        value = self.expr()
        self.expect(")", "after the value of a cast")
        return Cast(dtype, value)

    def _select(self, name: Token) -> Expr:
        return Select(*self._args(name, 3))

    def _ramp(self, name: Token) -> Expr:
        base, stride, lanes = self._args(name, 3)
        self._require_scalars(name, base, stride)
        return Ramp(base, stride, self._lanes(name, lanes))

    def _broadcast(self, name: Token) -> Expr:
        value, lanes = self._args(name, 2)
        self._require_scalars(name, value)
        return Broadcast(value, self._lanes(name, lanes))

    def _require_scalars(self, name: Token, *values: Expr) -> None:
        for value in values:
            if value.dtype.lanes > 1:
                problem = f"takes scalars, found {value!r} of type {value.dtype}"
                raise self.error(f"`{name.text}` {problem}", name)

    def _lanes(self, name: Token, lanes: Expr) -> int:
        if not isinstance(lanes, IntImm):
            raise self.error(f"the lanes of `{name.text}` are a number, found {lanes!r}", name)
        return lanes.value

    def _shuffle(self, name: Token) -> Expr:
        self.expect("[", "before the vectors of a shuffle")
        vectors = self.exprs("]")
        self.expect(",", "after the vectors of a shuffle")
        self.expect("[", "before the lanes of a shuffle")
        indices = self.exprs("]")
        self.expect(")", "after the lanes of a shuffle")
        lanes = sum(vector.dtype.lanes for vector in vectors)
        outside = [i for i in indices if isinstance(i, IntImm) and not 0 <= i.value < lanes]
        if outside or not vectors or not indices:
            wrong = outside[0] if outside else "none"
            raise self.error(f"`shuffle` takes some of {lanes} lanes, found {wrong}", name)
        return Shuffle(vectors, indices)

    def _masked_load(self, name: Token) -> Expr:
        load = self.expr()
        predicate = self.predicate()
        if not isinstance(load, BufferLoad):
            raise self.error("`load` takes an access of a buffer", name)
        return BufferLoad(load.buffer, load.indices, predicate)

    def predicate(self) -> Expr:
        """Parse `, predicate=...)` at the end of a masked load or store."""
        self.expect(",", "before the predicate")
        self.expect("predicate", "as the last argument")
        self.expect("=", "after `predicate`")
        result = self.expr()
        self.expect(")", "after the predicate")
        return result


_SPECIAL: dict[str, Callable[[ExprParser, Token], Expr]] = {
    "Select": ExprParser._select,
    "ramp": ExprParser._ramp,
    "broadcast": ExprParser._broadcast,
    "shuffle": ExprParser._shuffle,
    "cast": ExprParser._cast,
    "load": ExprParser._masked_load,
}
