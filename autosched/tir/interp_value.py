"""Compiled values of the interpreter: Python text, variance between threads, and interval."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from autosched.tir.dtype import DType
from autosched.tir.expr import GE, GT, LE, LT, NE, Add, Div, Expr, FloorDiv, FloorMod, Mod, Mul, Sub
from autosched.tir.interp_math import trunc_div

# The binding strength of Python text, from weakest to strongest.
COMPARE, OR, AND, SUM, TERM, ATOM = range(1, 7)


class Value(NamedTuple):
    """A compiled value.

    `text` is its Python text, `strength` how tightly that binds. `varying` says that the value may
    differ between threads. An integer lies in [low, high].
    """

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
    """The memory that a pointer points to.

    For each element type there are Python names of a Storage and, if plain, of a flat array; `key`
    is part of these names. `size` is in elements of `dtype`'s element type. `plain` says that all
    threads share the memory. `scope` is global, shared, warp or local.
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
    """The mapping of a buffer's indices to memory.

    `lows` and `extents` are the valid region per dimension if `checked`; `strides` and `offset` are
    in elements. `complete` says that every index inside the region is inside the memory. A match
    buffer has a `base` place: `shifts` are added to its last indices, and leading shifts are put
    before them, to get indices of the base.
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
    # A coarse interval suffices for divisors that may be negative; min / -1 leaves the type.
    if b.low <= 0:
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
    """The outcome of a comparison if it is the same for all values of the intervals, else None."""
    fn = _ORDER.get(kind)
    if fn is None:
        if a.high < b.low or b.high < a.low:
            return kind is NE
        return None
    outcomes = {fn(x, y) for x in (a.low, a.high) for y in (b.low, b.high)}
    return outcomes.pop() if len(outcomes) == 1 else None


def is_settled(condition: Value) -> bool:
    """Whether the condition has a known outcome and no external call that must be executed."""
    return condition.low == condition.high and "extern(" not in condition.text


def type_interval(dtype: DType) -> tuple[int, int]:
    """The interval of an integer type; (0, 0) for other types, whose interval is not used."""
    return (int(dtype.min_value), int(dtype.max_value)) if dtype.is_integral else (0, 0)
