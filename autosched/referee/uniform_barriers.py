"""Proofs that all threads reach the barriers of a block, and all lanes the operations of a warp.

This holds if no condition or loop bound around such a statement depends on the thread, or on
memory, from which threads may read different values.
"""

from __future__ import annotations

from collections.abc import Iterator

from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, StringImm, Var
from autosched.tir.gpu import WARP
from autosched.tir.stmt import AttrStmt, Evaluate, For, IfThenElse, LetStmt, Stmt, While
from autosched.tir.walk import child_stmts, stmts

_OF_A_WARP = frozenset(
    (
        *("ptx_mma", "ptx_ldmatrix", "tvm_mma_sync", "tvm_fill_fragment"),
        *("tvm_load_matrix_sync", "tvm_store_matrix_sync", "ptx_mma_fill", "ptx_mma_store"),
        *("ptx_wgmma", "ptx_wgmma_wait"),
    )
)


def uneven_barriers(kernel: AttrStmt) -> list[Stmt]:
    """The barriers and warp-wide operations that some threads may not reach."""
    return list(_Finder(kernel).uneven(kernel, False, False))


class _Finder:
    def __init__(self, kernel: AttrStmt) -> None:
        extents = dict(_threads(kernel))
        row = extents.get("threadIdx.x", 1)
        self._axes = {tag for tag, extent in extents.items() if extent != 1}
        # If rows are whole warps, the other axes are equal within a warp.
        self._lanes = {"threadIdx.x"} & self._axes if row and row % WARP == 0 else self._axes
        self._differs: set[Var] = set()  # variables that differ between threads
        self._in_warp: set[Var] = set()  # variables that differ between lanes

    def uneven(self, s: Stmt, block: bool, warp: bool) -> Iterator[Stmt]:
        """The uneven statements in `s`; `block` and `warp` tell whether threads have diverged."""
        heads: tuple[Expr, ...] = ()
        match s:
            case Evaluate(Call() as call):
                if (block and _is_barrier(call, "shared")) or (warp and _is_of_warp(call)):
                    yield s
                return
            case AttrStmt(key="thread_extent"):
                tag = s.node.thread_tag or s.node.var.name
                if tag in self._axes:
                    self._differs.add(s.node.var)
                if tag in self._lanes:
                    self._in_warp.add(s.node.var)
            case LetStmt():
                self._bind(s.var, (s.value,))
            case IfThenElse() | While():
                heads = (s.condition,)
            case For():
                heads = (s.min, s.extent)
                self._bind(s.loop_var, heads)
        block |= any(_depends(e, self._differs) for e in heads)
        warp |= any(_depends(e, self._in_warp) for e in heads)
        for child in child_stmts(s):
            yield from self.uneven(child, block, warp)

    def _bind(self, var: Var, values: tuple[Expr, ...]) -> None:
        for found in (self._differs, self._in_warp):
            if any(_depends(e, found) for e in values):
                found.add(var)


def _threads(kernel: AttrStmt) -> Iterator[tuple[str, int]]:
    """The thread axes of a block with their extents; 0 for an extent that is not constant."""
    for s in stmts(kernel):
        if isinstance(s, AttrStmt) and s.key == "thread_extent":
            tag = s.node.thread_tag or s.node.var.name
            if tag.startswith("threadIdx."):
                yield tag, s.value.value if isinstance(s.value, IntImm) else 0


def _depends(e: Expr, variables: set[Var]) -> bool:
    """True if `e` may have different values where `variables` have different values."""
    if isinstance(e, Call) and e.op == "tvm_thread_invariant":
        return False
    if isinstance(e, Call) and e.op == "ptx_lane_id":
        return bool(variables)
    if isinstance(e, BufferLoad) or (isinstance(e, Var) and e in variables):
        return True
    return any(_depends(child, variables) for child in e.children())


def _is_barrier(call: Call, scope: str) -> bool:
    if call.op != "tvm_storage_sync" or not isinstance(call.args[0], StringImm):
        return False
    return call.args[0].value.partition(".")[0] == scope


def _is_of_warp(call: Call) -> bool:
    return call.op in _OF_A_WARP or _is_barrier(call, "warp")
