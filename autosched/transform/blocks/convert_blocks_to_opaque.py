"""ConvertBlocksToOpaque: replace the iteration variables of blocks by their values.

before:
    def main(A: Buffer((8,), float32), B: Buffer((8,), float32)):
        for i in range(2):
            with block("outer"):
                vo = axis.data_par(0:2, i)
                reads(A[vo * 4:vo * 4 + 4])
                writes(B[vo * 4:vo * 4 + 4])
                for j in range(4):
                    with block("inner"):
                        vi = axis.data_par(0:8, vo * 4 + j)
                        where(vo * 4 + j < 7)
                        reads(A[vi:vi + 1])
                        writes(B[vi:vi + 1])
                        B[vi] = A[vi]
after:
    def main(A: Buffer((8,), float32), B: Buffer((8,), float32)):
        for i in range(2):
            with block("outer"):
                reads(A[i * 4:i * 4 + 4])
                writes(B[i * 4:i * 4 + 4])
                for j in range(4):
                    with block("inner"):
                        where(i * 4 + j < 7)
                        reads(A[i * 4 + j:i * 4 + j + 1])
                        writes(B[i * 4 + j:i * 4 + j + 1])
                        B[i * 4 + j] = A[i * 4 + j]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from autosched.errors import ScheduleError
from autosched.tir.expr import Expr, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import Block, BlockRealize, Stmt, let
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import map_children, substitute, uses
from autosched.transform.expressions.effects import is_lasting
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class ConvertBlocksToOpaque(FunctionPass):
    """Replace iteration variables everywhere in their block; the predicate of a block stays.

    Regions, buffer shapes, views and annotations are rewritten together with the body. A value that
    reads memory is bound by a let in front of the block, because the block may write that memory.
    Raises ScheduleError for a block that still has an initialisation, and for a variable that is
    used in the predicate or the values of its own block, where it is not defined yet.
    """

    name: ClassVar[str] = "ConvertBlocksToOpaque"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if func.attrs.get("from_legacy_te_schedule"):
            return func
        return func.with_body(_Convert().stmt(func.body))


class _Convert:
    def __init__(self) -> None:
        self.values: dict[Var, Expr] = {}

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, Block) and s.annotations:
            s = s.with_(annotations=_substituted(s.annotations, self.values))
        return self._realize(s) if isinstance(s, BlockRealize) else map_children(s, self.stmt)

    def _realize(self, s: BlockRealize) -> Stmt:
        block = s.block
        if block.init is not None:
            raise ScheduleError(
                f"ConvertBlocksToOpaque: block {block.name_hint!r} has an initialisation; run "
                "LowerInitBlock first"
            )
        for iv in block.iter_vars:
            if any(uses(e, (iv.var,)) for e in (*s.iter_values, s.predicate)):
                raise ScheduleError(
                    f"ConvertBlocksToOpaque: variable {iv.var.name} of block {block.name_hint!r} "
                    "stands in the values or the predicate of the block itself; it is not defined "
                    "until the block's body"
                )
        if not block.iter_vars:
            return map_children(s, self.stmt)
        own: dict[Var, Expr] = {}
        read: list[tuple[Var, Expr]] = []
        for iv, value in zip(block.iter_vars, s.iter_values, strict=True):
            own[iv.var] = value
            if not is_lasting(value):
                named = Var(iv.var.name, value.dtype)
                own[iv.var] = named
                read.append((named, value))
        self.values.update(own)
        inner = self.stmt(substitute_stmt(block.with_(iter_vars=()), own))
        return let(read, s.with_(iter_values=(), block=inner))


def _substituted(value: Any, table: Mapping[Var, Expr]) -> Any:
    """Substitute variables in all expressions of an annotation; unchanged values keep identity."""
    match value:
        case Expr():
            return substitute(value, table)
        case dict():
            new: Any = {key: _substituted(item, table) for key, item in value.items()}
            return new if any(new[key] is not item for key, item in value.items()) else value
        case list() | tuple():
            items = [_substituted(item, table) for item in value]
            changed = any(a is not b for a, b in zip(items, value, strict=True))
            return items if changed else value
    return value
