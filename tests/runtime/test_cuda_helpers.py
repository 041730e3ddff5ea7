"""Helper kernels compile, for old and new architectures."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from autosched.codegen.nvrtc import load_nvrtc
from autosched.errors import ConfigError
from autosched.runtime.cuda_helpers import compare_name, helper_source

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
