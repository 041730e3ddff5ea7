"""The instructions of the CPU: LLVM's list, and what it leaves out on ARM."""

import platform
import subprocess
from pathlib import Path

import pytest
from llvmlite import binding as llvm

from autosched.cpu_features import enabled, features_of, host_features, vector_bytes_of
from autosched.te.intrin.registry import INSTRUCTIONS

NEOVERSE_V1 = (
    "fp asimd aes atomics fphp asimdhp cpuid asimdrdm sha3 asimddp sve asimdfhm svei8mm svebf16 "
    "i8mm bf16 rng"
)
CORTEX_A55 = "fp asimd aes crc32 atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"


def cpuinfo(tmp_path: Path, *cores: str) -> Path:
    path = tmp_path / "cpuinfo"
    path.write_text(
        "".join(f"processor\t: {k}\nFeatures\t: {words}\n\n" for k, words in enumerate(cores))
    )
    return path


def added(path: Path) -> set[str]:
    llvms = set(llvm.get_host_cpu_features().flatten().split(","))
    return set(host_features(path).split(",")) - llvms


def test_arm_has_what_linux_says(tmp_path: Path) -> None:
    """LLVM says nothing of dot products on a Neoverse, and the search left them out."""
    found = added(cpuinfo(tmp_path, NEOVERSE_V1, NEOVERSE_V1))
    assert found == {"+bf16", "+dotprod", "+fullfp16", "+i8mm"}
    wanted = {
        name for it in INSTRUCTIONS.values() if it.triple == "aarch64" for name in it.features
    }
    assert {f"+{name}" for name in wanted} <= found


def test_what_only_some_cores_have_is_not_used(tmp_path: Path) -> None:
    assert added(cpuinfo(tmp_path, NEOVERSE_V1, CORTEX_A55)) == {"+dotprod", "+fullfp16"}
    assert added(cpuinfo(tmp_path, CORTEX_A55, "fp asimd")) == set()


@pytest.mark.parametrize("name", ["none", "."])
def test_where_linux_says_nothing_it_is_llvms_list(tmp_path: Path, name: str) -> None:
    assert host_features(tmp_path / name) == llvm.get_host_cpu_features().flatten()


X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="these are CPUs of x86-64")


@X86
@pytest.mark.parametrize(
    ("cpu", "there", "missing"),
    [
        ("x86-64", {"sse2", "cx8"}, {"sse3", "avx"}),
        ("x86-64-v3", {"avx2", "fma", "bmi2"}, {"avx512f", "aes"}),
        ("skylake-avx512", {"avx512f", "avx512vl", "aes"}, {"avx512vnni"}),
        ("znver5", {"avx512vnni", "avx512bf16", "avxvnni"}, {"amx-tile", "avx512fp16"}),
    ],
)
def test_other_cpus_have_what_llvm_knows(cpu: str, there: set[str], missing: set[str]) -> None:
    features = features_of(cpu)
    assert features is not None
    named = {word[1:] for word in features.split(",")}
    assert named == {word[1:] for word in host_features().split(",")}
    assert there <= enabled(features) <= named - missing


@X86
@pytest.mark.parametrize("cpu", ["", "none", "i386", "cortex-a72", "native", "znver4 ", 'a"="b'])
def test_what_is_no_cpu_of_this_kind(cpu: str) -> None:
    """Of i386 LLVM makes no 64-bit code: it ends the process."""
    assert features_of(cpu) is None


@X86
def test_vectors_are_as_wide_as_llvm_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all CPUs in one process; a log is read without any."""
    for cpu in ("skylake-avx512", "znver5", "core-avx2", "sandybridge", "nehalem", "x86-64-v2"):
        there = enabled(features_of(cpu) or "")
        width = 64 if "avx512f" in there else 32 if "avx" in there else 16
        assert (cpu, vector_bytes_of(cpu)) == (cpu, width)
    monkeypatch.setattr(subprocess, "run", None)
    assert vector_bytes_of("cortex-a72") == vector_bytes_of("") == 16
