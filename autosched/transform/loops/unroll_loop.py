"""UnrollLoop: loops marked unrolled, and small ones under a pragma, become copies of their body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.copy_stmt import copies
from autosched.tir.expr import BufferLoad, Call, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.intrin import POINTER_OFFSETS
from autosched.tir.op import add
from autosched.tir.stmt import (
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    SeqStmt,
    Stmt,
    nop,
    seq,
)
from autosched.tir.walk import direct_exprs, distinct, free_vars, map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.loops.vector_copies import only_copies_vectors


@dataclass(frozen=True)
class UnrollLoop(FunctionPass):
    """Unrolls loops, counting stores as Ansor does.

    before:
        def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
            for i in range(8):
                pragma(i, "auto_unroll_max_step", 4)
                for j in range(2):
                    B[i * 2 + j] = A[i * 2 + j]
    after:
        def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
            for i in range(8):
                B[i * 2] = A[i * 2]
                B[i * 2 + 1] = A[i * 2 + 1]
    after UnrollLoop{mark_only=True}:
        def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
            for i in range(8):
                for j in unrolled(2):
                    B[i * 2 + j] = A[i * 2 + j]

    A serial loop of constant extent n is unrolled if it contains no loop that is kept, nests at
    most `auto_max_depth` unrolled loops, and n times the number of stores in its body is at most
    `auto_max_step` (or n is at most `auto_max_extent`). The attributes
    `pragma_auto_unroll_max_step` and `pragma_unroll_explicit` set `auto_max_step` and
    `explicit_unroll` for the statement that they enclose, and disappear. With `explicit_unroll` off
    the loops are only marked unrolled. With `mark_only` every loop is at most marked, whatever the
    pragmas say, for code generators that unroll later. `unroll_local_access` unrolls every loop
    whose variable indexes local memory of at most `local_bytes` bytes (0 for any size), so that the
    memory may become registers. A loop that only copies vectors, or stores constant ones, is kept
    where unrolling it would make more than `copy_steps` stores (0 for no limit): it takes the time
    of its memory accesses, and compiling hundreds of stores takes longer than running them. Raises
    ScheduleError for a loop marked unrolled whose extent is not constant.
    """

    name: ClassVar[str] = "UnrollLoop"
    auto_max_step: int = 0
    auto_max_depth: int = 8
    auto_max_extent: int = 0
    explicit_unroll: bool = True
    unroll_local_access: bool = False
    mark_only: bool = False
    local_bytes: int = 0
    copy_steps: int = 0

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Unroller(self).stmt(func.body))


class _Unroller:
    """A post-order walk; the counters describe the statements seen so far in the current scope."""

    def __init__(self, options: UnrollLoop) -> None:
        self._options = options
        self._max_step = options.auto_max_step
        self._explicit = options.explicit_unroll
        self._steps = 0
        self._unroll_depth = 0
        self._normal_loops = 0
        self._local_indices: set[Var] = set()

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case For():
                return self._loop(s)
            case BufferStore() | Evaluate():
                self._steps += 1
                if self._options.unroll_local_access:
                    self._note_local_indices(s)
                return s
            case SeqStmt():
                return self._sequence(s)
            case AttrStmt(key="pragma_auto_unroll_max_step"):
                outer, self._max_step = self._max_step, _pragma_value(s)
                body = self.stmt(s.body)
                self._max_step = outer
                return body
            case AttrStmt(key="pragma_unroll_explicit"):
                outside, self._explicit = self._explicit, bool(_pragma_value(s))
                body = self.stmt(s.body)
                self._explicit = outside
                return body
        return map_children(s, self.stmt)

    def _sequence(self, s: SeqStmt) -> Stmt:
        total, depth, normal = self._steps, self._unroll_depth, self._normal_loops
        new = []
        for part in s.stmts:
            self._steps = self._unroll_depth = self._normal_loops = 0
            new.append(self.stmt(part))
            total += self._steps
            depth = max(depth, self._unroll_depth)
            normal = max(normal, self._normal_loops)
        self._steps, self._unroll_depth, self._normal_loops = total, depth, normal
        return s if all(a is b for a, b in zip(s.stmts, new, strict=True)) else seq(*new)

    def _loop(self, loop: For) -> Stmt:
        body = self.stmt(loop.body)
        options = self._options
        extent = loop.extent.value if isinstance(loop.extent, IntImm) else None
        if loop.kind is ForKind.UNROLLED:
            if extent is None:
                raise ScheduleError(
                    f"UnrollLoop: cannot unroll the loop {loop.loop_var.name}: its extent "
                    f"{loop.extent!r} is not constant"
                )
            unroll = True
        else:
            unroll = (
                loop.kind is ForKind.SERIAL
                and extent is not None
                and self._normal_loops == 0
                and self._unroll_depth <= options.auto_max_depth
                and (extent * self._steps <= self._max_step or extent <= options.auto_max_extent)
                and not (
                    0 < options.copy_steps < extent * self._steps
                    and only_copies_vectors(body, loop.loop_var)
                )
            )
        if unroll and extent is not None:
            self._steps *= extent
            self._unroll_depth += 1
        else:
            self._normal_loops += 1
        local = extent is not None and loop.loop_var in self._local_indices
        if extent is not None and not options.mark_only and ((unroll and self._explicit) or local):
            return _copies(loop, body, extent)
        kind = ForKind.UNROLLED if unroll or local else loop.kind
        return loop.with_(kind=kind, body=body)

    def _counts(self, buffer: Buffer) -> bool:
        """Whether `buffer` is local memory of at most `local_bytes`, which may become registers."""
        if buffer.scope not in ("local", "warp"):
            return False
        size = buffer.dtype.value_bytes
        for extent in buffer.shape:
            size *= extent.value if isinstance(extent, IntImm) else 0
        limit = self._options.local_bytes
        return not limit or 0 < size <= limit

    def _note_local_indices(self, s: Stmt) -> None:
        if isinstance(s, BufferStore) and self._counts(s.buffer):
            for index in s.indices:
                self._local_indices |= free_vars(index)
        for root in direct_exprs(s):
            for e in distinct(root):
                if isinstance(e, BufferLoad) and self._counts(e.buffer):
                    for index in e.indices:
                        self._local_indices |= free_vars(index)
                elif isinstance(e, Call):
                    for k, at in POINTER_OFFSETS.get(e.op, ()):
                        if isinstance(data := e.args[k], Var) and data.scope.startswith("wmma."):
                            self._local_indices |= free_vars(e.args[at])


def _copies(loop: For, body: Stmt, extent: int) -> Stmt:
    if extent <= 0:
        return nop()
    var, low = loop.loop_var, loop.min
    return seq(*copies(body, [{var: add(low, k)} for k in range(extent)]))


def _pragma_value(attr: AttrStmt) -> int:
    value: Any = attr.value
    if not isinstance(value, IntImm):
        raise ScheduleError(
            f"UnrollLoop: the value of {attr.key} must be an integer constant, found {value!r}"
        )
    return value.value
