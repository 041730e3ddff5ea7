"""Which memory of a function can be analysed, and what a statement does to memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from autosched.tir.buffer import Buffer
from autosched.tir.expr import Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import loads_in, pointers_in
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, LetStmt, Stmt
from autosched.tir.walk import direct_exprs, stmts
from autosched.transform.expressions.effects import has_side_effect


@dataclass(slots=True, eq=False)
class Memory:
    """The pointers whose memory is followed; `private` is the subset not visible outside.

    Memory is followed if only loads and stores of buffers over its own pointer access it:
    allocations, and parameters without aliases. In a kernel only thread-local allocations are
    followed, because other threads may access the rest.
    """

    followed: set[Var]
    private: set[Var]


def memory_of(func: PrimFunc) -> Memory:
    """Find the memory of `func` that can be followed."""
    allocated: set[Var] = set()
    handed_on: set[Var] = set()
    in_kernel = lets_pointer = False
    for s in stmts(func.body):
        if isinstance(s, Allocate):
            allocated.add(s.buffer_var)
        elif isinstance(s, LetStmt):
            lets_pointer = lets_pointer or s.var.dtype.is_handle
        elif isinstance(s, AttrStmt):
            in_kernel = in_kernel or s.key in ("thread_extent", "virtual_thread")
            if s.key in ("volatile_scope", "extern_scope"):
                node = s.node.data if isinstance(s.node, Buffer) else s.node
                handed_on |= {node} if isinstance(node, Var) else allocated
        for e in direct_exprs(s):
            handed_on.update(pointers_in(e))
    private = {v for v in allocated - handed_on if not in_kernel or v.scope == "local"}
    if in_kernel or lets_pointer or not func.noalias:
        return Memory(private, private)
    parameters = {b.data for b in func.buffer_map.values()} - handed_on
    return Memory(private | parameters, private)


@dataclass(slots=True, eq=False)
class Touched:
    """Everything that a statement and its children may do to memory.

    `reads` are the pointers that are loaded from and `stores` all stores. `is_opaque` is set if an
    expression has a side effect, so that it may access any memory that is not private.
    """

    reads: set[Var] = field(default_factory=set)
    stores: list[BufferStore] = field(default_factory=list)
    is_opaque: bool = False

    def writes(self, data: Var) -> int:
        """The number of stores to `data`."""
        return sum(s.buffer.data is data for s in self.stores)


def touched(stmt: Stmt) -> Touched:
    """Collect the memory accesses of `stmt` and all its children."""
    found = Touched()
    for s in stmts(stmt):
        if isinstance(s, BufferStore):
            found.stores.append(s)
        for e in direct_exprs(s):
            found.reads |= {load.buffer.data for load in loads_in(e)}
            found.is_opaque = found.is_opaque or has_side_effect(e)
    return found


def is_unused(data: Var, body: Stmt) -> bool:
    """True if `body` does not access, declare or annotate `data`.

    `data` must be a pointer that is followed: uses of the pointer by itself are not looked for.
    """
    whole = touched(body)
    if data in whole.reads or whole.writes(data):
        return False
    return not any(
        (isinstance(s, DeclBuffer) and s.buffer.data is data)
        or (isinstance(s, AttrStmt) and data in (s.node, getattr(s.node, "data", None)))
        for s in stmts(body)
    )
