"""Tells data from indices: which integer arithmetic wraps, and which is assumed not to overflow.

Indices are variables (loops, sizes, parameters), constants, and expressions of these. Analysis
assumes that their arithmetic in int32 and int64 is exact, as memory addresses are, and that every
value lies within half the range of its type, so that rewriting may add a constant as large. Data
are values loaded from memory or returned by calls, and expressions of these. Arithmetic on data
wraps in every type, as NumPy's does; so does all arithmetic in integer types other than int32 and
int64 scalars.
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
    """True for a node that makes data by itself: a load, reduction, call, or cast of a float."""
    match e:
        case Call():
            return e.op not in _OF_INDICES
        case Cast():
            return not e.value.dtype.is_integral
    return isinstance(e, _SOURCES)


def mark_data(var: Var, value: Expr) -> None:
    """Mark `var`, which is bound to `value`, as data if the value is.

    Must be called before `is_data` is asked about an expression with `var`, as it is cached.
    """
    if value.dtype.is_integral and is_data(value):
        var._data = True
