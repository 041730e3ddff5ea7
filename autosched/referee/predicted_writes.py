"""Prediction of the elements that some blocks should write, from the function before lowering.

before:
    def main(A: Buffer((8, 30), float32), B: Buffer((8, 30), float32)):
        launch(blockIdx.x, 4)
        launch(threadIdx.x, 64)
        for k in range(9):
            if threadIdx.x % 32 < 30:
                B[blockIdx.x * 2 + threadIdx.x // 32, threadIdx.x % 32] = A[0, k]
after:
    def main(A: Buffer((8, 30), float32), B: Buffer((8, 30), float32)):
        launch(blockIdx.x, 4)
        launch(threadIdx.x, 64)
        if threadIdx.x % 32 < 30:
            B[blockIdx.x * 2 + threadIdx.x // 32, threadIdx.x % 32] = 0.0
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from autosched.tir import interp, op
from autosched.tir.expr import BufferLoad, Expr, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.interp_watch import Blocks, Watch
from autosched.tir.stmt import (
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    nop,
    seq,
)
from autosched.tir.walk import all_exprs, child_stmts, direct_exprs, free_vars, stmts

Array = np.ndarray[Any, Any]


class UnpredictableError(Exception):
    """The written elements depend on data."""


def predicted_writes(
    func: PrimFunc, outputs: Collection[str], blocks: Blocks | None = None
) -> dict[str, Array]:
    """For each of `outputs`, a flat mask of the elements that `blocks` of `func` store.

    Raises UnpredictableError if a condition or index reads memory.
    """
    skeleton = func.with_body(stores_alone(func.body, outputs))
    watch = Watch(races=False, outputs=outputs, blocks=blocks)
    arrays = [_array(func, param) for param in func.params]
    interp.run(skeleton, arrays, watch=watch)
    return watch.written


def _array(func: PrimFunc, param: Var) -> Array:
    buffer = func.buffer_map[param]
    shape = tuple(s.value for s in buffer.shape if isinstance(s, IntImm))
    return np.zeros(shape, buffer.dtype.numpy)


def stores_alone(body: Stmt, outputs: Collection[str]) -> Stmt:
    """`body` reduced to stores of zero to `outputs`, without loops that do not change the index."""
    kept = _kept(body, outputs)
    return nop() if kept is None else kept


def _kept(s: Stmt, outputs: Collection[str]) -> Stmt | None:
    if isinstance(s, BufferStore):
        if s.buffer.name not in outputs:
            return None
        _refuse_loads(s.indices)
        return BufferStore(s.buffer, op.const(0, s.value.dtype), s.indices, s.predicate)
    if isinstance(s, Evaluate):
        return None
    if isinstance(s, IfThenElse):
        then, other = _kept(s.then_case, outputs), None
        if s.else_case is not None:
            other = _kept(s.else_case, outputs)
        if then is None and other is None:
            return None
        _refuse_loads((s.condition,))
        return IfThenElse(s.condition, nop() if then is None else then, other)
    parts = [p for p in (_kept(c, outputs) for c in child_stmts(s)) if p is not None]
    if not parts:
        return None
    inside = seq(*parts)
    if isinstance(s, For):
        if s.kind is not ForKind.THREAD_BINDING and not _uses(inside, s.loop_var):
            if isinstance(s.extent, IntImm):
                return inside if s.extent.value > 0 else None
            return IfThenElse(op.lt(0, s.extent), inside, None)
        return For(s.loop_var, s.min, s.extent, s.kind, inside, s.thread_binding)
    if isinstance(s, LetStmt):
        return LetStmt(s.var, s.value, inside) if _uses(inside, s.var) else inside
    if isinstance(s, AttrStmt):
        return AttrStmt(s.node, s.key, s.value, inside)
    if isinstance(s, AssertStmt):
        return AssertStmt(s.condition, s.message, inside)
    return inside


def _refuse_loads(exprs: Sequence[Expr]) -> None:
    for e in exprs:
        if any(isinstance(x, BufferLoad) for x in all_exprs(Evaluate(e))):
            raise UnpredictableError(f"{e!r} reads memory")


def _uses(s: Stmt, var: Var) -> bool:
    return any(var in free_vars(e) for inner in stmts(s) for e in direct_exprs(inner))
