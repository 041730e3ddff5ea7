"""Helper kernels compile, for old and new architectures, and compare what they should."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from autosched.codegen.nvrtc import load_nvrtc
from autosched.errors import ConfigError
from autosched.runtime.cuda_helpers import compare_name, compare_source, helper_source
from autosched.runtime.fake_device import difference

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
TYPES = (*FLOATS, "int64", "int32", "int8", "uint8", "bool")


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_they_compile_without_stack_or_spills(arch: str) -> None:
    try:
        nvrtc = load_nvrtc(arch)
    except ConfigError as error:
        pytest.skip(str(error))
    found = nvrtc.compile(helper_source(), arch).resources
    assert {"autosched_gate", "autosched_checksum", "autosched_add"} < set(found)
    dtypes = [np.dtype(getattr(ml_dtypes, t, None) or t) for t in TYPES]
    assert {compare_name(d) for d in dtypes} < set(found)
    assert all(not (used.stack or used.spill_stores) for used in found.values())


def test_a_type_without_a_kernel() -> None:
    with pytest.raises(KeyError):
        compare_name(np.dtype("complex64"))


# Threads of a grid one after the other: the kernel waits for none.
_SHIM = """
#include <cmath>
#include <cstring>
struct Index { unsigned x; };
static Index threadIdx, blockIdx, blockDim{3}, gridDim{2};
#define __global__
#define __device__
static int __float_as_int(float x) { int i; memcpy(&i, &x, 4); return i; }
static float __int_as_float(int i) { float x; memcpy(&x, &i, 4); return x; }
typedef unsigned long long word;
static void atomicMax(int* at, int x) { if (x > *at) *at = x; }
static void atomicMin(word* at, word x) { if (x < *at) *at = x; }
static void atomicAdd(word* at, word x) { *at += x; }
"""
_RUN = """
extern "C" void run(const TYPE* got, const TYPE* want, word count, double relative, double absolute,
                    double rounding, word* result) {
  for (blockIdx.x = 0; blockIdx.x < 2; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < 3; ++threadIdx.x)
      autosched_compare_NAME(got, want, count, relative, absolute, rounding, result);
}
"""


@pytest.mark.parametrize(("name", "element"), [("float32", "float"), ("int32", "int")])
def test_they_say_what_numpy_says(tmp_path: Path, name: str, element: str) -> None:
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    text = _SHIM + compare_source(name) + _RUN.replace("TYPE", element).replace("NAME", name)
    (tmp_path / "compare.cpp").write_text(text)
    command = ["g++", "-O1", "-shared", "-fPIC", "-o", "compare.so", "compare.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "compare.so"))
    rng = np.random.default_rng(0)
    for count in (1, 6, 40):
        numbers = (4 * rng.standard_normal(count)).astype(name)
        for wrong in ((), (0,), (count - 1,), range(0, count, 2)):
            want = numbers.copy()
            got: Any = (want if name == "int32" else want * np.float32(1.00001)).copy()
            got[list(wrong)] += 3
            if name == "float32" and count == 40:
                got[7], got[[8, 9]], want[9] = np.inf, np.nan, np.nan
                got[10:13] = np.inf, -np.inf, -np.finfo(np.float32).max
                want[10:13] = np.finfo(np.float32).max, np.inf, -np.inf
            for allowed in ((1e-3, 1e-3, 0.0), (1e-9, 1e-9, 0.0), (1e-9, 1e-9, 2e-5), (0.0,) * 3):
                result = np.array([0, np.iinfo(np.uint64).max, 0], np.uint64)
                arrays = [ctypes.c_void_p(a.ctypes.data) for a in (got, want)]
                to = ctypes.c_void_p(result.ctypes.data)
                library.run(*arrays, ctypes.c_uint64(count), *map(ctypes.c_double, allowed), to)
                expected = difference(got, want, allowed)
                assert int(result[0]) == expected.bad
                assert not expected.bad or int(result[1]) == expected.first
                error = result[2:].view(np.float32)[0]
                assert error == pytest.approx(expected.error, rel=1e-5)
