"""Tensor intrinsics whose statements are ordinary loops, so that every program can be run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched import te
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr, Var
from autosched.tir.op import as_expr, const
from autosched.tir.stmt import BufferStore, For, ForKind, Stmt, seq

Buffers = list[Buffer]


def loops(extents: list[Any], body: Callable[..., Stmt]) -> Stmt:
    """Serial loops over `extents`, with `body` of one variable for each loop inside."""
    variables = [Var(f"v{k}") for k in range(len(extents))]
    stmt = body(*variables)
    for var, extent in reversed(list(zip(variables, extents, strict=True))):
        stmt = For(var, const(0), as_expr(extent), ForKind.SERIAL, stmt)
    return stmt


def store(buffer: Buffer, value: Expr, *indices: Any) -> Stmt:
    """The statement buffer[indices] = value."""
    return BufferStore(buffer, value, tuple(map(as_expr, indices)))


def vadd(n: Any, **params: Any) -> te.TensorIntrin:
    """z[i] = x[i] + y[i] over `n` elements."""
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    z = te.compute((n,), lambda i: x[i] + y[i], name="z")

    def statement(ins: Buffers, outs: Buffers) -> Stmt:
        return loops([n], lambda i: store(outs[0], ins[0][i] + ins[1][i], i))

    return te.decl_tensor_intrin(z.op, statement, "vadd", **params)


def axpy(n: int) -> te.TensorIntrin:
    """z[i] = alpha * x[i] over `n` elements, for a scalar alpha."""
    x, alpha = te.placeholder((n,), name="x"), te.var("alpha", "float32")
    z = te.compute((n,), lambda i: alpha * x[i], name="z")

    def statement(ins: Buffers, outs: Buffers, scalars: list[Var]) -> Stmt:
        return loops([n], lambda i: store(outs[0], scalars[0] * ins[0][i], i))

    return te.decl_tensor_intrin(z.op, statement, "axpy", scalar_params=[alpha])


def gemv(m: int, k: int, parts: int = 3) -> te.TensorIntrin:
    """z[i] = sum over k of w[i, k] * x[k].

    `parts` is the number of statements given: 1 only the body, 2 no reduce_init.
    """
    w, x = te.placeholder((m, k), name="w"), te.placeholder((k,), name="x")
    r = te.reduce_axis((0, k), "r")
    z = te.compute((m,), lambda i: te.sum(w[i, r] * x[r], axis=r), name="z")

    def statement(ins: Buffers, outs: Buffers) -> list[Stmt | None]:
        def reset() -> Stmt:
            return loops([m], lambda i: store(outs[0], const(0.0), i))

        def update() -> Stmt:
            def step(i: Var, r: Var) -> Stmt:
                return store(outs[0], outs[0][i] + ins[0][i, r] * ins[1][r], i)

            return loops([m, k], step)

        body: list[Stmt | None] = [seq(reset(), update()), reset(), update()]
        if parts == 2:
            body[1] = None
        return body[:1] if parts == 1 else body

    return te.decl_tensor_intrin(z.op, statement, "gemv")
