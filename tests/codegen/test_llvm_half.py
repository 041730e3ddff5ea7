"""float16 on a CPU that cannot convert it: as NumPy rounds, or any CPU that can."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.codegen.llvm_compile import Level
from autosched.codegen.llvm_half import half_functions
from autosched.driver import lower_func
from autosched.runtime.cpu import build_artifact, load
from autosched.runtime.native import processor
from autosched.target import cpu_target
from autosched.tir.parser import parse_func
from kit.types import Array

OLD = replace(cpu_target(1), cpu="x86-64", features="", vector_bytes=16)
"""As the first of its kind were, and as a virtual machine may say that it is."""
LEVELS = pytest.mark.parametrize("level", ["light", "full"])
X86 = pytest.mark.skipif(processor() != "x86_64", reason="code for x86-64")


def converted(x: Array, dtype: str, level: Level) -> Array:
    """`x` as `dtype`, by a kernel for the old CPU."""
    n = len(x)
    text = f"def main(X: Buffer(({n},), {x.dtype.name}), Y: Buffer(({n},), {dtype})):\n"
    text += f"    for i in range({n}):\n        Y[i] = {dtype}(X[i])\n"
    found = np.zeros(n, dtype)
    load(build_artifact(lower_func(parse_func(text), OLD), OLD, level))(x, found)
    return found


@X86
@LEVELS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_half_is_widened(level: Level, dtype: str) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(converted(halves, dtype, level), halves.astype(dtype))


@X86
@LEVELS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_become_the_nearest_half(level: Level, dtype: str) -> None:
    """Each half, what lies in the middle of two, and what is next to these on either side."""
    halves = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves[-1] = 65536
    some = np.concatenate([halves, (halves[1:] + halves[:-1]) / 2])
    next_to = [np.nextafter(some, np.float32(end)) for end in (-np.inf, np.inf)]
    odd = np.array([np.nan, np.inf, 3e38, 1e-45], np.float32)
    x = np.concatenate([some, *next_to, odd])
    x = np.concatenate([x, -x]).astype(dtype)
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16)
    found = converted(x, "float16", level)
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])


def test_modules_have_what_they_need() -> None:
    assert half_functions("load float", converts=False) == ""
    assert half_functions("load <8 x half>", converts=True) == ""
    both = "load half, fpext double"
    assert "__truncsfhf2" not in half_functions(both, converts=True)
    for name in ("__truncdfhf2", "__truncsfhf2", "__extendhfsf2"):
        assert half_functions(both, converts=False).count(f"@{name}") == 2
