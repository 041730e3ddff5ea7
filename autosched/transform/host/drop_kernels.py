"""DropKernels: remove the kernels that the host code launches from its module.

On modules, {main, main_kernel} with calling_conv 2 of main_kernel becomes {main}.

before:
    def main(A: Buffer((16,), float32)):
        A[0] = 0.0
unchanged:
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.function import PrimFunc
from autosched.tir.packed import DEVICE_KERNEL
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class DropKernels(FunctionPass):
    """Remove the functions that LowerDeviceKernelLaunch marked as kernels from a module."""

    name: ClassVar[str] = "DropKernels"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc | None:
        return None if func.attrs.get("calling_conv") == DEVICE_KERNEL else func
