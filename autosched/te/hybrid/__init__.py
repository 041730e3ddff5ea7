"""te.hybrid: tensors that a small Python function computes by loops and assignments.

    @te.hybrid.script
    def running_sum(a):
        b = output_tensor(a.shape, a.dtype)
        total = 0.0
        for i in range(a.shape[0]):
            total += a[i]
            b[i] = total
        return b

    A = te.placeholder((64,), name="A")
    B = running_sum(A)

The function is read, not run: its source becomes the statement of a te.extern, whose loops are as
they are written. `names.py` has what it may call by name.
"""

from autosched.te.hybrid.names import (
    allocate,
    bind,
    const_range,
    grid,
    output_tensor,
    parallel,
    serial,
    unroll,
    vectorize,
)
from autosched.te.hybrid.script import script

__all__ = [
    "allocate",
    "bind",
    "const_range",
    "grid",
    "output_tensor",
    "parallel",
    "script",
    "serial",
    "unroll",
    "vectorize",
]
