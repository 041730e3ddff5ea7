"""Statements: slotted, immutable, compared by identity; children are in tuples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from autosched.tir.buffer import Buffer
from autosched.tir.data import mark_data
from autosched.tir.dtype import DType, bool_
from autosched.tir.expr import Expr, IntImm, IterVar, Range, Var

if TYPE_CHECKING:
    from autosched.tir import (
        printer as _printer,  # `printer.py` binds itself here when it is loaded
    )

TRUE = IntImm(1, bool_)
FALSE = IntImm(0, bool_)


class ForKind(Enum):
    """How the iterations of a loop are executed."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    THREAD_BINDING = "thread_binding"


class Stmt:
    """The base of all statements."""

    __slots__ = ("_kinds",)
    _kinds: int  # cache of kinds.kinds_in

    def with_(self, **fields: Any) -> Self:
        """A copy of this statement with some fields replaced; itself when nothing changes."""
        if all(getattr(self, name) is value for name, value in fields.items()):
            return self
        changed: Self = replace(cast(Any, self), **fields)
        return changed

    def __repr__(self) -> str:
        return _printer.to_text(self)


@dataclass(slots=True, eq=False, repr=False)
class LetStmt(Stmt):
    """`body` in which `var` has the value of `value`."""

    var: Var
    value: Expr
    body: Stmt

    def __post_init__(self) -> None:
        mark_data(self.var, self.value)


@dataclass(slots=True, eq=False, repr=False)
class AttrStmt(Stmt):
    """`body` annotated with `key`; `node` is a Var, Buffer, IterVar, tensor, string or None."""

    node: Any
    key: str
    value: Expr
    body: Stmt


@dataclass(slots=True, eq=False, repr=False)
class AssertStmt(Stmt):
    """`body`, reached only when `condition` holds; otherwise the kernel fails with `message`."""

    condition: Expr
    message: str
    body: Stmt


@dataclass(slots=True, eq=False, repr=False)
class BufferStore(Stmt):
    """`buffer[indices] = value`; lanes where `predicate` is false are not written."""

    buffer: Buffer
    value: Expr
    indices: tuple[Expr, ...]
    predicate: Expr | None = None


@dataclass(slots=True, eq=False, repr=False)
class BufferRealize(Stmt):
    """Storage for the region `bounds` of `buffer` while `body` runs (gone after flattening)."""

    buffer: Buffer
    bounds: tuple[Range, ...]
    condition: Expr
    body: Stmt


@dataclass(slots=True, eq=False, repr=False)
class ProducerStore(Stmt):
    """`producer[indices] = value` on a `te.Tensor`; never reaches a PrimFunc."""

    producer: Any
    value: Expr
    indices: tuple[Expr, ...]


@dataclass(slots=True, eq=False, repr=False)
class ProducerRealize(Stmt):
    """Storage for the region `bounds` of a `te.Tensor`; never reaches a PrimFunc."""

    producer: Any
    bounds: tuple[Range, ...]
    condition: Expr
    body: Stmt
    scope: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Allocate(Stmt):
    """`buffer_var` points to product(extents) elements of `dtype` while `body` runs."""

    buffer_var: Var
    dtype: DType
    extents: tuple[Expr, ...]
    condition: Expr
    body: Stmt
    annotations: dict[str, Any] = field(default_factory=dict)

    @property
    def constant_bytes(self) -> int | None:
        """The size in bytes; None if an extent is not constant."""
        sizes = [e.value for e in self.extents if isinstance(e, IntImm)]
        return prod(sizes) * self.dtype.value_bytes if len(sizes) == len(self.extents) else None


@dataclass(slots=True, eq=False, repr=False)
class AllocateConst(Stmt):
    """`buffer_var` points to the constant `data` while `body` runs."""

    buffer_var: Var
    dtype: DType
    extents: tuple[Expr, ...]
    data: np.ndarray[Any, Any]
    body: Stmt


@dataclass(slots=True, eq=False, repr=False)
class DeclBuffer(Stmt):
    """Declares the view `buffer` of storage that exists already."""

    buffer: Buffer
    body: Stmt


@dataclass(slots=True, eq=False, repr=False)
class SeqStmt(Stmt):
    """Statements in order. Build it with `seq`, which flattens."""

    stmts: tuple[Stmt, ...]


@dataclass(slots=True, eq=False, repr=False)
class IfThenElse(Stmt):
    """`then_case` when `condition` holds, else `else_case` if there is one."""

    condition: Expr
    then_case: Stmt
    else_case: Stmt | None = None


@dataclass(slots=True, eq=False, repr=False)
class Evaluate(Stmt):
    """`value` evaluated for its side effects, such as a call."""

    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class For(Stmt):
    """`body` for every `loop_var` in [min, min + extent)."""

    loop_var: Var
    min: Expr
    extent: Expr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class While(Stmt):
    """`body` repeated while `condition`, tested before each iteration, holds."""

    condition: Expr
    body: Stmt


@dataclass(slots=True, eq=False, repr=False)
class Prefetch(Stmt):
    """A hint that the region `bounds` of `buffer` is needed soon."""

    buffer: Buffer
    bounds: tuple[Range, ...]


@dataclass(slots=True, eq=False)
class BufferRegion:
    """The region of `buffer` given by a range for each dimension."""

    buffer: Buffer
    region: tuple[Range, ...]

    @staticmethod
    def full(buffer: Buffer) -> BufferRegion:
        """The region that covers all of `buffer`."""
        whole = tuple(Range(IntImm(0, extent.dtype), extent) for extent in buffer.shape)
        return BufferRegion(buffer, whole)


@dataclass(slots=True, eq=False)
class MatchBufferRegion:
    """Declares `buffer` as a view of the region `source` of another buffer inside a block.

    An offset, stride or extent of `buffer` that is a single, unbound variable is bound to the
    region's value.
    """

    buffer: Buffer
    source: BufferRegion

    def variables(self) -> tuple[Var, ...]:
        """The variables that may be bound here: offset, strides, extents."""
        buffer = self.buffer
        fields = (buffer.elem_offset, *buffer.strides, *buffer.shape)
        return tuple(dict.fromkeys(e for e in fields if isinstance(e, Var)))


@dataclass(slots=True, eq=False, repr=False)
class Block(Stmt):
    """A computation with iteration variables of its own.

    `init` runs in the first step of its reductions, before `body`.
    """

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[MatchBufferRegion, ...] = ()
    annotations: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class BlockRealize(Stmt):
    """`block` with values for its iteration variables, where `predicate` holds."""

    iter_values: tuple[Expr, ...]
    predicate: Expr
    block: Block


NOP_VALUE = IntImm(0)


def nop() -> Evaluate:
    """The statement that does nothing."""
    return Evaluate(NOP_VALUE)


def is_nop(stmt: Stmt) -> bool:
    """True for `Evaluate` of a constant."""
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm)


def seq(*stmts: Stmt) -> Stmt:
    """The statements in order: nested sequences flattened, no-ops dropped, no singleton."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, SeqStmt):
            flat.extend(stmt.stmts)
        elif not is_nop(stmt):
            flat.append(stmt)
    if not flat:
        return nop()
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


def let(bindings: Iterable[tuple[Var, Expr]], body: Stmt) -> Stmt:
    """`body` inside a LetStmt for each variable and its value, the first one outermost."""
    for var, value in reversed(list(bindings)):
        body = LetStmt(var, value, body)
    return body
