"""What the interpreter's compiler knows of a value: its Python text, variance and interval."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from autosched.tir.dtype import DType
from autosched.tir.expr import GE, GT, LE, LT, NE, Add, Div, Expr, FloorDiv, FloorMod, Mod, Mul, Sub
from autosched.tir.interp_math import trunc_div

# How tightly Python text binds.
COMPARE, OR, AND, SUM, TERM, ATOM = range(1, 7)


class Value(NamedTuple):
    """Python text of a value: precedence, whether threads may differ, and [low, high] of ints."""

    text: str
    strength: int = ATOM
    varying: bool = False
    low: int = 0
    high: int = 0

    def at(self, strength: int) -> str:
        """The text, in parentheses when it binds weaker than `strength`."""
        return f"({self.text})" if self.strength < strength else self.text


@dataclass(slots=True)
class Memory:
    """A pointer's storage: Python names per element type are `storage_<type>`, `array_<type>`.

    `size` counts elements of `dtype`'s element type; `plain` says that all threads share it, and
    `scope` is global, shared, warp or local.
    """

    name: str
    key: str
    dtype: DType
    size: Value
    plain: bool
    scope: str

    def storage(self, dtype: DType) -> str:
        """The Python name of the Storage that views this memory as `dtype`."""
        return f"s{self.key}_{dtype.element.name}"

    def array(self, dtype: DType) -> str:
        """The Python name of the flat NumPy array of `storage(dtype)`."""
        return f"a{self.key}_{dtype.element.name}"


@dataclass(slots=True)
class Place:
    """How a buffer's indices become a place in memory.

    `lows`/`extents` are the valid region per dimension when `checked`, `strides` and `offset` in
    elements. `complete` says that an index inside the region is surely inside the memory. A match
    buffer has a `base` place and `shifts` to add to (and, for leading ones, put before) indices.
    """

    name: str
    memory: Memory
    dtype: DType
    lows: tuple[Value, ...]
    extents: tuple[Value, ...]
    strides: tuple[Value, ...]
    complete: bool
    checked: bool = True
    offset: Value | None = None
    base: Place | None = None
    shifts: tuple[Value, ...] = ()

    @property
    def storage(self) -> str:
        """The Python name of the Storage that holds the elements."""
        return self.memory.storage(self.dtype)


_INTERVALS: dict[type[Expr], Callable[[int, int], int]] = {
    Add: operator.add,
    Sub: operator.sub,
    Mul: operator.mul,
}
_ORDER: dict[type[Expr], Callable[[int, int], bool]] = {
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
}


def interval(kind: type[Expr], a: Value, b: Value) -> tuple[int, int]:
    """The interval of a sum, difference or product."""
    fn = _INTERVALS[kind]
    corners = [fn(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(corners), max(corners)


def division_interval(kind: type[Expr], a: Value, b: Value) -> tuple[int, int]:
    """The interval of a quotient or remainder."""
    if b.low <= 0:  # only the usual case is worth knowing; -min / -1 leaves the type
        size = max(abs(a.low), abs(a.high)) if kind in (Div, FloorDiv) else 0
        size = max(size, abs(b.low), abs(b.high))
        return -size, size
    if kind is FloorMod:
        inside = a.low >= 0 and a.high < b.low
        return (a.low, a.high) if inside else (0, b.high - 1)
    if kind is Mod:
        return (0 if a.low >= 0 else -(b.high - 1), 0 if a.high <= 0 else min(a.high, b.high - 1))
    divide = operator.floordiv if kind is FloorDiv else trunc_div
    corners = [divide(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(corners), max(corners)


def decide(kind: type[Expr], a: Value, b: Value) -> bool | None:
    """The outcome of a comparison that holds for all values of the intervals, or None."""
    fn = _ORDER.get(kind)
    if fn is None:
        if a.high < b.low or b.high < a.low:
            return kind is NE
        return None
    outcomes = {fn(x, y) for x in (a.low, a.high) for y in (b.low, b.high)}
    return outcomes.pop() if len(outcomes) == 1 else None


def is_settled(condition: Value) -> bool:
    """Whether the condition has one outcome, and need not be computed for what its calls do."""
    return condition.low == condition.high and "extern(" not in condition.text


def type_interval(dtype: DType) -> tuple[int, int]:
    """All values of an integer type; (0, 0) for others, whose interval is not used."""
    return (int(dtype.min_value), int(dtype.max_value)) if dtype.is_integral else (0, 0)
