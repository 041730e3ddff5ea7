"""Assignment of allocations to shared blocks of memory, and of blocks to places."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain

from autosched.arith import Analyzer
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.op import mul
from autosched.tir.stmt import Allocate, AttrStmt, Stmt
from autosched.transform.storage.inplace import can_run_in_place
from autosched.transform.storage.liveness import Entry, LinearAccess, opens_attach_scope

_MATCH_RANGE = 16
_SMALL_BITS = 32
_REGISTER_BITS = 8 * 2048
"""Up to this size an array may be kept in registers, if it holds one type only."""


@dataclass(slots=True, eq=False)
class Block:
    """Memory that one or more allocations use one after another.

    `attach` is the statement at whose start the block is allocated, None for the function. `bits`
    is its size, None if it is not constant: then all allocations have the same size. The first
    allocation gives the pointer. The allocation with the widest elements gives the type, which
    keeps all others aligned.
    """

    attach: Stmt | None
    scope: str
    dtype: DType
    bits: int | None
    allocations: list[Allocate] = field(default_factory=list)

    @property
    def pointer(self) -> Var:
        return self.allocations[0].buffer_var

    def extents(self) -> tuple[Expr, ...]:
        """The size of the block in elements, large enough for all of its allocations."""
        if len(self.allocations) == 1:
            return self.allocations[0].extents
        if self.bits is not None:
            return (IntImm(-(-self.bits // _width(self.dtype))),)
        return next(a.extents for a in self.allocations if a.dtype is self.dtype)

    def add(self, alloc: Allocate) -> None:
        """Let `alloc` use this memory from now on."""
        if _width(alloc.dtype) > _width(self.dtype):
            self.dtype = alloc.dtype
        self.allocations.append(alloc)


def plan_storage(access: LinearAccess, *, reuse: bool) -> list[Block]:
    """The blocks for the allocations of `access`, in order of first use."""
    planner = _Planner(access, reuse)
    for entry in access.entries:
        planner.entry(entry)
    return planner.blocks


class _Planner:
    def __init__(self, access: LinearAccess, reuse: bool) -> None:
        self.blocks: list[Block] = []
        self._access = access
        self._reuse = reuse
        self._attach: Stmt | None = None
        self._block_of: dict[Var, Block] = {}
        self._taken_over: set[Var] = set()
        # Free blocks of constant size, sorted by size, then by when they became free.
        self._free: list[tuple[int, int, Block]] = []
        self._free_symbolic: list[Block] = []
        self._freed = 0

    def entry(self, entry: Entry) -> None:
        events = self._access.events.get(entry.stmt)
        if events is not None and not entry.is_end:
            in_place = len(events.born) <= 2
            for pointer in events.born:
                source = self._source(entry.stmt, pointer, events.dying) if in_place else None
                alloc = self._access.allocations[pointer]
                block = self._find(alloc) if source is None else self._block_of[source]
                block.add(alloc)
                self._block_of[pointer] = block
        if entry.is_scope and opens_attach_scope(entry.stmt):
            self._switch_scope(entry)
        if events is not None and (entry.is_end or not entry.is_scope):
            for pointer in events.dying:
                if pointer not in self._taken_over:
                    self._release(self._block_of[pointer])

    def _switch_scope(self, entry: Entry) -> None:
        if not entry.is_end:
            if self._attach is None:
                self._attach = entry.stmt
        elif self._attach is entry.stmt:
            self._free = [f for f in self._free if f[2].attach is not entry.stmt]
            self._free_symbolic = [b for b in self._free_symbolic if b.attach is not entry.stmt]
            self._attach = None

    def _source(self, stmt: Stmt, target: Var, dying: list[Var]) -> Var | None:
        """The allocation that dies in `stmt` and that `target` may overwrite in place, or None."""
        alloc = self._access.allocations[target]
        in_kernel = isinstance(self._attach, AttrStmt)
        if not self._reuse or (in_kernel and target.scope != "local"):
            return None
        for source in dying:
            block = self._block_of.get(source)
            if (
                block is not None
                and self._access.allocations[source].dtype is alloc.dtype
                and source not in self._taken_over
                and source is not target
                and self._matches(block, alloc, exact=True)
                and block.bits is not None
                and block.bits == _constant_bits(alloc)
                and can_run_in_place(stmt, target, source)
            ):
                self._taken_over.add(source)
                return source
        return None

    def _matches(self, block: Block, alloc: Allocate, *, exact: bool) -> bool:
        """Whether `alloc` may use the memory of `block`; with `exact` the types must be equal."""
        if block.attach is not self._attach or block.scope != alloc.buffer_var.scope:
            return False
        if block.dtype is alloc.dtype:
            return True
        return not exact and all(map(self._takes_any_type, (alloc, *block.allocations)))

    def _takes_any_type(self, alloc: Allocate) -> bool:
        """True if the memory of `alloc` may hold elements of another type at other times."""
        if alloc.buffer_var in self._access.addressed:
            return False  # code that gets the pointer relies on its element type
        if alloc.buffer_var.scope == "shared":
            return True
        bits = _constant_bits(alloc)
        in_kernel = isinstance(self._attach, AttrStmt)
        return (
            not in_kernel
            and not alloc.dtype.is_storage_float  # its pointer later becomes a pointer to bits
            and alloc.buffer_var.scope in ("", "global")
            and (bits is None or bits > _REGISTER_BITS)
        )

    def _find(self, alloc: Allocate) -> Block:
        bits = _constant_bits(alloc)
        found: Block | None = None
        if self._reuse and not _stays_alone(alloc, bits):
            found = self._find_symbolic(alloc) if bits is None else self._find_free(alloc, bits)
        if found is None:
            found = Block(self._attach, alloc.buffer_var.scope, alloc.dtype, bits)
            self.blocks.append(found)
        return found

    def _find_free(self, alloc: Allocate, bits: int) -> Block | None:
        if not self._free:
            return None
        sizes = [f[0] for f in self._free]
        middle = bisect_left(sizes, bits)
        larger = range(middle, bisect_right(sizes, bits * _MATCH_RANGE))
        smaller = range(middle - 1, bisect_left(sizes, bits // _MATCH_RANGE) - 1, -1)
        for exact in (True, False):
            for k in chain(larger, smaller):
                block = self._free[k][2]
                if self._matches(block, alloc, exact=exact):
                    del self._free[k]
                    assert block.bits is not None
                    block.bits = max(block.bits, bits)
                    return block
        return None

    def _find_symbolic(self, alloc: Allocate) -> Block | None:
        for exact in (True, False):
            for k, block in enumerate(self._free_symbolic):
                if self._matches(block, alloc, exact=exact) and _same_size(block, alloc):
                    del self._free_symbolic[k]
                    return block
        return None

    def _release(self, block: Block) -> None:
        if _stays_alone(block.allocations[-1], block.bits):
            return
        if block.bits is None:
            self._free_symbolic.append(block)
            return
        self._freed += 1
        insort(self._free, (block.bits, self._freed, block), key=lambda f: f[:2])


def _same_size(block: Block, alloc: Allocate) -> bool:
    """True if both provably have the same number of bytes."""
    first, second = map(_bytes, (block.allocations[0], alloc))
    return first.dtype is second.dtype and Analyzer().can_prove_equal(first, second)


def _bytes(alloc: Allocate) -> Expr:
    size: Expr = IntImm(_width(alloc.dtype) // 8, alloc.extents[0].dtype)
    return reduce(mul, alloc.extents, size)


def _width(dtype: DType) -> int:
    """The bits of an element in memory; a bool takes a byte."""
    return 8 * dtype.value_bytes


def _constant_bits(alloc: Allocate) -> int | None:
    size = alloc.constant_bytes
    return None if size is None else 8 * size


def _stays_alone(alloc: Allocate, bits: int | None) -> bool:
    """Whether memory is not reused: local memory and scalars, which go to registers anyway."""
    rank, _, tag = alloc.buffer_var.scope.partition(".")
    if tag:
        return False
    special = rank not in ("", "global", "shared")
    return special or alloc.dtype.is_handle or (bits is not None and bits <= _SMALL_BITS)
