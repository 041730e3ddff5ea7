"""Which buffer each feature row is about."""

from __future__ import annotations

from autosched.features.walk.scope import BufferInfo
from autosched.features.walk.visitor import Nest
from autosched.tir.expr import Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore


class _Names:
    def __init__(self) -> None:
        self.known: dict[Var, str] = {}
        self.stored: set[Var] = set()

    def store(self, stmt: BufferStore, nest: Nest) -> None:
        self.known.setdefault(stmt.buffer.data, stmt.buffer.name)
        self.stored.add(stmt.buffer.data)

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        self.known.setdefault(data, info.name or data.name)


def in_order_of_store(func: PrimFunc) -> list[str]:
    """The buffers that are stored to, in order of first store: the rows of `autosched-1`."""
    names = _Names()
    Nest(func, names)
    return [name for data, name in names.known.items() if data in names.stored]


def in_reverse(func: PrimFunc) -> list[str]:
    """The buffers that are stored to or allocated, last first: the rows of `ansor-0.19`."""
    names = _Names()
    Nest(func, names)
    return list(reversed(names.known.values()))
