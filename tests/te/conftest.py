"""Running a schedule through the interpreter and comparing with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.te.operation import PlaceholderOp


def run_schedule(schedule, args, seed=0):
    """Lower `schedule`, run it on small random numbers; returns (inputs, outputs) as arrays.

    Values are small integers, so that sums in any order are exact. Outputs start as garbage.
    """
    from autosched.te.to_prim_func import schedule_to_prim_func
    from autosched.tir import interp

    func = schedule_to_prim_func(schedule, args)
    rng = np.random.default_rng(seed)
    inputs, outputs = [], []
    for tensor in args:
        shape = [extent.value for extent in tensor.shape]
        dtype = tensor.dtype.numpy
        if isinstance(tensor.op, PlaceholderOp):
            inputs.append(rng.integers(-4, 5, shape).astype(dtype))
        else:
            outputs.append(np.full(shape, 77, dtype))
    arrays = iter(inputs), iter(outputs)
    ordered = [next(arrays[not isinstance(t.op, PlaceholderOp)]) for t in args]
    interp.run(func, ordered)
    return inputs, outputs


@pytest.fixture
def check():
    """check(schedule, args, reference): the outputs equal what reference(*inputs) returns."""

    def check_schedule(schedule, args, reference):
        inputs, outputs = run_schedule(schedule, args)
        expected = reference(*inputs)
        if not isinstance(expected, tuple):
            expected = (expected,)
        assert len(outputs) == len(expected)
        for got, want in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

    return check_schedule
