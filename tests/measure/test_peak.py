"""The measured peak: code for every width, a plausible rate, types without one."""

import platform
import re
from dataclasses import replace

import pytest

from autosched.codegen.llvm_compile import assembly
from autosched.measure.measurer import Measurer
from autosched.measure.peak import float16_peak, peak_flops, peak_ir
from autosched.target import cpu_target
from autosched.task import Task


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fused", [True, False])
def test_nothing_is_optimised_away(dtype: str, fused: bool) -> None:
    target = cpu_target(1)
    code = assembly(peak_ir(target.vector_bytes, dtype, fused=fused), target, "full")
    operations = [line for line in code.splitlines() if re.search("fm[al]|mul", line)]
    assert len(operations) >= 12


@pytest.mark.parametrize("machine", ["aarch64", "arm64"])
def test_arm_has_more_multiply_adds_under_way(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four units of four cycles; `w` is ARM's constraint for a vector register."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    text = peak_ir(16, "float32", fused=True)
    assert text.count("call <4 x float> @llvm.fma") == 24
    assert text.count('"w"(<4 x float>') == 24


def test_peak_of_this_machine() -> None:
    single, double = (peak_flops(cpu_target(1), dtype) for dtype in ("float32", "float64"))
    assert single is not None and double is not None
    assert single > 1e9 and double > 5e8
    assert peak_flops(cpu_target(1), "int32") is None


def test_sums_of_float16_have_a_peak_where_instructions_add_them() -> None:
    """AVX512-FP16 adds up twice as many numbers at once as AVX-512 does of float32."""
    here = cpu_target(1)
    if float16_peak(here) is not None:
        code = assembly(peak_ir(here.vector_bytes, "float16", fused=True), here, "full")
        assert sum("ph\t" in line and "vfm" in line for line in code.splitlines()) >= 12
    assert float16_peak(replace(here, features="+avx512f")) is None


def test_the_measurer_asks_once_for_each_type() -> None:
    task = Task.from_workload("matmul", M=8, N=8, K=8)
    other = Task.from_workload("matmul", M=8, N=8, K=16)
    whole = Task.from_workload("matmul", M=8, N=8, K=8, dtype="int32")
    with Measurer.create(workers=1) as measurer:
        found = measurer.peak(task)
        assert found is not None and found > 0
        assert measurer.peak(other) == found
        assert measurer.peak(whole) is None
