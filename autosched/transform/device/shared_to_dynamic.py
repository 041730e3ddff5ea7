"""SharedToDynamic: request shared memory beyond the static limit of a kernel at its launch.

before:
    def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((32,), float32, "shared")
        T = allocate((32,), float32, "shared")
        S[threadIdx.x] = A[threadIdx.x]
        T[threadIdx.x] = S[31 - threadIdx.x]
        B[threadIdx.x] = T[threadIdx.x]
after SharedToDynamic{static_bytes=128}:
    def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((32,), float32, "shared.dyn")
        T = allocate((32,), float32, "shared.dyn")
        S[threadIdx.x] = A[threadIdx.x]
        T[threadIdx.x] = S[31 - threadIdx.x]
        B[threadIdx.x] = T[threadIdx.x]
unchanged SharedToDynamic{static_bytes=256}:
refused SharedToDynamic{static_bytes=128,limit=192}:
    SharedToDynamic: kernel 1 of main: 256 bytes of shared memory, even merged; at most 192 are
    allowed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import ScheduleError
from autosched.tir.expr import Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import Stmt
from autosched.tir.walk import map_children
from autosched.transform.device.pointers import replace_pointers
from autosched.transform.device.shared_layout import allocations, merged_bytes
from autosched.transform.device.thread_sync import kernels
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

STATIC_BYTES = 49152
"""Static shared memory that a kernel may declare on every GPU, in bytes.

Source: CUDA C++ Programming Guide, compute capabilities.
"""


@dataclass(frozen=True)
class SharedToDynamic(FunctionPass):
    """Make all `shared` memory of a kernel `shared.dyn` if it has more than `static_bytes`.

    Raises ScheduleError if the memory, once merged, has more than `limit` bytes (None: no limit).
    """

    name: ClassVar[str] = "SharedToDynamic"
    static_bytes: int = STATIC_BYTES
    limit: int | None = None

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        new: dict[Stmt, Stmt] = {}
        for number, kernel in enumerate(kernels(func.body), 1):
            if static_shared_bytes(kernel) <= self.static_bytes:
                continue
            new[kernel] = replace_pointers(kernel, _dynamic(kernel))
            found = dynamic_shared_bytes(new[kernel])
            if self.limit is not None and found > self.limit:
                raise ScheduleError(
                    f"SharedToDynamic: kernel {number} of {func.name}: {found} bytes of shared "
                    f"memory, even merged; at most {self.limit} are allowed"
                )

        def go(s: Stmt) -> Stmt:
            return new[s] if s in new else map_children(s, go)

        return func.with_body(go(func.body)) if new else func


def dynamic_shared_bytes(kernel: Stmt) -> int:
    """The bytes of shared memory of a kernel if all of it is dynamic and merged."""
    dynamic = replace_pointers(kernel, _dynamic(kernel))
    return merged_bytes(dynamic, "shared.dyn")


def static_shared_bytes(kernel: Stmt) -> int:
    """The total bytes of allocations in `shared`; those without a constant size count as 0."""
    return sum(s.constant_bytes or 0 for s in allocations(kernel, "shared"))


def _dynamic(kernel: Stmt) -> dict[Var, Var]:
    own = [s.buffer_var for s in allocations(kernel, "shared")]
    return {
        data: pointer(data.name, data.element, "shared.dyn")
        for data in own
        if data.element is not None
    }
