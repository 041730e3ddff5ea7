"""CombineContextCall: compute equal contexts once.

before:
    def main(A: Buffer((4,), float32), n: int32):
        attrs(target="cpu")
        for i in range(n):
            call_extern("example", tvm_thread_context(call_extern("example", n, 0)), A, dtype=int32)
            for j in range(10):
                call_extern("example", tvm_thread_context(call_extern("example", n, 1)), A,
                        dtype=int32)
                call_extern("example", tvm_thread_context(call_extern("example", n, 0)), A,
                        dtype=int32)
after:
    def main(A: Buffer((4,), float32), n: int32):
        attrs(target="cpu")
        ctx_cache_: handle = call_extern("example", n, 0)
        ctx_cache__1: handle = call_extern("example", n, 1)
        for i in range(n):
            call_extern("example", ctx_cache_, A, dtype=int32)
            for j in range(10):
                call_extern("example", ctx_cache__1, A, dtype=int32)
                call_extern("example", ctx_cache_, A, dtype=int32)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from autosched.errors import CompileError
from autosched.tir.dtype import handle
from autosched.tir.expr import BufferLoad, Call, Expr, IterVar, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import Allocate, AllocateConst, AttrStmt, For, ForKind, LetStmt, Stmt, let
from autosched.tir.walk import (
    distinct,
    free_vars,
    map_children,
    rewrite_expr,
    unique_exprs,
)
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.function_target import is_host_function
from autosched.transform.framework.passes import FunctionPass

_REGIONS = ("thread_extent", "coproc_uop_scope")


@dataclass(frozen=True)
class CombineContextCall(FunctionPass):
    """Compute each argument of `tvm_thread_context` once per function of the host.

    Equal arguments share a variable at the start of the function. Parallel loops and thread scopes
    have contexts of their own, at their start. An argument that depends on a variable bound further
    inside is computed there. An argument that reads memory is computed where it stands. Functions
    that do not run on the host stay as they are. Raises CompileError for an argument that is no
    handle.
    """

    name: ClassVar[str] = "CombineContextCall"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not is_host_function(func) or not any(map(_is_context, unique_exprs(func.body))):
            return func
        return func.with_body(_Combine().func(func))


@dataclass
class _Scope:
    """A place where contexts can be computed.

    It is below the binding of `var`, or at the start of a region if `var` is None. `contexts` maps
    values to the variables that hold them.
    """

    var: Var | None = None
    contexts: dict[Expr, Var] = field(default_factory=dict)

    @property
    def starts_region(self) -> bool:
        """Whether this is the start of a region, which shares no contexts with the code outside."""
        return self.var is None

    def has(self, value: Expr) -> bool:
        """Whether `value` depends on a variable that is bound here."""
        bound = {self.var, *self.contexts.values()}
        return not bound.isdisjoint(free_vars(value))

    def around(self, s: Stmt) -> Stmt:
        """`s` inside the lets of the contexts, the first one outermost."""
        return let(((var, value) for value, var in self.contexts.items()), s)


class _Combine:
    def __init__(self) -> None:
        self._scopes: list[_Scope] = []

    def func(self, func: PrimFunc) -> Stmt:
        return self._inside(_Scope(), lambda: self._stmt(func.body))

    def _inside(self, scope: _Scope, make: Callable[[], Stmt]) -> Stmt:
        self._scopes.append(scope)
        made = make()
        self._scopes.pop()
        return scope.around(made)

    def _stmt(self, s: Stmt) -> Stmt:
        parallel = isinstance(s, For) and s.kind is ForKind.PARALLEL
        if parallel or (isinstance(s, AttrStmt) and s.key in _REGIONS):
            return self._inside(_Scope(), lambda: self._bound(s))
        return self._bound(s)

    def _bound(self, s: Stmt) -> Stmt:
        var = _binds(s)

        def body(inner: Stmt) -> Stmt:
            if var is None:
                return self._stmt(inner)
            return self._inside(_Scope(var), lambda: self._stmt(inner))

        return map_children(s, body, lambda e: rewrite_expr(e, self._context))

    def _context(self, e: Expr) -> Expr | None:
        if not _is_context(e):
            return None
        (value,) = e.children()
        if not value.dtype.is_handle:
            raise CompileError(f"CombineContextCall: a context is a handle, found {e!r}")
        if any(isinstance(part, BufferLoad) for part in distinct(value)):
            return value
        scope = next(s for s in reversed(self._scopes) if s.starts_region or s.has(value))
        var = scope.contexts.get(value)
        if var is None:
            var = scope.contexts[value] = Var("ctx_cache_", handle)
        return var


def _is_context(e: Expr) -> bool:
    return isinstance(e, Call) and e.op == "tvm_thread_context"


def _binds(s: Stmt) -> Var | None:
    match s:
        case For():
            return s.loop_var
        case LetStmt():
            return s.var
        case Allocate() | AllocateConst():
            return s.buffer_var
        case AttrStmt(node=IterVar() as axis):
            return axis.var
    return None
