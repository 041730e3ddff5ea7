"""Profiled kernels: what is counted and what is summed up."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.runtime.profile import ProfiledKernel
from autosched.target import cpu_target
from autosched.tir import interp
from autosched.tir.parser import parse_func

TEXT = """\
def main(A: Buffer((65536,), float32), B: Buffer((4096,), float32)):
    start_profile_intrinsic(7)
    for i in range(16):
        start_profile_intrinsic(30)
        for j in range(4096):
            A[i * 4096 + j] = A[i * 4096 + j] * 0.5 + 1.0
        end_profile_intrinsic(30)
        if i < 5:
            start_profile_intrinsic(31)
            for j in parallel(4096):
                B[j] = A[i * 4096 + j]
            end_profile_intrinsic(31)
    end_profile_intrinsic(7)
"""


def test_counts_are_exact_and_times_add_up() -> None:
    func = parse_func(TEXT)
    kernel = ProfiledKernel(func, cpu_target(2))
    a, b = np.ones(65536, np.float32), np.zeros(4096, np.float32)
    profile = kernel.profile(a, b, seconds=0.01)
    whole, first, second = profile.parts
    assert [p.number for p in profile.parts] == [7, 30, 31]
    assert [p.calls for p in profile.parts] == [1, 16, 5]
    assert [p.text for p in profile.parts] == [
        "for i in range(16)",
        "for j in range(4096)",
        "for j in parallel(4096)",
    ]
    assert [p.depth for p in profile.parts] == [0, 1, 1]
    assert [p.stores for p in profile.parts] == [("A", "B"), ("A",), ("B",)]
    assert first.seconds > 0 and second.seconds > 0
    assert first.seconds + second.seconds <= whole.seconds * 1.01
    # By another clock, whose ticks are known to a thousandth of 5 ms.
    assert whole.seconds <= profile.seconds * 1.1


def test_the_kernel_computes_what_it_did() -> None:
    func = parse_func(TEXT)
    rng = np.random.default_rng(0)
    inputs = [rng.random(65536, np.float32), rng.random(4096, np.float32)]
    compiled, interpreted = ([a.copy() for a in inputs] for _ in range(2))
    ProfiledKernel(func, cpu_target(2)).kernel(*compiled)
    interp.run(func, interpreted)
    np.testing.assert_array_equal(compiled[1], interpreted[1])


def test_a_function_without_brackets_is_refused() -> None:
    plain = parse_func("def main(A: Buffer((4,), float32)):\n    A[0] = 1.0\n")
    with pytest.raises(ConfigError, match="nothing in main is timed; run InstrumentProfileIntri"):
        ProfiledKernel(plain, cpu_target(1))
