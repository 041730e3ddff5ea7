"""Run modules of a host function and its kernels in the interpreter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched.tir import interp
from autosched.tir.expr import IntImm
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.interp_packed import run_packed
from autosched.tir.packed import PACKED


def run_module(module: IRModule, args: Sequence[Any], host: str = "main") -> Any:
    """Run the host function; its kernel calls run the kernels over all their blocks.

    A host function with packed arguments gets them packed. Returns the result of the host function.
    """
    for name, func in module.functions.items():
        if name != host:
            interp.register_extern(name, _launcher(func))
    func = module[host]
    if func.attrs.get("calling_conv") == PACKED:
        return run_packed(func, args)
    return interp.run(func, args)


def _launcher(kernel: PrimFunc) -> Callable[..., Any]:
    if kernel.attrs.get("calling_conv") == PACKED:
        return lambda *args: run_packed(kernel, args)

    def launch(*args: Any) -> None:
        given: list[Any] = []
        for param, value in zip(kernel.params, args, strict=False):  # sizes of the launch follow
            buffer = kernel.buffer_map.get(param)
            if buffer is None:
                given.append(value)
                continue
            shape = [e.value for e in buffer.shape if isinstance(e, IntImm)]
            flat = np.asarray(value).reshape(-1)
            given.append(flat[: math.prod(shape)].reshape(shape))
        interp.run(kernel, given)

    return launch
