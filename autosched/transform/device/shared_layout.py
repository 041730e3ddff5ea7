"""The layout of a kernel's shared memory when its buffers are merged into one allocation."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, Expr, Var
from autosched.tir.stmt import Allocate, BufferStore, Stmt
from autosched.tir.walk import stmts, unique_exprs
from autosched.tir.warpgroup_matrix import TILE_ALIGNMENT, WGMMA_TILES
from autosched.transform.device.shared_liveness import live_intervals
from autosched.transform.device.shared_plan import Request, align_up, plan_memory

ALIGNMENT = 16
PLANNER = "auto"


def merged_bytes(kernel: Stmt, scope: str) -> int:
    """The bytes of memory in `scope` that a kernel needs if its buffers share memory.

    Allocations without a constant size count as 0.
    """
    return plan_layout(kernel, scope, ALIGNMENT, PLANNER).total


def saves_bytes(kernel: Stmt, scope: str) -> bool:
    """Whether sharing memory reduces the bytes that a kernel needs in `scope`."""
    sizes = [s.constant_bytes for s in allocations(kernel, scope)]
    if len(sizes) < 2 or None in sizes:
        return False
    return merged_bytes(kernel, scope) < sum(filter(None, sizes))


@dataclass(frozen=True, slots=True)
class Layout:
    """The byte offset of each buffer, and the total in bytes.

    `offsets` holds the buffers that are used and have a constant size. `symbolic` holds the used
    allocations without one, which come behind the others.
    """

    offsets: dict[Var, int]  # buffers with a constant size
    total: int
    symbolic: dict[Var, Allocate]


def allocations(kernel: Stmt, scope: str) -> list[Allocate]:
    """The allocations in `scope`."""
    found = (s for s in stmts(kernel) if isinstance(s, Allocate))
    return [s for s in found if s.buffer_var.scope == scope]


def plan_layout(kernel: Stmt, scope: str, alignment: int, planner: str) -> Layout:
    """Place the buffers in `scope`, each at a multiple of `alignment` and of its element size."""
    sizes: dict[Var, int] = {}
    symbolic: dict[Var, Allocate] = {}
    for s in allocations(kernel, scope):
        size = s.constant_bytes
        if size is None:
            symbolic[s.buffer_var] = s
            continue
        sizes[s.buffer_var] = max(size, sizes.get(s.buffer_var, 0))
    elements = elements_of(kernel, scope)
    live = live_intervals(kernel, (*sizes, *symbolic))
    used = [data for data in sizes if data in live]
    tiles = product_tiles(kernel)
    requests = [
        Request(
            data.name,
            sizes[data],
            alignment_of(
                elements[data], lcm(alignment, TILE_ALIGNMENT) if data in tiles else alignment
            ),
            live[data],
        )
        for data in used
    ]
    plan = plan_memory(requests, planner)
    symbolic = {data: s for data, s in symbolic.items() if data in live}
    total = align_up(plan.total, unit_of(elements))
    return Layout(dict(zip(used, plan.offsets, strict=True)), total, symbolic)


def product_tiles(kernel: Stmt) -> set[Expr]:
    """The pointers to tiles that wgmma reads; these are aligned to eight of their rows."""
    products = (e for e in unique_exprs(kernel) if isinstance(e, Call) and e.op == "ptx_wgmma")
    return {e.args[k] for e in products for k in WGMMA_TILES}


def elements_of(kernel: Stmt, scope: str) -> dict[Var, set[DType]]:
    """The element types with which each allocation is accessed."""
    found: dict[Var, set[DType]] = {}
    for s in stmts(kernel):
        if isinstance(s, Allocate) and s.buffer_var.scope == scope:
            found.setdefault(s.buffer_var, set()).add(s.dtype)
        elif isinstance(s, BufferStore) and s.buffer.data in found:
            found[s.buffer.data].add(s.buffer.dtype)
    for e in unique_exprs(kernel):
        if isinstance(e, BufferLoad) and e.buffer.data in found:
            found[e.buffer.data].add(e.buffer.dtype)
        elif isinstance(e, Call) and e.op == "tvm_access_ptr":
            kind, data = e.args[:2]
            if isinstance(data, Var) and data in found:
                found[data].add(kind.dtype)
    return found


def unit_of(elements: dict[Var, set[DType]]) -> int:
    """The least number of bytes that holds a whole number of elements of each type."""
    return lcm(*(dtype.value_bytes for kinds in elements.values() for dtype in kinds))


def alignment_of(elements: set[DType], least: int) -> int:
    """A multiple of `least`, of each element size, and of the next power of two of each size."""
    sizes = [dtype.value_bytes for dtype in elements]
    return lcm(least, *sizes, *(1 << (size - 1).bit_length() for size in sizes))
