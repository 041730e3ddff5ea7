"""Which memory of a function can be followed, and what a statement does to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Call, Expr, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import loads_in
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, LetStmt, Stmt
from autosched.tir.walk import direct_exprs, pre_order, stmts
from autosched.transform.expressions.effects import has_side_effect


@dataclass(slots=True, eq=False)
class Memory:
    """Pointers that are followed; of these, `private` ones nobody outside of the function sees.

    Followed is memory that only loads and stores of buffers over its own pointer touch: what is
    allocated, and parameters that alias nothing. In a kernel it is only what each thread has for
    itself, since other threads may read the rest.
    """

    followed: set[Var]
    private: set[Var]


def memory_of(func: PrimFunc) -> Memory:
    """The memory of `func` that can be followed."""
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
            handed_on |= _pointers(e)
    private = {v for v in allocated - handed_on if not in_kernel or v.scope == "local"}
    if in_kernel or lets_pointer or not func.noalias:
        return Memory(private, private)
    parameters = {b.data for b in func.buffer_map.values()} - handed_on
    return Memory(private | parameters, private)


def _pointers(e: Expr) -> set[Var]:
    """Pointers that `e` uses other than by loading from them."""
    found: set[Var] = set()
    for node in pre_order(e):
        if isinstance(node, Var) and node.dtype.is_handle:
            found.add(node)
        elif isinstance(node, Call) and node.op == "address_of":
            found |= {a.buffer.data for a in node.args if isinstance(a, BufferLoad)}
    return found


@dataclass(slots=True, eq=False)
class Touched:
    """What a statement, all of it, may read and write, and which variables it binds."""

    reads: set[Var] = field(default_factory=set)
    stores: list[BufferStore] = field(default_factory=list)
    is_opaque: bool = False

    def writes(self, data: Var) -> int:
        """How many stores to `data` there are."""
        return sum(s.buffer.data is data for s in self.stores)


def touched(stmt: Stmt) -> Touched:
    """What all of `stmt` does to memory; opaque calls may do anything."""
    found = Touched()
    for s in stmts(stmt):
        if isinstance(s, BufferStore):
            found.stores.append(s)
        for e in direct_exprs(s):
            found.reads |= {load.buffer.data for load in loads_in(e)}
            found.is_opaque = found.is_opaque or has_side_effect(e)
    return found


def is_unused(data: Var, body: Stmt) -> bool:
    """True when nothing in `body` accesses, declares or annotates `data`, never handed on."""
    whole = touched(body)
    if data in whole.reads or whole.writes(data):
        return False
    return not any(
        (isinstance(s, DeclBuffer) and s.buffer.data is data)
        or (isinstance(s, AttrStmt) and data in (s.node, getattr(s.node, "data", None)))
        for s in stmts(body)
    )
