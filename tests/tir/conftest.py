"""Small programs over buffers, and expressions evaluated by the interpreter."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from autosched.tir import interp
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType, handle
from autosched.tir.expr import IntImm, IterKind, IterVar, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import AttrStmt, BufferStore
from kit.stmts import loop


def make_func(buffers, body, scalars=()):
    """A function over `buffers` and then scalar parameters."""
    params = tuple(Var(b.name, handle) for b in buffers)
    return PrimFunc(
        (*params, *scalars), body, dict(zip(params, buffers)), {"global_symbol": "main"}
    )


def thread(tag):
    """A fresh thread axis."""
    return IterVar(None, Var(tag), IterKind.THREAD, tag)


def launch(body, *axes):
    """`body` under thread axes given as (IterVar, extent), outermost first."""
    for iv, extent in reversed(axes):
        body = AttrStmt(iv, "thread_extent", IntImm(extent), body)
    return body


def evaluate(expr, **values):
    """The value of `expr` with its variables (by name) as scalar parameters."""
    from autosched.tir.walk import free_vars

    lanes = expr.dtype.lanes
    out = decl_buffer((1,), expr.dtype, "out")
    scalars = sorted(free_vars(expr), key=lambda v: v.name)
    func = make_func([out], BufferStore(out, expr, (IntImm(0),)), scalars)
    array = np.zeros(lanes, DType(expr.dtype).numpy)
    interp.run(func, [array, *(values[v.name] for v in scalars)], eager_select=True)
    return array[0] if lanes == 1 else array


@pytest.fixture(scope="session")
def tir():
    """The helpers above."""
    return SimpleNamespace(
        func=make_func, loop=loop, thread=thread, launch=launch, evaluate=evaluate
    )
