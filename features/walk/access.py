"""The buffers that one store reads and writes."""

from __future__ import annotations

from autosched.features.walk.scope import Access
from autosched.features.walk.visitor import Nest
from autosched.tir.expr import BufferLoad, Expr, Var
from autosched.tir.stmt import BufferStore
from autosched.tir.walk import free_vars

ACCESS_TYPES = READ, WRITE, READ_WRITE = ("kRead", "kWrite", "kReadWrite")


def accesses_of(stmt: BufferStore, nest: Nest) -> list[Access]:
    """Every buffer of the store, in reverse order of appearance, the stored one last.

    A buffer that is both stored and read keeps only the indices of the store. A buffer that is read
    several times keeps all index tuples, duplicates included.
    """
    data = stmt.buffer.data
    found = {data: Access(data, nest.know(stmt.buffer), WRITE, [stmt.indices], frozenset())}
    stack: list[Expr] = [stmt.value]
    while stack:
        node = stack.pop()
        if isinstance(node, BufferLoad):
            access = found.get(node.buffer.data)
            if access is None:
                info = nest.know(node.buffer)
                access = Access(node.buffer.data, info, READ, [], frozenset())
                found[node.buffer.data] = access
            elif access.kind is WRITE:
                access.kind = READ_WRITE
            if access.kind is not READ_WRITE:
                access.indices.append(node.indices)
        stack.extend(reversed(node.children()))
    for access in found.values():
        access.used = frozenset[Var]().union(
            *(free_vars(e) for index in access.indices for e in index)
        )
    return list(reversed(found.values()))
