"""The time of elementwise functions: ours, the C library's lane by lane, and PyTorch's.

    python benchmarks/functions.py                # every function that is not the library's
    python benchmarks/functions.py sin cos pow --dtype float64

One thread computes vectors of this machine's width over numbers that stay in the second-level
cache. The implementations are called in turns in this process, and the medians of `--rounds` turns
count. PyTorch is left out if it is not installed, and for functions that it does not have.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from autosched.codegen import llvm_math
from autosched.runtime.cpu import CpuKernel, build_artifact, load
from autosched.target import cpu_target
from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, IntImm, Ramp, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.intrin import BINARY_MATH
from autosched.tir.stmt import BufferStore, For, ForKind

N = 1 << 15
SIDES = ("ours", "library", "PyTorch")
LIMITS = {"acosh": (1.1, 9.0), "fmod": (0.1, 9.0), "pow": (0.1, 3.0)}
"""The range from which arguments are drawn, if it is not 0.1 to 0.9."""


def kernel(name: str, dtype: DType) -> CpuKernel:
    """out[i] = name(in0[i], ...), one vector at a time."""
    target, count = cpu_target(1), 2 if name in BINARY_MATH else 1
    lanes, i = target.vector_bytes * 8 // dtype.bits, Var("i")
    buffers = [decl_buffer((N,), dtype, f"x{k}") for k in range(count + 1)]
    index = (Ramp(i * lanes, IntImm(1), lanes),)
    value = op.call(name, *(BufferLoad(b, index) for b in buffers[:-1]))
    body = For(
        i, IntImm(0), IntImm(N // lanes), ForKind.SERIAL, BufferStore(buffers[-1], value, index)
    )
    handles = [pointer(b.name, dtype) for b in buffers]
    named = dict(zip(handles, buffers, strict=True))
    return load(
        build_artifact(PrimFunc(tuple(handles), body, named, {"global_symbol": "f"}), target)
    )


def pytorch(name: str, inputs: list[Any], out: Any) -> Callable[[], Any] | None:
    """PyTorch's call of the function, or None."""
    with suppress(ImportError, AttributeError):
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        function = getattr(torch, name)
        tensors, result = [torch.from_numpy(x) for x in inputs], torch.from_numpy(out)
        return lambda: function(*tensors, out=result)
    return None


def row(name: str, dtype: DType, rounds: int) -> str:
    """A line of the table."""
    random, count = np.random.default_rng(0), 2 if name in BINARY_MATH else 1
    low, high = LIMITS.get(name, (0.1, 0.9))
    inputs = [random.uniform(low, high, N).astype(dtype.numpy) for _ in range(count)]
    out = np.zeros(N, dtype.numpy)
    ours, out_by_lanes = partial(kernel(name, dtype), *inputs, out), np.zeros_like(out)
    sides: dict[str, Callable[[], Any]] = {"ours": ours}
    if name != "sigmoid":  # the library lacks this function
        nothing: dict[int, dict[str, Any]] = {dtype.bits: {}}
        with mock.patch.multiple(llvm_math, POLYNOMIALS=nothing, TIERS=nothing):
            sides["library"] = partial(kernel(name, dtype), *inputs, out_by_lanes)
    if (peer := pytorch(name, inputs, np.zeros_like(out))) is not None:
        sides["PyTorch"] = peer
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, call in sides.items():
            start = time.perf_counter()
            call()
            call()
            times[side].append((time.perf_counter() - start) / 2 / N * 1e9)
    found = {side: statistics.median(values) for side, values in times.items()}
    text = f"{name:7} | {found['ours']:.2f}"
    for side in SIDES[1:]:
        some = side in found
        text += f" | {found[side]:.2f} | {found[side] / found['ours']:.2f}" if some else " | |"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    args = parser.parse_args()
    dtype = DType(args.dtype)
    known = [*llvm_math.POLYNOMIALS[dtype.bits], *llvm_math.TIERS[dtype.bits]]
    if unknown := set(args.names) - set(known):
        parser.error(f"no function {', '.join(sorted(unknown))}: there are {', '.join(known)}")
    print("[ns a number] ours", *(f"{side} | {side} / ours" for side in SIDES[1:]), sep=" | ")
    for name in args.names or known:
        print(row(name, dtype, args.rounds), flush=True)


if __name__ == "__main__":
    main()
