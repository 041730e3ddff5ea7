"""Small programs over buffers, and expressions evaluated by the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.tir import interp
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType, handle
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import AttrStmt, BufferStore, Stmt
from autosched.tir.walk import free_vars
from kit.stmts import loop


class Programs:
    """Helpers with which tests of TIR build programs."""

    loop = staticmethod(loop)

    @staticmethod
    def func(buffers: Sequence[Buffer], body: Stmt, scalars: Sequence[Var] = ()) -> PrimFunc:
        """A function over `buffers` and then scalar parameters."""
        params = tuple(Var(b.name, handle) for b in buffers)
        return PrimFunc(
            (*params, *scalars), body, dict(zip(params, buffers)), {"global_symbol": "main"}
        )

    @staticmethod
    def thread(tag: str) -> IterVar:
        """A fresh thread axis."""
        return IterVar(None, Var(tag), IterKind.THREAD, tag)

    @staticmethod
    def launch(body: Stmt, *axes: tuple[IterVar, int]) -> Stmt:
        """`body` under thread axes given as (IterVar, extent), outermost first."""
        for iv, extent in reversed(axes):
            body = AttrStmt(iv, "thread_extent", IntImm(extent), body)
        return body

    @staticmethod
    def evaluate(expr: Expr, **values: Any) -> Any:
        """The value of `expr` with its variables (by name) as scalar parameters."""
        lanes = expr.dtype.lanes
        out = decl_buffer((1,), expr.dtype, "out")
        scalars = sorted(free_vars(expr), key=lambda v: v.name)
        func = Programs.func([out], BufferStore(out, expr, (IntImm(0),)), scalars)
        array = np.zeros(lanes, DType(expr.dtype).numpy)
        interp.run(func, [array, *(values[v.name] for v in scalars)], eager_select=True)
        return array[0] if lanes == 1 else array
