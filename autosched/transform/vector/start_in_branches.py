"""StartInBranches: initial values are stored in the branches of a condition, not before it.

before:
    def main(X: Buffer((64,), float32), Y: Buffer((8,), float32), n: int32):
        for i in range(8):
            Y[i] = 0.0
        if n < 3:
            for k in range(8):
                for i in range(8):
                    Y[i] = Y[i] + X[k * 8 + i]
        else:
            Y[0] = X[n]
after:
    def main(X: Buffer((64,), float32), Y: Buffer((8,), float32), n: int32):
        if n < 3:
            for i in range(8):
                Y[i] = 0.0
            for k in range(8):
                for i in range(8):
                    Y[i] = Y[i] + X[k * 8 + i]
        else:
            for i_1 in range(8):
                Y[i_1] = 0.0
            Y[0] = X[n]

Tiles of a convolution whose input is not padded in memory differ at the border of the image. In the
branch of the inner tiles, PromoteAccumulators begins with the initial value in registers, and it is
no longer stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.copy_stmt import copy_stmt
from autosched.tir.expr import BufferLoad
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, For, IfThenElse, SeqStmt, Stmt, seq
from autosched.tir.walk import map_children
from autosched.transform.expressions.effects import has_side_effect, mentions
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.first_values import first_value
from autosched.transform.vector.reduction_nest import is_counted, is_reduction, match_nest

_reads = mentions(BufferLoad)


@dataclass(frozen=True)
class StartInBranches(FunctionPass):
    """Moves the store of a reduction's initial values into all branches of the condition behind it.

    At least one branch begins with the reduction, and no condition reads memory. In the rows of the
    feature set `autosched-1` the initialisation belongs to the nests inside the branches.
    """

    name: ClassVar[str] = "StartInBranches"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_moved(func.body))


def _moved(s: Stmt) -> Stmt:
    if isinstance(s, BufferStore):
        return s
    if isinstance(s, SeqStmt):
        parts = list(_parts(s.stmts))
        s = s if len(parts) == len(s.stmts) else seq(*parts)
    return map_children(s, _moved)


def _parts(parts: Sequence[Stmt]) -> Iterator[Stmt]:
    """The statements; an initialisation that a condition takes in no longer stands before it."""
    before: Stmt | None = None
    for part in parts:
        pushed = None if before is None else _pushed(before, part)
        if before is not None and pushed is None:
            yield before
        before = part if pushed is None else pushed
    if before is not None:
        yield before


def _pushed(start: Stmt, s: Stmt) -> Stmt | None:
    """The condition `s` with `start` in its branches; None if no branch can use it there."""
    if not isinstance(s, IfThenElse) or _reads(s.condition) or has_side_effect(s.condition):
        return None
    branches = [s.then_case, *([] if s.else_case is None else [s.else_case])]
    taken = [_taken(start, branch) for branch in branches]
    if all(branch is None for branch in taken):
        return None
    others = [
        b if b is not None else seq(start, old) for b, old in zip(taken, branches, strict=True)
    ]
    copied = start if s.else_case is None else others[1]
    return IfThenElse(s.condition, others[0], copy_stmt(copied, {}))


def _taken(start: Stmt, branch: Stmt) -> Stmt | None:
    """`branch` behind `start`, if it begins with the reduction or a condition that takes `start`.

    None if it begins with anything else.
    """
    first, *rest = branch.stmts if isinstance(branch, SeqStmt) else (branch,)
    if isinstance(first, For):
        nest = match_nest(first) if is_counted(first) else None
        begins = nest is not None and is_reduction(nest) and first_value(start, nest) is not None
        return seq(start, branch) if begins else None
    pushed = _pushed(start, first)
    return None if pushed is None else seq(pushed, *rest)
