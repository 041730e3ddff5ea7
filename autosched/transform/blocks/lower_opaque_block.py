"""LowerOpaqueBlock: blocks become allocations and conditions, thread loops become launches.

before:
    def main(A: Buffer((16, 32), float32), B: Buffer((16, 32), float32)):
        for b in thread_binding(4, thread="blockIdx.x"):
            with block(""):
                where(b < 3)
                reads(A[b * 4:b * 4 + 4, 0:32])
                writes(B[b * 4:b * 4 + 4, 0:32])
                S = alloc((4, 32), float32, scope="shared", strides=(40, 1))
                for i in range(4):
                    for j in range(32, annotations={"pragma_unroll": 1}):
                        with block("S"):
                            reads(A[b * 4 + i:b * 4 + i + 1, j:j + 1])
                            writes(S[i:i + 1, j:j + 1])
                            annotations({"buffer_dim_align": [[0, 0, 32, 8]]})
                            S[i, j] = A[b * 4 + i, j]
                for i2 in range(4):
                    for j2 in range(32):
                        for one in range(5, 6):
                            B[b * 4 + i2, j2] = S[i2, j2] + float32(one)
after:
    def main(A: Buffer((16, 32), float32), B: Buffer((16, 32), float32)):
        launch(b, 4, tag="blockIdx.x", dom=0:4)
        S = allocate((4, 40), float32, "shared", annotations={"buffer_dim_align": [[-1, 0, 32, 8]]})
        S_1 = declare(S, (4, 32), float32, strides=(40, 1), pointer=pointer(float32, "shared"))
        if b < 3:
            for i in range(4):
                pragma(var(j), "unroll", 1)
                for j in range(32):
                    S_1[i, j] = A[b * 4 + i, j]
            for i2 in range(4):
                for j2 in range(32):
                    B[b * 4 + i2, j2] = S_1[i2, j2] + 5.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from autosched.errors import ScheduleError
from autosched.tir.constants import is_one, is_zero
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar, Range, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, cast, const
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    Stmt,
)
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import map_children, stmts
from autosched.transform.blocks.strides import allocated_extents
from autosched.transform.expressions.effects import is_lasting
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_NAME = "LowerOpaqueBlock"
_ALIGN = "buffer_dim_align"


@dataclass(frozen=True)
class LowerOpaqueBlock(FunctionPass):
    """Replace each block by its allocations around an `if` on its predicate around its body.

    Allocations are padded as the strides of their buffers say. Pragmas of blocks and loops become
    attributes, sorted by key from the outside in; other annotations of blocks are dropped. Loops
    bound to threads become launches that count from 0. Other loops with one iteration and without
    annotations are removed. Raises ScheduleError for blocks that still have iteration variables, an
    initialisation or views; for strides that are no multiple of each other; and for pragmas whose
    value is neither an expression nor a string.
    """

    name: ClassVar[str] = "LowerOpaqueBlock"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if func.attrs.get("from_legacy_te_schedule"):
            return func
        if not any(
            isinstance(s, Block) or (isinstance(s, For) and s.kind is ForKind.THREAD_BINDING)
            for s in stmts(func.body)
        ):
            return func
        return func.with_body(_Lower().stmt(func.body))


class _Lower:
    def __init__(self) -> None:
        self.alignment: dict[Var, list[list[int]]] = {}

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case BlockRealize():
                return self._realize(s)
            case Block():
                return self._realize(BlockRealize((), TRUE, s))
            case For():
                return self._for(s)
        return map_children(s, self.stmt)

    # -- blocks

    def _realize(self, s: BlockRealize) -> Stmt:
        block = s.block
        for what, left, remedy in (
            ("iteration variables", block.iter_vars, "ConvertBlocksToOpaque"),
            ("an initialisation", block.init, "LowerInitBlock"),
            ("views of regions", block.match_buffers, "LowerMatchBuffer"),
        ):
            if left:
                raise ScheduleError(
                    f"{_NAME}: block {block.name_hint!r} has {what}; run {remedy} first"
                )
        for number, *align in block.annotations.get(_ALIGN, ()):
            data = block.writes[_number(number)].buffer.data
            self.alignment.setdefault(data, []).append([-1, *map(_number, align)])
        body = self.stmt(block.body)
        if not (isinstance(s.predicate, IntImm) and s.predicate.value):
            body = IfThenElse(s.predicate, body)
        body = _with_pragmas(None, block.annotations, body)
        for buffer in reversed(block.alloc_buffers):
            align = self.alignment.get(buffer.data)
            notes: dict[str, Any] = {_ALIGN: align} if align else {}
            body = DeclBuffer(buffer, body)
            extents = allocated_extents(buffer)
            body = Allocate(buffer.data, buffer.dtype, extents, TRUE, body, notes)
        return body

    # -- loops

    def _for(self, s: For) -> Stmt:
        once = is_one(s.extent) and not s.annotations
        body = self.stmt(s.body)
        if s.kind is ForKind.THREAD_BINDING:
            return _with_pragmas(s.loop_var, s.annotations, _launch(s, body))
        if once and is_lasting(s.min):
            return substitute_stmt(body, {s.loop_var: cast(s.loop_var.dtype, s.min)})
        kept = {k: v for k, v in s.annotations.items() if not k.startswith("pragma_")}
        if len(kept) == len(s.annotations):
            return s.with_(body=body)
        return _with_pragmas(s.loop_var, s.annotations, s.with_(body=body, annotations=kept))


def _launch(s: For, body: Stmt) -> Stmt:
    """The launch for a loop bound to threads; its variable counts from 0 whatever `s.min` is."""
    assert s.thread_binding is not None
    tag, var = s.thread_binding.thread_tag, s.loop_var
    if is_one(s.extent):
        body = substitute_stmt(body, {var: cast(var.dtype, s.min)})
    elif not is_zero(s.min):
        body = substitute_stmt(body, {var: add(var, s.min)})
    key = "virtual_thread" if tag.startswith("vthread") else "thread_extent"
    iv = IterVar(Range(const(0, var.dtype), s.extent), var, IterKind.THREAD, tag)
    return AttrStmt(iv, key, s.extent, body)


def _number(value: Any) -> int:
    return int(value.value) if isinstance(value, IntImm) else int(value)


def _with_pragmas(node: object, notes: Mapping[str, Any], body: Stmt) -> Stmt:
    """`body` inside one attribute per pragma of `notes`, sorted by key, the first outermost."""
    for key in sorted(notes, reverse=True):
        if key.startswith("pragma_"):
            body = AttrStmt(node, key, _as_expr(key, notes[key]), body)
    return body


def _as_expr(key: str, value: Any) -> Expr:
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, bool | int):
        return const(int(value))
    if not isinstance(value, Expr):
        raise ScheduleError(
            f"{_NAME}: the value of {key} is an expression, a number or a string, found {value!r}"
        )
    return value
