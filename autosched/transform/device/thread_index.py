"""Enumeration of the elements that threads of a block access: can two threads access the same one?

The terms of an index over thread variables and surrounding loops are evaluated for all values of
these variables. The other terms have the same value for all threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autosched.tir.expr import (
    BinaryExpr,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Ramp,
    Select,
    Var,
)
from autosched.tir.gpu import WARP
from autosched.tir.linear import linear
from autosched.tir.numpy_binary import BINARY
from autosched.tir.walk import distinct, free_vars

Array = np.ndarray[Any, Any]
MOST = 65536
"""The most value tuples that are enumerated; beyond it two threads count as meeting."""


LANE = Var("lane")
"""Stands in an index for the number of a thread within its warp."""


@dataclass(frozen=True, slots=True)
class Span:
    """The values low .. low + extent - 1 of a variable."""

    var: Var
    low: int
    extent: int


@dataclass(frozen=True, slots=True)
class Place:
    """The elements `index` of a buffer for all values of the variables `inner`."""

    index: Expr
    inner: tuple[Span, ...] = field(default=())


def may_meet(
    first: Place,
    second: Place,
    threads: Sequence[Span],
    loop: Span | None,
    around: Mapping[Var, Span] | None = None,
) -> bool:
    """False only if no two different threads can access the same element.

    One thread is at `first`, the other at `second`, with equal values of all variables except the
    inner ones; with `loop`, the two are in different iterations of it. If this does not decide, the
    test is repeated for each iteration of the loops `around` both.
    """
    a = _touched(first, threads, loop)
    b = a if second == first else _touched(second, threads, loop)
    if around and (a is None or b is None or a.rest != b.rest):
        same = _around((first, second), around, loop)
        a = _touched(first, threads, loop, same=same)
        b = a if second == first else _touched(second, threads, loop, same=same)
    return _meet(a, b, loop)


def _around(
    places: Sequence[Place], around: Mapping[Var, Span], loop: Span | None
) -> tuple[Span, ...]:
    """The loops of `around` that the indices of the places depend on, without `loop`."""
    used = {v for place in places for v in free_vars(place.index)}
    own = {span.var for place in places for span in place.inner}
    own |= set() if loop is None else {loop.var}
    return tuple(span for v, span in around.items() if v in used and v not in own)


def warps_may_meet(
    first: tuple[Place, Expr | None],
    second: tuple[Place, Expr | None],
    threads: Sequence[Span],
    loop: Span | None = None,
) -> bool:
    """As `may_meet` for threads of different warps, at accesses (place, guard).

    The variables of `threads` are named like their axes. A guard that cannot be evaluated counts as
    true.
    """
    order = sorted(threads, key=lambda span: span.var.name, reverse=True)  # x is the innermost
    return _meet(
        _of_warps(_touched(first[0], order, loop, first[1])),
        _of_warps(_touched(second[0], order, loop, second[1])),
        loop,
    )


def _of_warps(found: _Touched | None) -> _Touched | None:
    return None if found is None else replace(found, thread=found.thread // WARP)


def _meet(a: _Touched | None, b: _Touched | None, loop: Span | None) -> bool:
    if a is None or b is None or a.rest != b.rest:
        return True
    parts = (a,) if b is a else (a, b)
    elements = np.concatenate([part.values for part in parts])
    if not elements.size:
        return False
    cases = np.concatenate([part.case for part in parts])
    elements = (elements - elements.min()) * (cases.max() + 1) + cases
    if elements.max() >= 4 * MOST:
        elements = np.unique(elements, return_inverse=True)[1].reshape(-1)
    several = _differ(elements, np.concatenate([part.thread for part in parts]))
    if b is not a:
        several &= _differ(elements, np.repeat([0, 1], [a.values.size, b.values.size]))
    if loop is not None:
        several &= _differ(elements, np.concatenate([part.iteration for part in parts]))
    return bool(several.any())


def _differ(elements: Array, facts: Array) -> Array:
    """For each element number: whether the `facts` beside its entries differ."""
    one = np.empty(elements.max() + 1, facts.dtype)
    one[elements] = facts
    several = np.zeros(one.size, bool)
    several[elements[one[elements] != facts]] = True
    return several


@dataclass(frozen=True, slots=True)
class _Touched:
    values: Array
    thread: Array
    iteration: Array
    case: Array
    rest: dict[Expr, int]


def _touched(
    place: Place,
    threads: Sequence[Span],
    loop: Span | None,
    guard: Expr | None = None,
    same: Sequence[Span] = (),
) -> _Touched | None:
    """All (element, thread, iteration, case), without the terms `rest`; None if undecided.

    Entries at which `guard` does not hold are left out. `case` numbers the values of `same`.
    """
    index, inner = place.index, list(place.inner)
    if isinstance(index, Ramp):
        if not isinstance(index.stride, IntImm):
            return None
        lane = Var("lane")
        inner.append(Span(lane, 0, index.lanes))
        constant, terms = linear(index.base)
        terms = {**terms, lane: index.stride.value}
    elif index.dtype.lanes > 1:
        return None
    else:
        constant, terms = linear(index)
    spans = [*threads, *([] if loop is None else [loop]), *same, *inner]
    if math.prod(span.extent for span in spans) > MOST:
        return None
    counted = {span.var for span in spans}
    env, shape = _grid(spans)
    if LANE in free_vars(index):
        counted.add(LANE)
        env[LANE] = _lanes(threads, env)
    total: Array = np.full(shape, constant, np.int64)
    rest: dict[Expr, int] = {}
    for term, factor in terms.items():
        variables = free_vars(term)
        if variables and variables.isdisjoint(counted):
            if not is_plain(term):
                return None
            rest[term] = factor
            continue
        value = evaluate(term, env) if variables <= counted else None
        if value is None:
            return None
        total = total + factor * value
    number, case = _numbers(threads, env), _numbers(same, env)
    when = np.zeros((1,), np.int64) if loop is None else env[loop.var]
    flat = [np.broadcast_to(part, shape).reshape(-1) for part in (total, number, when, case)]
    holds = None if guard is None else evaluate(guard, env)
    if holds is not None:
        taken = np.broadcast_to(holds, shape).reshape(-1).astype(bool)
        flat = [part[taken] for part in flat]
    values, thread, iteration, part = flat
    return _Touched(values, thread, iteration, part, rest)


def _numbers(spans: Sequence[Span], env: Mapping[Var, Array]) -> Array:
    """The linear index of the values of `spans`, the last one fastest."""
    number: Array = np.zeros((), np.int64)
    for span in spans:
        number = number * span.extent + env[span.var] - span.low
    return number


def _lanes(threads: Sequence[Span], env: Mapping[Var, Array]) -> Array:
    """The lane of each thread; its variables are named like their axes, and x is the innermost."""
    order = sorted(threads, key=lambda span: span.var.name, reverse=True)
    return _numbers(order, env) % WARP


def _grid(spans: Sequence[Span]) -> tuple[dict[Var, Array], tuple[int, ...]]:
    shape = tuple(span.extent for span in spans) or (1,)
    env = {}
    for axis, span in enumerate(spans):
        values = np.arange(span.low, span.low + span.extent, dtype=np.int64)
        env[span.var] = values.reshape([-1 if d == axis else 1 for d in range(len(shape))])
    return env, shape


def is_uniform(
    e: Expr,
    threads: Collection[Var],
    common: Collection[str] = (),
    alike: Callable[[Var], bool] = lambda pointer: False,
) -> bool:
    """True if `e` has one value for all threads of a block, whose variables are `threads`.

    An element of memory counts as one value if its scope is in `common` or `alike` holds for its
    pointer.
    """
    if isinstance(e, Call) and e.op == "tvm_thread_invariant":
        return True
    reads = any(
        (
            isinstance(part, BufferLoad)
            and part.buffer.scope not in common
            and not alike(part.buffer.data)
        )
        or (isinstance(part, Call) and part.op == "ptx_lane_id")
        for part in distinct(e)
    )
    return not reads and free_vars(e).isdisjoint(threads)


def is_plain(e: Expr) -> bool:
    """True if `e` consists of variables, constants and known operations, and reads no memory."""
    if isinstance(e, Call) and e.op not in _CALLS:
        return False
    known = isinstance(e, Var | IntImm | Cast | Call | Select) or type(e) in BINARY
    return known and all(map(is_plain, e.children()))


_CALLS: dict[str, Callable[..., Any]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "if_then_else": np.where,
    "likely": lambda x: x,
}


def evaluate(e: Expr, env: Mapping[Var, Array]) -> Array | None:
    """The integer `e` for all values of its variables; None if it cannot be evaluated.

    Index arithmetic does not overflow, so int64 holds it.
    """
    match e:
        case IntImm():
            return np.asarray(e.value, np.int64)
        case Var():
            return env.get(e)
        case Cast() if e.dtype.is_index and e.value.dtype.is_index:
            return evaluate(e.value, env)
    function: Callable[..., Any] | None = None
    if isinstance(e, BinaryExpr):
        function = BINARY.get(type(e))
    if isinstance(e, Select):
        function = np.where
    elif isinstance(e, Call):
        function = _CALLS.get(e.op)
    args = [evaluate(child, env) for child in e.children()]
    if function is None or any(arg is None for arg in args):
        return None
    divides = isinstance(e, FloorDiv | FloorMod | Div | Mod)
    if divides and not np.all(np.asarray(args[1]) != 0):
        return None
    return np.asarray(function(*args))
