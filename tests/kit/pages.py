"""Arrays whose memory ends, or begins, at a page without access rights.

A load beyond the array ends the process, which is why kernels run in a process of their own.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from kit.types import Array

Edge = Literal["begin", "end"]
EDGES: tuple[Edge, Edge] = ("begin", "end")
_LIBC = ctypes.CDLL(None, use_errno=True)


def at_edge(values: Array, edge: Edge) -> Array:
    """A copy of `values` that begins, or ends, exactly at a page without access rights."""
    page = mmap.PAGESIZE
    inside = -(-values.nbytes // page) * page
    memory = mmap.mmap(-1, inside + 2 * page)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for closed in (first, first + page + inside):
        if _LIBC.mprotect(ctypes.c_void_p(closed), ctypes.c_size_t(page), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = page if edge == "begin" else page + inside - values.nbytes
    found: Array = np.ndarray(values.shape, values.dtype, memory, start)
    found[...] = values
    return found


def outcome_at_edges(
    kernel: Callable[..., object], inputs: Sequence[Array], outputs: Sequence[Array]
) -> list[str]:
    """The outcomes of `kernel(*inputs, *outputs)` in a separate process, one for each edge.

    An outcome is "same" if the kernel leaves `outputs`, "different" or "an error" if not, or the
    number of the signal that ended the process.
    """
    found = []
    for edge in EDGES:
        child = os.fork()
        if not child:
            code = 2
            try:
                arrays = [at_edge(a, edge) for a in inputs]
                wrong = [at_edge(np.zeros_like(a), edge) for a in outputs]
                kernel(*arrays, *wrong)
                same = [a.tobytes() == b.tobytes() for a, b in zip(wrong, outputs, strict=True)]
                code = 0 if all(same) else 1
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            found.append(f"signal {os.WTERMSIG(status)} at the {edge}")
        else:
            found.append(("same", "different", "an error")[os.WEXITSTATUS(status)])
    return found
