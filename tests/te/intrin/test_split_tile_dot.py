"""Numbers of float16 as sums of two of bfloat16, and products of them."""

from __future__ import annotations

import numpy as np

from autosched import te
from autosched.driver import build_func, lower
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.te.intrin.split_tile_dot import part_of
from autosched.tir.interp import run


def test_parts_of_every_finite_number_add_up_to_it() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = np.concatenate([x[np.isfinite(x)], np.zeros(16, np.float16)])
    source = te.placeholder(x.shape, "float16", "x")
    parts = te.compute((2, x.size), lambda h, i: part_of(source[i], h), "parts")
    s = te.create_schedule(parts.op)
    _, inner = s[parts].split(parts.op.axis[1], 16)
    s[parts].vectorize(inner)
    target = cpu_target(1)
    func = lower(s, [source, parts], target)
    found = load(build_func(func, target))(x)
    assert found.dtype.name == "bfloat16"
    high, low = found.astype(np.float64)
    np.testing.assert_array_equal(high + low, x.astype(np.float64))
    interpreted = np.zeros_like(found)
    run(func, [x, interpreted])
    np.testing.assert_array_equal(interpreted.view(np.uint16), found.view(np.uint16))
    assert np.abs(low[low != 0]).min() >= 2.0**-24  # no part is a denormal bfloat16
