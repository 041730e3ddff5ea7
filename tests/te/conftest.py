"""Running a schedule through the interpreter and comparing with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.te.operation import PlaceholderOp
from autosched.te.to_prim_func import schedule_to_prim_func
from autosched.tir import interp
from autosched.tir.stmt import AttrStmt
from autosched.tir.walk import stmts
from autosched.transform.pipeline import CPU_PIPELINE, GPU_PIPELINE


def optimised(func):
    """`func` after all passes: those for a GPU when it has threads."""
    threads = ("thread_extent", "virtual_thread")
    gpu = any(isinstance(s, AttrStmt) and s.key in threads for s in stmts(func.body))
    for transform in GPU_PIPELINE if gpu else CPU_PIPELINE:
        func = transform(func)
    return func


def random_arrays(args, seed=0):
    """One array per tensor: small integers, so that sums in any order are exact; outputs 77."""
    rng = np.random.default_rng(seed)
    arrays = []
    for tensor in args:
        shape, dtype = [extent.value for extent in tensor.shape], tensor.dtype.numpy
        if isinstance(tensor.op, PlaceholderOp):
            arrays.append(rng.integers(-4, 5, shape).astype(dtype))
        else:
            arrays.append(np.full(shape, 77, dtype))
    return arrays


@pytest.fixture
def check():
    """check(schedule, args, reference): the outputs equal what reference(*inputs) returns.

    As lowered from the schedule, and again after all passes.
    """

    def check_schedule(schedule, args, reference):
        func = schedule_to_prim_func(schedule, args)
        is_input = [isinstance(tensor.op, PlaceholderOp) for tensor in args]
        for stage in (func, optimised(func)):
            arrays = random_arrays(args)
            inputs = [a for a, given in zip(arrays, is_input, strict=True) if given]
            outputs = [a for a, given in zip(arrays, is_input, strict=True) if not given]
            expected = reference(*inputs)
            interp.run(stage, arrays)
            if not isinstance(expected, tuple):
                expected = (expected,)
            assert len(outputs) == len(expected)
            for got, want in zip(outputs, expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

    return check_schedule
