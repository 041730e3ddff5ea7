"""InjectSoftwarePipeline: fill tiles in shared memory some iterations before they are used.

before:
    def main(A: Buffer((256,), float32), B: Buffer((256,), float32)):
        launch(threadIdx.x, 32)
        pragma(None, "software_pipeline", 3)
        for k in range(8):
            S = allocate((32,), float32, "shared")
            S[threadIdx.x] = A[k * 32 + threadIdx.x]
            B[k * 32 + threadIdx.x] = S[31 - threadIdx.x]
after:
    def main(A: Buffer((256,), float32), B: Buffer((256,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((96,), float32, "shared")
        for k.ahead in range(2):
            with attr(None, "pipelined_copies", 1):
                S[threadIdx.x + k.ahead * 32] = A[k.ahead * 32 + threadIdx.x]
            ptx_commit_group(dtype=int32)
        for k in range(8):
            ptx_wait_group(1)
            tvm_storage_sync("shared")
            if k + 2 < 8:
                attr(None, "pipelined_copies", 1)
                S[threadIdx.x + (k + 2) % 3 * 32] = A[(k + 2) * 32 + threadIdx.x]
            ptx_commit_group(dtype=int32)
            B[k * 32 + threadIdx.x] = S[31 - threadIdx.x + k % 3 * 32]
        ptx_wait_group(0)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from autosched.errors import ScheduleError
from autosched.tir.copy_stmt import copy_stmt
from autosched.tir.dtype import int32
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import stored_in
from autosched.tir.op import add, const, floormod, lt
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    seq,
)
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import all_exprs, map_children
from autosched.tir.warpgroup_matrix import WGMMA_PENDING, WGMMA_SUMS
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.storage.widen_allocate import widen_allocate

KEY = "pragma_software_pipeline"
COPIES = "pipelined_copies"
"""The attribute around the fills; InjectPTXAsyncCopy makes the copies in it asynchronous."""
_SHARED = ("shared", "shared.dyn")


@dataclass(frozen=True)
class InjectSoftwarePipeline(FunctionPass):
    """Apply the pragma `software_pipeline` to a serial loop that fills shared memory.

    The value of the pragma is the number n of stages; in a loop of fewer iterations n is their
    number. The tiles get room for n iterations, and the fill runs n - 1 iterations ahead. The tiles
    are the shared memory that the loop's body allocates. The statements that store to them must
    come first in the body, and must share with the others no other memory that one of them writes.
    One barrier per iteration suffices: it follows every thread's last use of the tile that is
    filled next.

    Products of a warpgroup (wgmma) stay in flight while the next iteration begins, if there are at
    least three stages and nothing else in the loop uses their sums. A tile is then refilled one
    iteration later, so the fill runs n - 2 iterations ahead. With one stage, or one iteration, only
    the pragma is removed. Raises ScheduleError for a loop of another form.
    """

    name: ClassVar[str] = "InjectSoftwarePipeline"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        def go(s: Stmt) -> Stmt:
            new = map_children(s, go)
            if isinstance(new, AttrStmt) and new.key == KEY:
                return _pipelined(new, func.name)
            return new

        return func.with_body(go(func.body))


def _pipelined(mark: AttrStmt, function: str) -> Stmt:
    around: list[AttrStmt] = []
    loop = mark.body
    while isinstance(loop, AttrStmt):
        around.append(loop)
        loop = loop.body
    asked = mark.value

    def fail(problem: str) -> NoReturn:
        raise ScheduleError(f"InjectSoftwarePipeline: {function}: {problem}")

    if not isinstance(asked, IntImm) or asked.value < 1:
        fail(f"the number of stages must be at least 1, found {asked!r}")
    if not isinstance(loop, For):  # the loop has one iteration
        return mark.body
    if loop.kind is not ForKind.SERIAL:
        fail(f"the loop {loop.loop_var.name} is {loop.kind.value}, only a serial one is pipelined")
    if not isinstance(loop.extent, IntImm) or not isinstance(loop.min, IntImm) or loop.min.value:
        fail(f"the loop {loop.loop_var.name} must run from 0 to a constant")
    stages = min(asked.value, loop.extent.value)
    if stages < 2:
        return mark.body
    result = _Pipeline(loop, stages, function).result()
    for attr in reversed(around):
        result = AttrStmt(attr.node, attr.key, attr.value, result)
    return result


class _Pipeline:
    def __init__(self, loop: For, stages: int, function: str) -> None:
        self.loop = loop
        self.stages = stages
        self.function = function
        self.slot = Var("slot", loop.loop_var.dtype)
        self.tiles: list[Allocate] = []

    def result(self) -> Stmt:
        """The prologue that fills tiles and the loop, inside the allocations of the tiles."""
        parts = self._parts(self.loop.body)
        own = {tile.buffer_var for tile in self.tiles}
        count = next((k for k, s in enumerate(parts) if not _stores_to(s, own)), len(parts))
        fills, rest = parts[:count], parts[count:]
        if not fills or not rest or any(_stores_to(s, own) for s in rest):
            self._fail("must fill tiles in shared memory, and then use them")
        if any(_reads(s, own) for s in fills):
            self._fail("must not use tiles before all are filled")
        if any(_reads(s, stored_in(*rest)) for s in fills):
            self._fail("must not fill tiles with what it stores itself")
        if any(_reads(s, stored_in(*fills) - own) for s in rest):
            self._fail("must not use what it stores besides the tiles while it fills them")
        body: Stmt = seq(AttrStmt(None, COPIES, const(1), seq(*fills)), *rest)
        for tile in reversed(self.tiles):
            body = widen_allocate(tile.with_(body=body), self.stages, self.slot, innermost=False)
        return self._around(body)

    def _fail(self, problem: str) -> NoReturn:
        name = self.loop.loop_var.name
        raise ScheduleError(f"InjectSoftwarePipeline: {self.function}: the loop {name} {problem}")

    def _parts(self, s: Stmt) -> list[Stmt]:
        """The statements of the body in order; allocations of shared memory go to `tiles`."""
        match s:
            case SeqStmt():
                return [part for inner in s.stmts for part in self._parts(inner)]
            case Allocate() if s.buffer_var.scope in _SHARED:
                self.tiles.append(s)
                return self._parts(s.body)
        return [s]

    def _around(self, s: Stmt) -> Stmt:
        """Build the pipeline for the body inside of the tiles' allocations."""
        if isinstance(s, Allocate) and any(s.buffer_var is t.buffer_var for t in self.tiles):
            return s.with_(body=self._around(s.body))
        assert isinstance(s, SeqStmt)
        fill, *rest = s.stmts
        k, stages = self.loop.loop_var, self.stages
        overlap = stages > 2 and _may_go_on(rest)
        ahead = stages - 1 - overlap
        first = Var(f"{k.name}.ahead", k.dtype)
        before = self.loop.with_(
            loop_var=first,
            extent=const(ahead, k.dtype),
            body=seq(copy_stmt(fill, {k: first, self.slot: first}), _COMMIT),
        )
        later = add(k, ahead)
        following = substitute_stmt(fill, {k: later, self.slot: floormod(later, stages)})
        used = substitute_stmt(seq(*rest), {self.slot: floormod(k, stages)})
        if overlap:
            used = _going_on(used)
        body = seq(
            _wait(ahead - 1),
            _BARRIER,
            IfThenElse(lt(later, self.loop.extent), following),
            _COMMIT,
            used,
        )
        done = (_wait(0), _PRODUCTS_DONE) if overlap else (_wait(0),)
        return seq(before, self.loop.with_(body=body), *done)


