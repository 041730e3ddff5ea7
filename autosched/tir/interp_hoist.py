"""What of a kernel's expressions depends on threads alone is computed once, before its statements.

An index is split into such a part, one array for all loops, and a part that threads share, one
Python int: an access then costs one addition and one gather.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from autosched.tir.expr import (
    Add,
    And,
    BinaryExpr,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    Not,
    Or,
    Sub,
    Var,
)
from autosched.tir.interp_value import ATOM, TERM, Place, Value
from autosched.tir.intrin import BITWISE
from autosched.tir.linear import linear

if TYPE_CHECKING:
    from autosched.tir.interp_expr import ExprCompiler

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def of_threads_alone(c: ExprCompiler, e: Expr) -> bool:
    """Whether the integer `e` is made of thread variables and constants, and cannot fail."""
    known = c.threads_alone.get(e)
    if known is None:
        known = c.threads_alone[e] = _of_threads_alone(c, e)
    return known


def _of_threads_alone(c: ExprCompiler, e: Expr) -> bool:
    if not e.dtype.is_integral or e.dtype.lanes > 1:
        return False
    match e:
        case IntImm():
            return True
        case Var():
            return e in c.thread_vars
        case _ if isinstance(e, _DIVISIONS):
            return isinstance(e.b, IntImm) and e.b.value > 0 and of_threads_alone(c, e.a)
        case BinaryExpr() | Not() | Cast():
            return all(of_threads_alone(c, x) for x in e.children())
        case Call(op, args):
            return op in BITWISE and all(of_threads_alone(c, x) for x in args)
    return False


def hoisted(c: ExprCompiler, e: Expr, value: Value) -> Value:
    """`value` of `e`, which depends on threads alone, in a variable of the kernel."""
    name = c.fresh("h")
    c.before_statements(f"{name} = {value.text}")
    c.hoisted[e] = value._replace(text=name, strength=ATOM)
    return c.hoisted[e]


HOISTABLE = (Add, Sub, Mul, *_DIVISIONS, And, Or, Not, Call, Cast)


class Split(NamedTuple):
    """An index as `of_threads + shared`; `inside` when it is surely within the memory."""

    of_threads: str
    shared: str
    inside: bool


def split(c: ExprCompiler, place: Place, indices: tuple[Expr, ...]) -> Split | None:
    """The parts of a flat index in a kernel, or None when it does not come apart.

    Index arithmetic that may wrap is left as it is.
    """
    if len(indices) != 1 or place.base is not None or place.dtype.lanes > 1:
        return None
    (index,) = indices
    plain = place.offset is None and place.lows[0].text == "0" and place.strides[0].text == "1"
    if not plain or index.dtype.lanes > 1 or not index.dtype.is_int:
        return None
    whole = c.expr(index)
    limits = (index.dtype.min_value, index.dtype.max_value)
    if not whole.varying or whole.low == limits[0] or whole.high == limits[1]:
        return None
    constant, terms = linear(index)
    own = {t: k for t, k in terms.items() if of_threads_alone(c, t)}
    rest = [(c.expr(t), k) for t, k in terms.items() if t not in own]
    if not own or any(v.varying for v, _ in rest):
        return None
    shared = [f"{v.at(TERM)} * {k}" if k != 1 else v.at(TERM) for v, k in rest]
    if constant or not shared:
        shared.append(str(constant))
    size = place.memory.size.low * place.memory.dtype.bytes
    inside = whole.low >= 0 and (whole.high + 1) * place.dtype.bytes <= size
    if place.checked and not inside:
        return None
    return Split(_thread_part(c, own), " + ".join(shared), inside)


def _thread_part(c: ExprCompiler, terms: dict[Expr, int]) -> str:
    key = frozenset(terms.items())
    name = c.thread_parts.get(key)
    if name is None:
        name = c.thread_parts[key] = c.fresh("h")
        parts = [f"wide({c.expr(t).text}) * {k}" for t, k in terms.items()]
        c.before_statements(f"{name} = L.per_thread({' + '.join(parts)})")
    return name
