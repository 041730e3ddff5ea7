"""Data and indices: which integer arithmetic wraps, and which is taken not to overflow.

Indices are made of variables (loops, sizes, parameters), constants and what is computed from
them; analysis takes their arithmetic in int32 and int64 for exact, as addresses within memory
are, and every value for within half the range of its type, so that rewriting may add a constant
as large. Data is what is loaded from memory or returned by calls, and what is computed from it; its
arithmetic wraps in every type, as NumPy's does, and so does all arithmetic in other integer
types than int32 and int64 scalars.
"""

from __future__ import annotations

from autosched.tir.expr import BufferLoad, Call, Cast, Expr, ProducerLoad, Reduce, Shuffle, Var
from autosched.tir.intrin import BITWISE

_SOURCES = (BufferLoad, ProducerLoad, Reduce, Shuffle)
_OF_INDICES = BITWISE | {"if_then_else", "likely", "vscale", "ptx_lane_id"}


def is_data(e: Expr) -> bool:
    """True when the value of `e` comes from memory or calls, so that its arithmetic may wrap."""
    known: bool | None = getattr(e, "_data", None)
    if known is not None:
        return known
    e._data = result = is_source(e) or any(map(is_data, e.children()))
    return result


def is_source(e: Expr) -> bool:
    """True for what data comes from: loads, reductions, calls, floats made integers."""
    match e:
        case Call():
            return e.op not in _OF_INDICES
        case Cast():
            return not e.value.dtype.is_integral
    return isinstance(e, _SOURCES)


def mark_data(var: Var, value: Expr) -> None:
    """Let `var`, bound to `value`, be data when the value is; before anything asks about it."""
    if value.dtype.is_integral and is_data(value):
        var._data = True
