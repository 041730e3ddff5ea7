"""Kernels over one array each, compiled and run on the CPU and through the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from autosched.codegen.llvm_compile import Level
from autosched.runtime.cpu import build_artifact, load
from autosched.target import cpu_target
from autosched.tir import interp
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Expr, IntImm, Ramp, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, Stmt
from kit.stmts import loop
from kit.types import Elementwise, MakeKernel, RunKernel


def make_func(body: Stmt, buffers: Sequence[Buffer], name: str = "kernel") -> PrimFunc:
    """A function whose parameters are the buffers."""
    handles = [pointer(f"{b.name}_handle", b.dtype) for b in buffers]
    return PrimFunc(
        tuple(handles),
        body,
        dict(zip(handles, buffers, strict=True)),
        {"global_symbol": name},
    )


@pytest.fixture
def func() -> MakeKernel:
    return make_func


@pytest.fixture
def run() -> RunKernel:
    """Compiles and runs a kernel."""

    def apply(f: PrimFunc, *args: Any, level: Level = "auto") -> None:
        load(build_artifact(f, cpu_target(2), level))(*args)

    return apply


@pytest.fixture
def same_as_interpreted(run: RunKernel) -> RunKernel:
    """Compiles and runs a kernel; asserts that the interpreter writes the same bytes."""

    def apply(f: PrimFunc, *args: Any, level: Level = "auto") -> None:
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        run(f, *args, level=level)
        with np.errstate(all="ignore"):
            interp.run(f, copies)
        for ours, theirs in zip(args, copies, strict=True):
            if isinstance(ours, np.ndarray):
                if ours.dtype.isbuiltin == 2:  # of ml_dtypes: NumPy does not know its NaN
                    with np.errstate(invalid="ignore"):
                        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
                np.testing.assert_array_equal(ours, theirs)

    return apply


@pytest.fixture
def elementwise() -> Elementwise:
    """out[i] = f(in0[i], in1[i], ...) over n elements, `lanes` at a time."""

    def make(
        f: Callable[..., Expr],
        inputs: Sequence[str],
        output: str,
        n: int = 64,
        lanes: int = 1,
    ) -> PrimFunc:
        buffers = [decl_buffer((n,), DType(t), f"in{i}") for i, t in enumerate(inputs)]
        out = decl_buffer((n,), DType(output), "out")
        i = Var("i")
        index = i if lanes == 1 else Ramp(i * lanes, IntImm(1), lanes)
        value = f(*(BufferLoad(b, (index,)) for b in buffers))
        body = loop(i, n // lanes, BufferStore(out, value, (index,)))
        return make_func(body, [*buffers, out])

    return make
