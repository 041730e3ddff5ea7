"""NarrowDataType: compute indices in 32 bits if they provably fit.

before:
    def main(A: Buffer((512,), float32), B: Buffer((64,), float32)):
        for i in range(int64(64)):
            A[i * int64(8)] = B[i]
after:
    def main(A: Buffer((512,), float32), B: Buffer((64,), float32)):
        for i in range(64):
            A[i * 8] = B[i]

A loop variable is narrowed if every int64 expression that contains it provably fits. Constants and
casts in an index are narrowed if the index fits and its variables are narrowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.arith import Analyzer
from autosched.errors import ConfigError
from autosched.tir.dtype import DType, int64
from autosched.tir.expr import (
    BufferLoad,
    Call,
    Cast,
    CompareExpr,
    Expr,
    IntImm,
    IterVar,
    Let,
    Ramp,
    Range,
    Select,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.op import cast, const
from autosched.tir.stmt import (
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
)
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import direct_exprs, map_children, map_expr_children, stmts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_THREAD_KEYS = ("thread_extent", "virtual_thread")


@dataclass(frozen=True)
class NarrowDataType(FunctionPass):
    """Narrow index arithmetic to `target_bits`: 32, or 64 to change nothing.

    Parameters keep their types. Raises ConfigError for any other width.
    """

    target_bits: int = 32
    name: ClassVar[str] = "NarrowDataType"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if self.target_bits not in (32, 64):
            raise ConfigError(
                f"NarrowDataType: target_bits must be 32 or 64, found {self.target_bits}"
            )
        if self.target_bits == 64 or not _has_wide_index(func.body):
            return func
        narrow = DType(f"int{self.target_bits}")
        fits = _Fits(narrow)
        fits.stmt(func.body)
        narrowed = _Narrow(fits, narrow)
        body = narrowed.stmt(func.body)
        buffers = {old: cast(old.dtype, new) for old, new in narrowed.vars.items()}
        return func.with_body(substitute_stmt(body, buffers))  # sizes depend on loops, too


def _is_wide(e: Expr) -> bool:
    return e.dtype is int64 or e.dtype.element is int64


def _has_wide(e: Expr, seen: set[Expr]) -> bool:
    """True if `e` or one of its operands is wide; expressions in `seen` are skipped."""
    if e in seen:
        return False
    seen.add(e)
    return _is_wide(e) or any(_has_wide(part, seen) for part in e.children())


def _has_wide_index(body: Stmt) -> bool:
    """True if `body` computes anything in int64; visits every expression once."""
    seen: set[Expr] = set()
    return any(
        (isinstance(s, For) and _is_wide(s.loop_var))
        or any(_has_wide(e, seen) for e in direct_exprs(s))
        for s in stmts(body)
    )


class _Fits:
    """Finds the expressions that fit, and the loop variables used only in such expressions."""

    def __init__(self, narrow: DType) -> None:
        self.low, self.high = int(narrow.min_value), int(narrow.max_value)
        self.analyzer = Analyzer()
        self.bound: set[Var] = set()
        self.wide: set[Var] = set()  # variables in an expression that does not fit
        self.known: dict[Expr, bool] = {}

    def here(self, e: Expr) -> bool:
        """True if the value of the int64 expression `e` fits here, and did wherever it was met."""
        low, high = self.analyzer.const_int_bound(e)
        known = self.known.get(e, True) and self.low <= low and high <= self.high
        self.known[e] = known
        return known

    def narrows(self, var: Var) -> bool:
        return var in self.bound and var not in self.wide

    def stmt(self, s: Stmt) -> None:
        for var, extent in _binds(s):
            self.analyzer.bind(var, Range(const(0, extent.dtype), extent), override=True)
            self.wide.add(var)
        if isinstance(s, For):
            self.analyzer.bind(s.loop_var, Range(s.min, s.extent), override=True)
            if _is_wide(s.loop_var):
                self.bound.add(s.loop_var)
                if not self.here(s.loop_var) or not self.here(s.extent):
                    self.wide.add(s.loop_var)
        if isinstance(s, LetStmt) and _is_wide(s.var):
            self.analyzer.bind(s.var, s.value, override=True)
            self.wide.add(s.var)
        for e in direct_exprs(s):
            self.visit(e)
        map_children(s, self._into)

    def _into(self, s: Stmt) -> Stmt:
        self.stmt(s)
        return s

    def visit(self, e: Expr, fits: bool = True) -> None:
        """Record the variables of `e`; `fits` tells whether the expression around `e` fits."""
        if _is_wide(e) and not isinstance(e, BufferLoad):
            fits = fits and self.here(e)
            if isinstance(e, Var):
                if not fits:
                    self.wide.add(e)
                return
        elif not isinstance(e, CompareExpr):
            fits = True
        if isinstance(e, Let):
            self.wide.add(e.var)
        inner = True if isinstance(e, BufferLoad | Cast) else fits
        for child in e.children():
            self.visit(child, inner)


def _binds(s: Stmt) -> list[tuple[Var, Expr]]:
    if isinstance(s, AttrStmt) and s.key in _THREAD_KEYS and isinstance(s.node, IterVar):
        return [(s.node.var, s.value)]
    return []


class _Narrow:
    """Rewrites indices, loop bounds and conditions in the narrow type."""

    def __init__(self, fits: _Fits, narrow: DType) -> None:
        self.fits = fits
        self.narrow = narrow
        self.vars: dict[Var, Var] = {}
        self.values: dict[Expr, Expr] = {}
        self.indices: dict[Expr, Expr] = {}

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, For):
            return self._for(s)
        if isinstance(s, BufferStore):
            value = self.value(s.value)
            indices = tuple(map(self.index, s.indices))
            predicate = None if s.predicate is None else self.index(s.predicate)
            same = all(a is b for a, b in zip(indices, s.indices, strict=True))
            if same and value is s.value and predicate is s.predicate:
                return s
            return BufferStore(s.buffer, value, indices, predicate)
        if isinstance(s, IfThenElse):
            return map_children(s, self.stmt, self.index)
        return map_children(s, self.stmt, self.value)

    def _for(self, s: For) -> Stmt:
        if not self.fits.narrows(s.loop_var):
            return map_children(s, self.stmt, self.value)
        var = self.vars.setdefault(s.loop_var, Var(s.loop_var.name, self.narrow))
        low, extent = (cast(self.narrow, self.index(e)) for e in (s.min, s.extent))
        body = self.stmt(s.body)
        return s.with_(loop_var=var, min=low, extent=extent, body=body)

    def value(self, e: Expr) -> Expr:
        """`e` with narrowed variables, cast back so that `e` keeps its type."""
        if isinstance(e, Var):
            var = self.vars.get(e)
            return e if var is None else cast(e.dtype, var)
        if not e.children():
            return e
        done = self.values.get(e)
        if done is None:
            if isinstance(e, BufferLoad):
                done = self._load(e)
            elif isinstance(e, Select) or (isinstance(e, Call) and e.op == "if_then_else"):
                condition, *arms = e.children()
                done = e.with_children((self.index(condition), *map(self.value, arms)))
            else:
                done = map_expr_children(e, self.value)
            self.values[e] = done
        return done

    def _load(self, load: BufferLoad) -> Expr:
        indices = tuple(map(self.index, load.indices))
        predicate = None if load.predicate is None else self.index(load.predicate)
        same = all(a is b for a, b in zip(indices, load.indices, strict=True))
        if same and predicate is load.predicate:
            return load
        return BufferLoad(load.buffer, indices, predicate)

    def index(self, e: Expr) -> Expr:
        """`e` in the narrow type, if `e` and the expressions around it fit; else as by `value`."""
        done = self.indices.get(e)
        if done is None:
            done = self.indices[e] = self._index(e)
        return done

    def _index(self, e: Expr) -> Expr:
        if isinstance(e, BufferLoad):
            return self._load(e)
        if not _is_wide(e):
            if isinstance(e, Cast):
                return cast(e.dtype, self.index(e.value))
            return map_expr_children(e, self.index)
        if not self.fits.here(e):
            return self.value(e)
        if isinstance(e, Var):
            return self.vars.get(e, e)
        if isinstance(e, IntImm):
            return const(e.value, self.narrow)
        if isinstance(e, Cast):
            return cast(self.narrow.with_lanes(e.dtype.lanes), self.index(e.value))
        if isinstance(e, Call):
            return self.value(e)
        if isinstance(e, Ramp):
            base, stride = self.index(e.base), self.index(e.stride)
            if base.dtype is not stride.dtype:  # one of them does not fit
                base, stride = cast(e.base.dtype, base), cast(e.base.dtype, stride)
            return e if base is e.base and stride is e.stride else Ramp(base, stride, e.lanes)
        return map_expr_children(e, self.index)
