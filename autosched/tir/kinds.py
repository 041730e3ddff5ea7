"""Finds which node classes and types occur in an expression or statement.

The answer is a set of bits, one for each node class and each type, cached on the node. A pass with
nothing to do finds out at once, and walks skip subtrees without wanted nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, Expr, Var
from autosched.tir.stmt import Allocate, AllocateConst, BufferStore, Stmt
from autosched.tir.walk import child_stmts, direct_exprs, stmts

_POINTER = "pointer"  # the kind of variables that are pointers

_bits: dict[type[Expr] | DType | str, int] = {}
_of_node: dict[tuple[type[Expr], DType], int] = {}


def bits_of(*kinds: type[Expr] | DType) -> int:
    """The bits of node classes (without their subclasses) and types."""
    found = 0
    for kind in kinds:
        found |= _bit(kind)
    return found


def _bit(kind: type[Expr] | DType | str) -> int:
    found = _bits.get(kind)
    if found is None:
        found = _bits[kind] = 1 << len(_bits)
    return found


POINTER = _bit(_POINTER)
"""The bit of variables that are pointers, in addition to the bit of their class."""

_LOADS = bits_of(BufferLoad)
_CALLS = bits_of(Call)


def kinds(e: Expr) -> int:
    """The bits of all nodes in `e`."""
    known: int | None = getattr(e, "_kinds", None)
    if known is not None:
        return known
    own = e.__class__, e.dtype
    found = _of_node.get(own)
    if found is None:
        found = _bit(own[0]) | _bit(own[1])
        if isinstance(e, Var) and e.dtype.is_handle:
            found |= POINTER
        _of_node[own] = found
    for child in e.children():
        found |= kinds(child)
    e._kinds = found
    return found


def kinds_in(s: Stmt) -> int:
    """The bits of all expressions in `s` and its sub-statements, and of allocated types."""
    known: int | None = getattr(s, "_kinds", None)
    if known is not None:
        return known
    found = _bit(s.dtype) if isinstance(s, Allocate | AllocateConst) else 0
    for e in direct_exprs(s):
        found |= kinds(e)
    for child in child_stmts(s):
        found |= kinds_in(child)
    s._kinds = found
    return found


def nodes_with(e: Expr, wanted: int) -> Iterator[Expr]:
    """The different nodes of `e` that are, or contain, a node of the `wanted` kinds.

    They are in the order of first occurrence in pre-order.
    """
    seen: set[Expr] = set()
    stack = [e] if kinds(e) & wanted else []
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        for child in reversed(node.children()):
            if child._kinds & wanted:  # cached, because that of `e` is
                stack.append(child)


def loads_in(e: Expr) -> Iterator[BufferLoad]:
    """The different loads of buffers in `e`, parents first."""
    return (node for node in nodes_with(e, _LOADS) if isinstance(node, BufferLoad))


def direct_loads(s: Stmt) -> Iterator[BufferLoad]:
    """The loads of buffers that `s` itself holds (not its sub-statements)."""
    return (load for e in direct_exprs(s) for load in loads_in(e))


def stored_in(*roots: Stmt) -> set[Var]:
    """The pointers of the buffers that the statements, or those in them, store to."""
    return {s.buffer.data for root in roots for s in stmts(root) if isinstance(s, BufferStore)}


def pointers_in(e: Expr) -> Iterator[Var]:
    """The pointers that `e` uses other than to load from them; also for addresses of elements."""
    for node in nodes_with(e, _CALLS | POINTER):
        if isinstance(node, Var) and node.dtype.is_handle:
            yield node
        elif isinstance(node, Call) and node.op == "address_of":
            yield from (a.buffer.data for a in node.args if isinstance(a, BufferLoad))


def exprs_with(root: Stmt, wanted: int) -> Iterator[Expr]:
    """Every distinct node below `root` that is, or contains, a node of the `wanted` kinds.

    Parents come first, in statement order, as in `walk.unique_exprs`.
    """
    seen: set[Expr] = set()
    for stmt in stmts(root):
        stack = [e for e in direct_exprs(stmt) if kinds(e) & wanted]
        stack.reverse()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            yield node
            for child in reversed(node.children()):
                if child._kinds & wanted:  # cached, because that of its root is
                    stack.append(child)
