"""Computation of storage-only types in a wider type, for BF16- and FP8ComputeLegalize."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    Let,
    Select,
    Shuffle,
    Var,
    pointer,
)
from autosched.tir.float_bits import narrow, widen
from autosched.tir.function import PrimFunc
from autosched.tir.intrin import POINTER_OFFSETS
from autosched.tir.jumps import deciding_variables
from autosched.tir.kinds import bits_of, kinds_in
from autosched.tir.op import cast
from autosched.tir.stmt import Allocate, BufferStore, LetStmt, Stmt
from autosched.tir.walk import map_children, map_expr_children, stmts, unique_exprs
from autosched.transform.low_precision.retyped import Retyping

IsSmall = Callable[[DType], bool]


@dataclass(frozen=True)
class Conversions:
    """Conversions between a small type and the type `wide` in which it is computed.

    `explicit` emits operations on bits, else casts; the other options are those of
    `tir/float_bits.py`.
    """

    wide: DType
    explicit: bool = True
    nan_safe: bool = True
    saturate: bool = False

    def type(self, dtype: DType) -> DType:
        """The type in which `dtype` is computed, with as many lanes."""
        return self.wide.with_lanes(dtype.lanes)

    def up(self, value: Expr) -> Expr:
        """Convert a small value to the wide type."""
        if not self.explicit:
            return cast(self.type(value.dtype), value)
        return widen(value, self.wide)

    def down(self, value: Expr, dtype: DType) -> Expr:
        """Round a value of any type once to the small type `dtype`."""
        dtype = dtype.with_lanes(value.dtype.lanes)
        if not self.explicit and not self.saturate:
            return cast(dtype, value)
        return narrow(value, dtype, self.saturate, self.nan_safe)


def mentions(func: PrimFunc, is_small: IsSmall) -> bool:
    """Whether a value, buffer or pointer of a small type occurs in `func`."""
    small = [dtype for dtype in DType.made() if is_small(dtype)]
    if not small:  # the cheap test, which suffices in most processes
        return False
    if any(is_small(buffer.dtype) for buffer in func.buffers):
        return True
    if any(is_small(param.element or param.dtype) for param in func.params):
        return True
    return bool(kinds_in(func.body) & bits_of(*small))


def promotable(func: PrimFunc, is_small: IsSmall, scopes: Collection[str]) -> set[Var]:
    """The pointers to internal small buffers whose type may change.

    These are allocations of constant size whose address or bits are not passed on. Unless `scopes`
    is empty, they are restricted to storage of `scopes`, and to values that are computed and decide
    where the function jumps (`tir/jumps.py`): kernels of one task keep different ones in other
    storage, and would jump differently.
    """
    found = {
        s.buffer_var
        for s in stmts(func.body)
        if isinstance(s, Allocate) and is_small(s.dtype) and s.constant_bytes is not None
    }
    if scopes and found:
        deciding = _computed(func.body, found & deciding_variables(func.body, through_sums=True))
        found = {var for var in found if var.scope in scopes or var in deciding}
    for e in unique_exprs(func.body) if found else ():
        if isinstance(e, Var):
            found.discard(e)
        elif (
            isinstance(e, Call)
            and e.op in ("address_of", "reinterpret")
            and isinstance(e.args[0], BufferLoad)
        ):
            found.discard(e.args[0].buffer.data)
    return found


def _computed(body: Stmt, pointers: Collection[Var]) -> set[Var]:
    """Those of `pointers` through which values are stored that are computed, or copied from there.

    Copies of other small memory are the same in any type that holds them.
    """
    values: dict[Var, list[Expr]] = {}
    for s in stmts(body):
        if isinstance(s, BufferStore) and s.buffer.data in pointers:
            values.setdefault(s.buffer.data, []).append(s.value)
    found: set[Var] = set()
    while True:
        new = {v for v, stored in values.items() if not all(_copies(e, found) for e in stored)}
        if new == found:
            return found
        found = new


def _copies(e: Expr, computed: Collection[Var]) -> bool:
    match e:
        case FloatImm():
            return True
        case BufferLoad():
            return e.buffer.data not in computed
        case Select() | Call(op="if_then_else"):
            return all(_copies(value, computed) for value in e.children()[1:])
        case Broadcast():
            return _copies(e.value, computed)
    return False


class Legalizer(Retyping):
    """Rewrites one function; `promoted` are the pointers whose elements become wide."""

    def __init__(self, is_small: IsSmall, convert: Conversions, promoted: set[Var]) -> None:
        super().__init__()
        self._is_small = is_small
        self._convert = convert
        self._pointers = {v: pointer(v.name, convert.wide, v.scope) for v in promoted}
        self._vars: dict[Var, Var] = {}

    # -- expressions

    def _retyped(self, e: Expr) -> Expr:
        """Rewrite `e`; a small value becomes the wide value that is computed instead."""
        small = self._is_small(e.dtype)
        if isinstance(e, Var):
            return self._vars.get(e, self._convert.up(e) if small else e)
        if isinstance(e, FloatImm):
            return FloatImm(e.value, self._convert.wide) if small else e
        if isinstance(e, BufferLoad):
            buffer = self._buffer(e.buffer)
            new = map_expr_children(e, self._value)
            assert isinstance(new, BufferLoad)
            if buffer is not e.buffer:
                return BufferLoad(buffer, new.indices, new.predicate)
            return self._convert.up(new) if small else new
        if isinstance(e, Let) and self._is_small(e.var.dtype):
            value = self._value(e.value)
            return Let(self._renamed(e.var), value, self._value(e.body))
        if isinstance(e, Cast):
            # A cast in the program must still round.
            return self._convert.up(self._rounded(e)) if small else self._cast(e)
        if isinstance(e, Call):
            return self._call(e)
        return map_expr_children(e, self._value)

    def _cast(self, e: Cast) -> Expr:
        value = self._value(e.value)
        return e if value is e.value else cast(e.dtype, value)

    def _rounded(self, e: Cast) -> Expr:
        """Cast to a small type with one rounding, from the type of the operand."""
        return self._convert.down(self._value(e.value), e.dtype)

    def _call(self, e: Call) -> Expr:
        if e.op in ("reinterpret", "address_of", "tvm_access_ptr"):  # the type counts, or the bits
            args = tuple(
                self._in_place(a) if self._is_small(a.dtype) else self._value(a) for a in e.args
            )
        else:
            args = tuple(map(self._value, e.args))
        if self._is_small(e.dtype) and e.op not in POINTER_OFFSETS:  # these only move elements
            if e.op == "reinterpret":
                return self._convert.up(Call(e.dtype, e.op, args))
            return Call(self._convert.type(e.dtype), e.op, args)
        return e if args == e.args else Call(e.dtype, e.op, args)

    def _in_place(self, e: Expr) -> Expr:
        """A small value that must stay small, because its bits or address are used."""
        as_is = self._unchanged(e)
        return self._convert.down(self._value(e), e.dtype) if as_is is None else as_is

    def _unchanged(self, e: Expr) -> Expr | None:
        """`e` without conversions, if it is a copy or already rounded; else None."""
        match e:
            case FloatImm():
                return e
            case Var():
                return None if e in self._vars else e
            case BufferLoad():
                if self._buffer(e.buffer) is not e.buffer:
                    return None
                return map_expr_children(e, self._value)
            case Cast():
                return self._rounded(e)
            case Call(op="reinterpret"):
                return Call(e.dtype, e.op, tuple(map(self._value, e.args)))
            case Select() | Call(op="if_then_else"):
                condition, *arms = e.children()
                return self._copied(e, (self._value(condition),), arms)
            case Broadcast():
                return self._copied(e, (), [e.value])
            case Shuffle():
                vectors = [self._unchanged(v) for v in e.vectors]
                if any(v is None for v in vectors):
                    return None
                return Shuffle(tuple(v for v in vectors if v is not None), e.indices)
        return None

    def _copied(self, e: Expr, first: tuple[Expr, ...], arms: list[Expr]) -> Expr | None:
        parts = [self._unchanged(a) for a in arms]
        if any(p is None for p in parts):
            return None
        children = (*first, *(p for p in parts if p is not None))
        return Call(e.dtype, e.op, children) if isinstance(e, Call) else e.with_children(children)

    def _renamed(self, var: Var) -> Var:
        return self._vars.setdefault(var, Var(var.name, self._convert.type(var.dtype)))

    # -- memory

    def _pointer(self, var: Var) -> Var:
        return self._pointers.get(var, var)

    def _buffer(self, buffer: Buffer) -> Buffer:
        data = self._pointers.get(buffer.data)
        if data is None or not self._is_small(buffer.dtype):
            return buffer
        return self._over(buffer, data, self._convert.type(buffer.dtype))

    def _store(self, s: Stmt) -> Stmt:
        assert isinstance(s, BufferStore)
        buffer = self._buffer(s.buffer)
        indices = tuple(map(self._value, s.indices))
        predicate = None if s.predicate is None else self._value(s.predicate)
        if self._is_small(s.value.dtype) and buffer is s.buffer:
            value = self._in_place(s.value)
        else:
            value = self._value(s.value)
        same = value is s.value and indices == s.indices and predicate is s.predicate
        if same and buffer is s.buffer:
            return s
        return BufferStore(buffer, value, indices, predicate)

    def _allocate(self, s: Stmt) -> Stmt:
        assert isinstance(s, Allocate)
        data = self._pointers.get(s.buffer_var)
        if data is None:
            return map_children(s, self.stmt, self._value)
        wide = self._convert.type(s.dtype)
        return s.with_(buffer_var=data, dtype=wide, body=self.stmt(s.body))

    def _let(self, s: Stmt) -> Stmt:
        assert isinstance(s, LetStmt)
        if not self._is_small(s.var.dtype):
            return map_children(s, self.stmt, self._value)
        value = self._value(s.value)
        return LetStmt(self._renamed(s.var), value, self.stmt(s.body))
