"""Hoists sub-expressions that depend on thread indices only to the start of a kernel.

An index is split into a part that depends on threads only, one array for all loops, and a part that
all threads share, a Python int. An access then costs one addition and one gather.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from autosched.tir.data import is_data
from autosched.tir.expr import (
    Add,
    And,
    BinaryExpr,
    Broadcast,
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
    Ramp,
    Sub,
    Var,
)
from autosched.tir.interp_value import ATOM, TERM, Place, Value
from autosched.tir.intrin import BITWISE
from autosched.tir.linear import combine, linear
from autosched.tir.walk import free_vars

if TYPE_CHECKING:
    from autosched.tir.interp_expr import ExprCompiler

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def of_threads_alone(c: ExprCompiler, e: Expr) -> bool:
    """Whether the integer `e` consists of thread variables and constants, and cannot fail."""
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
    """Assign `value` of `e`, which depends on threads only, to a variable at the kernel's start."""
    name = c.fresh("h")
    c.before_statements(f"{name} = {value.text}")
    c.hoisted[e] = value._replace(text=name, strength=ATOM)
    return c.hoisted[e]


HOISTABLE = (Add, Sub, Mul, *_DIVISIONS, And, Or, Not, Call, Cast)


class Split(NamedTuple):
    """An index as the sum `of_threads + shared`, given as Python texts.

    `inside` says that the index is provably within the memory. The index of a vector is the sum of
    that and `lanes`, which is the same for all threads and loops.
    """

    of_threads: str
    shared: str
    inside: bool
    lanes: str = ""

    def fields(self, mask: str) -> str:
        """The arguments of `Storage.load_sum`."""
        fields = f"{self.of_threads}, {self.shared}, {mask}, {self.inside}"
        return f"{fields}, {self.lanes}" if self.lanes else fields


def split(c: ExprCompiler, place: Place, indices: tuple[Expr, ...]) -> Split | None:
    """The parts of a flat index in a kernel; None when it cannot be split.

    Index arithmetic that may wrap is not split.
    """
    if len(indices) != 1 or place.base is not None or place.dtype.lanes > 1:
        return None
    (index,) = indices
    plain = place.offset is None and place.lows[0].text == "0" and place.strides[0].text == "1"
    if not plain or not index.dtype.is_int:
        return None
    whole, wide = c.expr(index), index.dtype.lanes > 1
    if whole.low == index.dtype.min_value or whole.high == index.dtype.max_value:
        return None
    if not (whole.varying or wide):
        return None
    lanes: dict[Expr, int] = {}
    constant, terms = _vector_sum(index, lanes) if wide else linear(index)
    own = {t: k for t, k in terms.items() if of_threads_alone(c, t)}
    rest = [(c.expr(t), k) for t, k in terms.items() if t not in own]
    if any(v.varying for v, _ in rest) or any(free_vars(t) or is_data(t) for t in lanes):
        return None
    if not (own or wide):
        return None
    shared = [f"{v.at(TERM)} * {k}" if k != 1 else v.at(TERM) for v, k in rest]
    if constant or not shared:
        shared.append(str(constant))
    size = place.memory.size.low * place.memory.dtype.bytes
    inside = whole.low >= 0 and (whole.high + 1) * place.dtype.bytes <= size
    if place.checked and not inside:
        return None
    names = _part(c, own, "L.per_thread"), _part(c, lanes, "per_lane") if wide else ""
    return Split(names[0], " + ".join(shared), inside, names[1])


def _vector_sum(e: Expr, lanes: dict[Expr, int], times: int = 1) -> tuple[int, dict[Expr, int]]:
    """The scalar part of a vector sum, as `linear` returns it, times `times`.

    The vector terms of the sum are added to `lanes`.
    """
    match e:
        case Add(a, b) | Sub(a, b):
            sign = -1 if isinstance(e, Sub) else 1
            first = _vector_sum(a, lanes, times)
            return combine(first, _vector_sum(b, lanes, times * sign), 1)
        case Mul(a, Broadcast(IntImm(n))) | Mul(Broadcast(IntImm(n)), a):
            return _vector_sum(a, lanes, times * n)
        case Broadcast(value):
            constant, terms = linear(value)
            return constant * times, {t: k * times for t, k in terms.items()}
        case Ramp(base, IntImm()) if not isinstance(base, IntImm) or base.value:
            zero = IntImm(0, base.dtype)
            _add(lanes, Ramp(zero, e.stride, e.lanes), times)
            constant, terms = linear(base)
            return constant * times, {t: k * times for t, k in terms.items()}
    _add(lanes, e, times)
    return 0, {}


def _add(terms: dict[Expr, int], term: Expr, times: int) -> None:
    terms[term] = terms.get(term, 0) + times


def _part(c: ExprCompiler, terms: dict[Expr, int], make: str) -> str:
    key = make, frozenset(terms.items())
    name = c.hoisted_parts.get(key)
    if name is None:
        name = c.hoisted_parts[key] = c.fresh("h")
        parts = [f"wide({c.expr(t).text}) * {k}" for t, k in terms.items()] or ["0"]
        c.before_statements(f"{name} = {make}({' + '.join(parts)})")
    return name
