"""Accesses to flat memory, the only accesses that code is generated for."""

from __future__ import annotations

from autosched.errors import CompileError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr


def only_index(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """The index of an access to flat memory.

    Raises CompileError if there are several indices, or if the buffer has strides.
    """
    if len(indices) != 1 or buffer.strides:
        what = "strides" if buffer.strides else f"{len(indices)} indices"
        raise CompileError(f"an access to {buffer.name} has {what}: flatten storage first")
    return indices[0]
