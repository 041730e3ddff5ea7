"""Compiles expressions to Python source: the lower half of the interpreter's compiler.

Each expression becomes Python text plus facts about it: whether it may differ between threads,
and for integers an interval that contains its value. With the intervals most bounds checks and
wrap-arounds are proved unnecessary. Vectors are arrays (threads or 1, lanes).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from autosched.tir import interp_math as m
from autosched.tir.buffer import Buffer
from autosched.tir.conversion import const
from autosched.tir.dtype import DType
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
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from autosched.tir.interp_access import flat_index, view_place, watched_index
from autosched.tir.interp_call import call_value
from autosched.tir.interp_copies import check_aligned, in_elements
from autosched.tir.interp_hoist import HOISTABLE, hoisted, of_threads_alone, split
from autosched.tir.interp_memory import (
    InterpreterError,
    Storage,
    checked,
    combine_masks,
    out_of_bounds,
    thread_mask,
)
from autosched.tir.interp_threads import Run
from autosched.tir.interp_value import (
    AND,
    ATOM,
    COMPARE,
    OR,
    SUM,
    TERM,
    Memory,
    Place,
    Value,
    decide,
    division_interval,
    interval,
    type_interval,
)
from autosched.tir.kinds import bits_of, kinds
from autosched.tir.stmt import Stmt
from autosched.tir.walk import distinct

_HIGHEST = 25  # levels of an expression in one Python text; CPython allows 200 parentheses


class ExprCompiler(ABC):
    """Compiles expressions.

    The statement compiler fills the tables: `names` maps variables to values, `places` buffers to
    places, `memory` pointers to memory, and `globals` names to objects for the generated code.
    `mask` is the Python name of the mask of running threads.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.watched = run.watch is not None
        self.counting = run.watch is not None and run.watch.counting
        self.current: Stmt | None = None
        self.names: dict[Var, Value] = {}
        self.places: dict[Buffer, Place] = {}
        self.memory: dict[Var, Memory] = {}
        self.globals: dict[str, Any] = dict(RUNTIME)
        self.mask = "True"
        self.in_kernel = False
        self.eager_select = False
        self._counter = 0
        self._height = 0
        self._lambdas: list[str] = []
        # Tables of the kernel that is being compiled (`interp_hoist.py`).
        self.thread_vars: set[Var] = set()
        self.threads_alone: dict[Expr, bool] = {}
        self.hoisted_parts: dict[tuple[str, frozenset[tuple[Expr, int]]], str] = {}
        self.hoisted: dict[Expr, Value] = {}

    @abstractmethod
    def before_statements(self, line: str) -> None:
        """Add a line to the start of the kernel."""

    @abstractmethod
    def emit(self, line: str) -> None:
        """Add a line before the statement that is being compiled."""

    def fresh(self, prefix: str) -> str:
        """A new Python name."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def constant(self, value: Any) -> str:
        """A Python name for the object `value` in the generated code."""
        name = self.fresh("c")
        self.globals[name] = value
        return name

    def type_name(self, dtype: DType) -> str:
        """A Python name for `dtype` in the generated code; InterpreterError for a custom type."""
        if dtype.is_custom:
            raise InterpreterError(f"{dtype} means nothing before LowerCustomDatatypes: run it")
        name = f"T_{dtype.name}"
        self.globals[name] = dtype
        return name

    def typed(self, v: Value, dtype: DType) -> Value:
        """`v`, with a Python int converted to the NumPy type of `dtype`.

        Needed where Python ints are combined to an array, whose type then decides the arithmetic.
        """
        if v.varying or not dtype.is_integral or dtype.is_bool or dtype.lanes > 1:
            return v
        return v._replace(text=f"{self.constant(dtype.numpy.type)}({v.text})", strength=ATOM)

    def place(self, buffer: Buffer) -> Place:
        """The place of `buffer`: realised, a parameter, or a view of known memory."""
        place = self.places.get(buffer)
        if place is None:
            memory = self.memory.get(buffer.data)
            if memory is None:
                raise InterpreterError(f"{buffer!r} is accessed outside of where it is allocated")
            if memory.scope == "wmma":
                raise InterpreterError(
                    f"{buffer.name} is a fragment, whose elements the hardware places: it is "
                    "filled, loaded and stored whole"
                )
            place = view_place(self, buffer, memory)
        return place

    def masked(self, predicate: Expr | None) -> str:
        """The Python text of the mask of an access with `predicate`."""
        if predicate is None:
            return self.mask
        return f"combine_masks({self.mask}, {self.expr(predicate).text})"

    def expr(self, e: Expr) -> Value:
        """The compiled value of `e`."""
        known = self.hoisted.get(e)
        if known is not None:
            return known
        rule = _RULES.get(type(e))
        if rule is None:
            raise InterpreterError(f"{type(e).__name__} cannot be run: {e!r}")
        around, self._height = self._height, 0
        value = rule(self, e)
        height, self._height = self._height + 1, around
        if value.varying and type(e) in HOISTABLE and of_threads_alone(self, e):
            return hoisted(self, e, value)
        if height == _HIGHEST:
            return self._apart(value)
        self._height = max(height, around)
        return value

    def _apart(self, value: Value) -> Value:
        """`value` as a call of a function of its own: Python limits nested parentheses."""
        name, parameters = self.fresh("e"), ", ".join(self._lambdas)
        self.emit(f"{name} = lambda {parameters}: {value.text}")
        return value._replace(text=f"{name}({parameters})", strength=ATOM)

    @contextmanager
    def inside_lambda(self, *names: str) -> Iterator[None]:
        """A context whose expressions may use `names`, the parameters of a lambda."""
        self._lambdas += names
        yield
        del self._lambdas[-len(names) :]

    # -- leaves

    def _var(self, e: Var) -> Value:
        found = self.names.get(e)
        if found is not None:
            return found
        memory = self.memory.get(e)
        if memory is not None:
            return Value(f"Pointer({memory.storage(memory.dtype)}, 0)")
        raise InterpreterError(f"variable {e.name} is used but nothing binds it")

    def _int(self, e: IntImm) -> Value:
        if e.dtype.is_bool:
            return Value(str(bool(e.value)), low=e.value, high=e.value)
        text = str(e.value) if e.value >= 0 else f"({e.value})"
        return Value(text, low=e.value, high=e.value)

    def _float(self, e: FloatImm) -> Value:
        return Value(self.constant(e.dtype.numpy.type(e.value)))

    def _string(self, e: StringImm) -> Value:
        return Value(repr(e.value))

    # -- operators

    def _ranged(self, text: str, strength: int, e: Expr, many: bool, low: int, high: int) -> Value:
        """An integer result whose exact values are in [low, high]; wrapped if they may not fit."""
        if low >= e.dtype.min_value and high <= e.dtype.max_value:
            return Value(text, strength, many, low, high)
        low, high = int(e.dtype.min_value), int(e.dtype.max_value)
        if many or e.dtype.lanes > 1:
            return Value(text, strength, many, low, high)
        return Value(f"wrap({text}, {self.type_name(e.dtype)})", ATOM, many, low, high)

    def _arithmetic(self, e: BinaryExpr) -> Value:
        a, b = self.expr(e.a), self.expr(e.b)
        own = TERM if type(e) is Mul else SUM
        text = f"{a.at(own)} {e.symbol} {b.at(own + 1)}"
        many = a.varying or b.varying
        if not e.dtype.is_integral:
            return Value(text, own, many)
        return self._ranged(text, own, e, many, *interval(type(e), a, b))

    def _division(self, e: BinaryExpr) -> Value:
        a, b = self.expr(e.a), self.expr(e.b)
        many = a.varying or b.varying
        kind = type(e)
        if not e.dtype.is_integral:
            symbol = {Div: "/", FloorMod: "%"}.get(kind)
            if symbol is None:
                name = "fmod" if kind is Mod else "floor_div_float"
                return Value(f"{name}({a.text}, {b.text})", ATOM, many)
            return Value(f"{a.at(TERM)} {symbol} {b.at(ATOM)}", TERM, many)
        low, high = division_interval(kind, a, b)
        arrays = many or e.dtype.lanes > 1
        if b.low <= 0 <= b.high:
            text = f"divide({kind.__name__!r}, {a.text}, {b.text})"
            return self._ranged(text, ATOM, e, many, low, high)
        # For non-negative operands truncated and floor division agree.
        same = a.low >= 0 and b.low > 0
        if kind in (FloorDiv, FloorMod) or same:
            symbol = "//" if kind in (FloorDiv, Div) else "%"
            text, strength = f"{a.at(TERM)} {symbol} {b.at(ATOM)}", TERM
        else:
            names = ("trunc_div_many", "fmod") if arrays else ("trunc_div", "trunc_mod")
            text, strength = f"{names[kind is Mod]}({a.text}, {b.text})", ATOM
        return self._ranged(text, strength, e, many, low, high)

    def _extremum(self, e: BinaryExpr) -> Value:
        a, b = self.expr(e.a), self.expr(e.b)
        many = a.varying or b.varying
        least = type(e) is Min
        if many or e.dtype.lanes > 1 or e.dtype.is_float:
            name = "minimum" if least else "maximum"
        else:
            name = "min" if least else "max"
        pick = min if least else max
        low, high = pick(a.low, b.low), pick(a.high, b.high)
        return Value(f"{name}({a.text}, {b.text})", ATOM, many, low, high)

    def _compare(self, e: BinaryExpr) -> Value:
        a, b = self.expr(e.a), self.expr(e.b)
        low, high = 0, 1
        if e.a.dtype.is_integral and e.dtype.lanes == 1:
            known = decide(type(e), a, b)
            if known is not None:
                low = high = int(known)
        text = f"{a.at(OR)} {e.symbol} {b.at(OR)}"
        return Value(text, COMPARE, a.varying or b.varying, low, high)

    def _logic(self, e: BinaryExpr) -> Value:
        a, b = self.expr(e.a), self.expr(e.b)
        own = AND if type(e) is And else OR
        pick = min if type(e) is And else max
        text = f"{a.at(own)} {'&' if own == AND else '|'} {b.at(own + 1)}"
        return Value(text, own, a.varying or b.varying, pick(a.low, b.low), pick(a.high, b.high))

    def _not(self, e: Not) -> Value:
        a = self.expr(e.a)
        if a.varying or e.dtype.lanes > 1:
            return Value(f"logical_not({a.text})", ATOM, a.varying, 1 - a.high, 1 - a.low)
        return Value(f"(not {a.text})", ATOM, False, 1 - a.high, 1 - a.low)

    def _cast(self, e: Cast) -> Value:
        v = self.expr(e.value)
        source, target = e.value.dtype, e.dtype
        low, high = 0, 0
        fits = source.is_integral and target.is_integral
        if target.is_integral:
            low, high = int(target.min_value), int(target.max_value)
            if fits and low <= v.low and v.high <= high:
                low, high = v.low, v.high
            else:
                fits = False
        name = self.type_name(target.element)
        if v.varying or target.lanes > 1:
            return Value(f"cast_many({v.text}, {name})", ATOM, v.varying, low, high)
        if fits and not target.is_bool:
            text = f"int({v.text})" if source.is_bool else v.text
            return Value(text, ATOM if source.is_bool else v.strength, False, low, high)
        return Value(f"cast_one({v.text}, {name})", ATOM, False, low, high)

    def _select(self, e: Select) -> Value:
        if not self.eager_select and (_may_raise(e.true_value) or _may_raise(e.false_value)):
            return call_value(self, Call(e.dtype, "if_then_else", e.children()))
        c, a, b = self.expr(e.condition), self.expr(e.true_value), self.expr(e.false_value)
        many = c.varying or a.varying or b.varying
        low, high = min(a.low, b.low), max(a.high, b.high)
        if c.varying or e.condition.dtype.lanes > 1:
            wide = e.dtype.lanes > 1 and e.condition.dtype.lanes == 1
            condition = f"lane_axis({c.text})" if wide else c.text
            a, b = self.typed(a, e.dtype), self.typed(b, e.dtype)
            text = f"where({condition}, {a.text}, {b.text})"
        else:
            if many:
                a, b = self.typed(a, e.dtype), self.typed(b, e.dtype)
            text = f"select_one({c.text}, {a.text}, {b.text})"
        return Value(text, ATOM, many, low, high)

    @contextmanager
    def _whole_vectors(self) -> Iterator[None]:
        """Inside, vectors are read whole if any lane of the mask holds."""
        outer = self.mask
        if outer != "True":
            self.mask = f"thread_mask({outer})"
        yield
        self.mask = outer

    def _let(self, e: Let) -> Value:
        with self._whole_vectors() if kinds(e.body) & _SHUFFLE else nullcontext():
            v = self.expr(e.value)
        name = self.fresh("v")
        self.names[e.var] = Value(name, ATOM, v.varying, v.low, v.high)
        with self.inside_lambda(name):
            body = self.expr(e.body)
        text = f"(lambda {name}: {body.text})({v.text})"
        return body._replace(text=text, strength=ATOM, varying=v.varying or body.varying)

    # -- vectors

    def _ramp(self, e: Ramp) -> Value:
        base, stride = self.expr(e.base), self.expr(e.stride)
        dtype = self.constant(e.dtype.numpy)
        ends = [(e.lanes - 1) * s for s in (stride.low, stride.high)]
        low, high = base.low + min(0, *ends), base.high + max(0, *ends)
        text = f"ramp({base.text}, {stride.text}, {e.lanes}, {dtype})"
        return self._ranged(text, ATOM, e, base.varying or stride.varying, low, high)

    def _broadcast(self, e: Broadcast) -> Value:
        v = self.expr(e.value)
        dtype = self.constant(e.dtype.numpy)
        text = f"asarray({v.text}, {dtype}).reshape(-1, 1)"
        return Value(text, ATOM, v.varying, v.low, v.high)

    def _shuffle(self, e: Shuffle) -> Value:
        with self._whole_vectors():  # the mask is about the lanes of the result
            vectors = [self.typed(self.expr(v), v.dtype) for v in e.vectors]
        lanes = tuple(v.dtype.lanes for v in e.vectors)
        picks = []
        for index in e.indices:
            if not isinstance(index, IntImm):
                raise InterpreterError(f"shuffle with the index {index!r}, which is not a constant")
            picks.append(index.value)
        many = any(v.varying for v in vectors)
        low, high = min(v.low for v in vectors), max(v.high for v in vectors)
        texts = ", ".join(v.text for v in vectors)
        text = f"shuffle(({texts},), {lanes}, {tuple(picks)})"
        if e.dtype.lanes == 1 and not many:
            text += "[0]"
            if not e.dtype.is_float:
                text = f"{'bool' if e.dtype.is_bool else 'int'}({text})"
        return Value(text, ATOM, many, low, high)

    # -- memory

    def _checks_vector(self, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
        """Whether the watch checks the alignment of this vector access."""
        watch = self.run.watch
        if watch is None or not isinstance(indices[-1], Ramp):
            return False
        return watch.is_vector is None or watch.is_vector(buffer, indices[-1])

    def _load(self, e: BufferLoad) -> Value:
        if e.predicate is not None and e.dtype.lanes == 1:
            load = BufferLoad(e.buffer, e.indices)
            args = e.predicate, load, const(0, e.dtype)
            return call_value(self, Call(e.dtype, "if_then_else", args))
        place = self.place(e.buffer)
        outer, self.mask = self.mask, self.masked(e.predicate)
        mask = self.mask
        parts = split(self, place, e.indices) if self.in_kernel and not self.counting else None
        if parts is not None and not (parts.lanes and self._checks_vector(e.buffer, e.indices)):
            self.mask = outer
            text = f"{place.storage}.load_sum({parts.fields(mask)})"
            return Value(text, ATOM, True, *type_interval(e.dtype))
        index = flat_index(self, place, e.indices)
        self.mask = outer
        if self.watched:
            index = watched_index(self, place, index, e.buffer, e.indices, mask, store=False)
        memory = place.memory
        varying = index.varying or (self.in_kernel and not memory.plain)
        bounds = type_interval(e.dtype)
        if varying or e.dtype.lanes > 1:
            return Value(f"{place.storage}.load({index.text}, {mask})", ATOM, varying, *bounds)
        array, text = memory.array(place.dtype), index.text
        if self.watched:
            text = f"{place.storage}.noted_load({text}, {mask})"
        if e.dtype.is_integral:
            return Value(f"{array}.item({text})", ATOM, False, *bounds)
        return Value(f"{array}[{text}]")


_SHUFFLE = bits_of(Shuffle)


def _may_raise(e: Expr) -> bool:
    """Whether evaluating `e` for threads that do not need it could raise an error.

    Any load counts, and any division, whatever its divisor.
    """
    unsafe = (BufferLoad, Div, Mod, FloorDiv, FloorMod)
    return any(isinstance(node, unsafe) for node in distinct(e))


_RULES: dict[type[Expr], Callable[[ExprCompiler, Any], Value]] = {
    Var: ExprCompiler._var,
    SizeVar: ExprCompiler._var,
    IntImm: ExprCompiler._int,
    FloatImm: ExprCompiler._float,
    StringImm: ExprCompiler._string,
    **dict.fromkeys((Add, Sub, Mul), ExprCompiler._arithmetic),
    **dict.fromkeys((Div, Mod, FloorDiv, FloorMod), ExprCompiler._division),
    **dict.fromkeys((Min, Max), ExprCompiler._extremum),
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE), ExprCompiler._compare),
    **dict.fromkeys((And, Or), ExprCompiler._logic),
    Not: ExprCompiler._not,
    Cast: ExprCompiler._cast,
    Select: ExprCompiler._select,
    Let: ExprCompiler._let,
    Ramp: ExprCompiler._ramp,
    Broadcast: ExprCompiler._broadcast,
    Shuffle: ExprCompiler._shuffle,
    BufferLoad: ExprCompiler._load,
    Call: call_value,
}

RUNTIME: dict[str, Any] = {
    "asarray": np.asarray,
    "where": np.where,
    "wide": lambda x: np.asarray(x, np.int64),
    "minimum": np.minimum,
    "maximum": np.maximum,
    "logical_not": np.logical_not,
    "fmod": np.fmod,
    **{name: getattr(m, name) for name in m.__all__},
    "check_aligned": check_aligned,
    "checked": checked,
    "combine_masks": combine_masks,
    "in_elements": in_elements,
    "out_of_bounds": out_of_bounds,
    "per_lane": lambda x: np.asarray(x).reshape(-1),
    "thread_mask": thread_mask,
    "Storage": Storage,
}
