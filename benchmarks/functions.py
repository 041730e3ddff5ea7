"""How long elementwise functions of float32 take: ours, the C library's lane by lane, PyTorch's.

    python benchmarks/functions.py                # every function that is not the library's
    python benchmarks/functions.py sin cos pow

Vectors of this machine's width over numbers that stay in the second cache, one thread; the sides
are called in turns in this process, and medians of `--rounds` turns count. PyTorch is left out
where it is not installed, and of functions that it does not have.
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
from autosched.tir.dtype import float32
from autosched.tir.expr import BufferLoad, IntImm, Ramp, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.intrin import BINARY_MATH
from autosched.tir.stmt import BufferStore, For, ForKind

N = 1 << 15
LIMITS = {"acosh": (1.1, 9.0), "fmod": (0.1, 9.0), "pow": (0.1, 3.0)}
"""Between which numbers are drawn, where not from 0.1 to 0.9."""


def kernel(name: str) -> CpuKernel:
    """out[i] = name(in0[i], ...), one vector at a time."""
    target, count = cpu_target(1), 2 if name in BINARY_MATH else 1
    lanes, i = target.vector_bytes // 4, Var("i")
    buffers = [decl_buffer((N,), float32, f"x{k}") for k in range(count + 1)]
    index = (Ramp(i * lanes, IntImm(1), lanes),)
    value = op.call(name, *(BufferLoad(b, index) for b in buffers[:-1]))
    body = For(
        i, IntImm(0), IntImm(N // lanes), ForKind.SERIAL, BufferStore(buffers[-1], value, index)
    )
    handles = [pointer(b.name, float32) for b in buffers]
    named = dict(zip(handles, buffers, strict=True))
    return load(
        build_artifact(PrimFunc(tuple(handles), body, named, {"global_symbol": "f"}), target)
    )


def pytorch(name: str, inputs: list[Any], out: Any) -> Callable[[], Any] | None:
    """PyTorch's call, or None."""
    with suppress(ImportError, AttributeError):
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        function = getattr(torch, name)
        tensors, result = [torch.from_numpy(x) for x in inputs], torch.from_numpy(out)
        return lambda: function(*tensors, out=result)
    return None


def row(name: str, rounds: int) -> str:
    """A line of the table."""
    random, count = np.random.default_rng(0), 2 if name in BINARY_MATH else 1
    low, high = LIMITS.get(name, (0.1, 0.9))
    inputs = [random.uniform(low, high, N).astype(np.float32) for _ in range(count)]
    out = np.zeros(N, np.float32)
    with mock.patch.multiple(llvm_math, POLYNOMIALS={}, TIERS={}):
        library = kernel(name)
    all_sides = partial(kernel(name), *inputs, out), partial(library, *inputs, out)
    sides = [side for side in (*all_sides, pytorch(name, inputs, out)) if side is not None]
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for call, found in zip(sides, times, strict=True):
            start = time.perf_counter()
            call()
            call()
            found.append((time.perf_counter() - start) / 2 / N * 1e9)
    ours, lanes, *peer = (statistics.median(found) for found in times)
    text = f"{name:7} | {ours:.2f} | {lanes:.2f} | {lanes / ours:.1f}"
    return text + (f" | {peer[0]:.2f} | {peer[0] / ours:.2f}" if peer else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    known = [*llvm_math.POLYNOMIALS, *llvm_math.TIERS]
    if unknown := set(args.names) - set(known):
        parser.error(f"no function {', '.join(sorted(unknown))}: there are {', '.join(known)}")
    print("[ns a number] ours | library | library / ours | PyTorch | PyTorch / ours")
    for name in args.names or known:
        print(row(name, args.rounds), flush=True)


if __name__ == "__main__":
    main()
