"""VerifyVTCMLimit: refuse functions that need more tightly coupled memory than there is.

before:
    def main(A: Buffer((4,), float32)):
        attrs(target={"kind": "hexagon", "vtcm-capacity": 4096})
        with V = allocate((768,), float32, "global.vtcm"):
            V[0] = A[0]
            A[1] = V[0]
        W = allocate((768,), float32, "global.vtcm")
        W[0] = A[1]
        A[2] = W[0]
unchanged:

before:
    def main(A: Buffer((4,), float32)):
        attrs(target={"kind": "hexagon", "vtcm-capacity": 4096})
        V = allocate((768,), float32, "global.vtcm")
        W = allocate((768,), float32, "global.vtcm")
        V[0] = A[0]
        W[0] = V[0]
        A[1] = W[0]
refused:
    VerifyVTCMLimit: main: the global.vtcm memory allocation limit has been exceeded (allocated
    6144, limit 4096 bytes)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from autosched.errors import ScheduleError
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import Allocate, Stmt
from autosched.tir.walk import child_stmts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.function_target import FunctionTarget, target_of
from autosched.transform.framework.passes import FunctionPass

SCOPE = "global.vtcm"


@dataclass(frozen=True)
class VerifyVTCMLimit(FunctionPass):
    """Compare the peak allocation in `global.vtcm` with the capacity.

    The capacity is the option `vtcm-capacity` (bytes) of a hexagon target, else `tir.vtcm_capacity`
    of the context; 0 means no limit. A function without a target gets `default_target`; if that is
    empty, it is not checked. Allocations without a constant size are not counted. Raises
    ScheduleError if the peak is larger than the capacity.
    """

    name: ClassVar[str] = "VerifyVTCMLimit"
    default_target: str | Mapping[str, Any] = ""

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        target = target_of(func)
        if target is None and self.default_target:
            target = FunctionTarget.of(self.default_target)
        if target is None:
            return func
        limit = target.options.get("vtcm-capacity", 0) if target.kind == "hexagon" else 0
        limit = limit if limit > 0 else ctx.setting("tir.vtcm_capacity")
        used = peak_bytes(func.body)
        if 0 < limit < used:
            raise ScheduleError(
                f"VerifyVTCMLimit: {func.name}: the {SCOPE} memory allocation limit has been "
                f"exceeded (allocated {used}, limit {limit} bytes)"
            )
        return func


def peak_bytes(s: Stmt) -> int:
    """The greatest number of bytes of that memory that are allocated at one time."""
    inside = max(map(peak_bytes, child_stmts(s)), default=0)
    if not isinstance(s, Allocate) or s.buffer_var.scope != SCOPE:
        return inside
    return inside + (s.constant_bytes or 0)