_COMMIT = Evaluate(Call(int32, "ptx_commit_group", ()))
_BARRIER = Evaluate(Call(int32, "tvm_storage_sync", (StringImm("shared"),)))
_PRODUCTS_DONE = Evaluate(Call(int32, "ptx_wgmma_wait", (IntImm(0),)))


def _may_go_on(parts: Sequence[Stmt]) -> bool:
    """Whether `parts` start products of a warpgroup whose sums nothing else in them uses."""
    exprs = [e for part in parts for e in all_exprs(part)]
    products = [e for e in exprs if isinstance(e, Call) and e.op == "ptx_wgmma"]
    sums = {e.args[WGMMA_SUMS] for e in products}
    alone = sum(_uses(e, sums) for e in exprs) == len(products)
    return bool(products) and alone and sums.isdisjoint(stored_in(*parts))


def _going_on(s: Stmt) -> Stmt:
    """`s` without waiting for the last group of products that it starts."""

    def one_pending(e: Expr) -> Expr:
        if not isinstance(e, Call) or e.op != "ptx_wgmma":
            return e
        args = list(e.args)
        args[WGMMA_PENDING] = IntImm(1)
        return Call(e.dtype, e.op, tuple(args))

    return map_children(s, _going_on, one_pending)


def _wait(newest: int) -> Stmt:
    """Wait until all groups of copies have arrived except the `newest` latest ones."""
    return Evaluate(Call(int32, "ptx_wait_group", (const(newest),)))


def _stores_to(s: Stmt, pointers: set[Var]) -> bool:
    return not pointers.isdisjoint(stored_in(s))


def _reads(s: Stmt, pointers: Collection[Expr]) -> bool:
    return any(_uses(e, pointers) for e in all_exprs(s))


def _uses(e: Expr, pointers: Collection[Expr]) -> bool:
    return (e.buffer.data if isinstance(e, BufferLoad) else e) in pointers
