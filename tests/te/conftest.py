"""Running a schedule through the interpreter and comparing with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pytest

from autosched.runtime.cpu import build_artifact, load
from autosched.target import cpu_target
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.operation import PlaceholderOp
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.tir.expr import Call
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import AttrStmt
from autosched.tir.walk import all_exprs, stmts
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import CPU_PIPELINE, GPU_PIPELINE
from kit.tir import value_of, verified_passes
from kit.types import Array, Check, Reference

TARGET = cpu_target(threads=2)


def is_gpu(func: PrimFunc) -> bool:
    """Whether `func` has threads of a GPU."""
    threads = ("thread_extent", "virtual_thread")
    return any(isinstance(s, AttrStmt) and s.key in threads for s in stmts(func.body))


def optimised(func: PrimFunc) -> PrimFunc:
    """`func` after all passes: those for a GPU when it has threads."""
    return Sequential(GPU_PIPELINE if is_gpu(func) else CPU_PIPELINE)(func)


def compiles(func: PrimFunc) -> bool:
    """Whether the CPU's code generator takes `func`."""
    calls = (e for e in all_exprs(func.body) if isinstance(e, Call))
    return not is_gpu(func) and not any(c.op == "call_extern" for c in calls)


def random_arrays(args: Sequence[Tensor], seed: int = 0) -> list[Array]:
    """One array per tensor: small integers, so that sums in any order are exact; outputs 77."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for tensor in args:
        shape, dtype = [value_of(extent) for extent in tensor.shape], tensor.dtype.numpy
        if isinstance(tensor.op, PlaceholderOp):
            arrays.append(rng.integers(-4, 5, shape).astype(dtype))
        else:
            arrays.append(np.full(shape, 77, dtype))
    return arrays


@pytest.fixture(autouse=True)
def _verified_passes() -> Iterator[None]:
    """Every function that a pass makes in these tests must be well formed."""
    with verified_passes():
        yield


@pytest.fixture
def check() -> Check:
    """check(schedule, args, reference): the outputs equal what reference(*inputs) returns.

    As lowered from the schedule, again after all passes, and (on a CPU, without calls of Python)
    from the compiled kernel.
    """

    def check_schedule(schedule: Schedule, args: Sequence[Tensor], reference: Reference) -> None:
        func = schedule_to_prim_func(schedule, args)
        last = optimised(func)
        runs: list[Callable[[list[Array]], object]] = [
            partial(interp.run, func),
            partial(interp.run, last),
        ]
        if compiles(last):
            runs.append(lambda arrays: load(build_artifact(last, TARGET, "light"))(*arrays))
        is_input = [isinstance(tensor.op, PlaceholderOp) for tensor in args]
        for run in runs:
            arrays = random_arrays(args)
            inputs = [a for a, given in zip(arrays, is_input, strict=True) if given]
            outputs = [a for a, given in zip(arrays, is_input, strict=True) if not given]
            expected = reference(*inputs)
            run(arrays)
            if not isinstance(expected, tuple):
                expected = (expected,)
            assert len(outputs) == len(expected)
            for got, want in zip(outputs, expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

    return check_schedule
