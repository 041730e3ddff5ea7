"""Compiles by the NVRTC that the test extra installs; no GPU is needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from autosched import te
from autosched.codegen.nvrtc import Nvrtc, choose, load_nvrtc, nearest_arch
from autosched.driver import lower, lower_to_kernels
from autosched.errors import CompileError, ConfigError
from autosched.runtime.cuda_artifact import cuda_artifact
from autosched.target import cuda_target

REVERSE = """\
extern "C" __global__ void __launch_bounds__(64) reverse(float* __restrict__ a) {
  __shared__ float s[64];
  s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = s[63 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    return load_nvrtc("sm_80")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_cubin_and_its_resources(nvrtc: Nvrtc, arch: str) -> None:
    compiled = nvrtc.compile(REVERSE, arch)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.arch == arch
    found = compiled.resources["reverse"]
    assert found.shared is not None
    assert found.shared >= 256  # sm_90 keeps some for itself
    assert found.registers is not None
    assert 4 < found.registers < 64
    assert (found.stack, found.spill_stores, found.spill_loads) == (0, 0, 0)


def test_truth_values_that_are_only_read(nvrtc: Nvrtc) -> None:
    """They are const, and bytes in memory."""
    A, C = te.placeholder((32,), "bool", name="A"), te.placeholder((32,), name="C")
    B = te.compute((32,), lambda i: te.select(A[i], C[i], te.const(0.0)), name="B")
    sch = te.create_schedule(B.op)
    sch[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    target = cuda_target("sm_80")
    module = lower_to_kernels(lower(sch, [A, C, B], target, "chosen"))
    artifact = cuda_artifact(module, "chosen")
    assert "reinterpret_cast<const signed char*>(A)" in artifact.source
    assert nvrtc.compile(artifact.source, "sm_80", statements=artifact.statements)


def test_ptx_to_read(nvrtc: Nvrtc) -> None:
    text = nvrtc.ptx(REVERSE, "sm_80")
    assert ".target sm_80" in text
    assert "bar.sync" in text


def test_an_error_in_the_source(nvrtc: Nvrtc) -> None:
    source = REVERSE.replace("63 -", "missing -")
    with pytest.raises(CompileError, match='line 5: identifier "missing" is undefined') as caught:
        nvrtc.compile(source, "sm_80", statements={5: "a[t] = s[63 - t]"})
    assert (caught.value.kind, caught.value.line) == ("error", 5)
    assert "made from: a[t] = s[63 - t]" in str(caught.value)


def test_more_shared_memory_than_there_is(nvrtc: Nvrtc) -> None:
    with pytest.raises(CompileError, match="uses too much shared data") as caught:
        nvrtc.compile(REVERSE.replace("s[64]", "s[65536]"), "sm_80")
    assert caught.value.kind == "illegal"


def test_an_option_that_is_wrong(nvrtc: Nvrtc) -> None:
    with pytest.raises(CompileError, match="--no-such-option"):
        nvrtc.compile(REVERSE, "sm_80", ["--no-such-option"])


def test_an_architecture_that_the_library_does_not_know(nvrtc: Nvrtc) -> None:
    with pytest.raises(CompileError, match="makes no code for sm_30, only for sm_") as caught:
        nvrtc.compile(REVERSE, "sm_30")
    assert caught.value.kind == "environment"


def test_options_say_the_architecture_first(nvrtc: Nvrtc) -> None:
    options = nvrtc.options("sm_80", ["--fmad=false"])
    assert options[:3] == ("--gpu-architecture=sm_80", "--std=c++17", "--ptxas-options=-v")
    assert options[-1] == "--fmad=false"
    assert ("--no-cache" in options) == (nvrtc.version >= (12, 9))


@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        ("sm_80", "sm_80"),
        ("sm_89", "sm_86"),
        ("sm_70", None),
        ("sm_101", "sm_100"),
        ("sm_90a", "sm_90a"),
        ("sm_100f", "sm_100f"),
        ("sm_120a", None),
    ],
)
def test_the_nearest_architecture(arch: str, expected: str | None) -> None:
    assert nearest_arch(arch, (75, 80, 86, 90, 100)) == expected


@pytest.mark.parametrize("arch", ["80", "compute_80", "sm_", "ampere", "sm_80a", "sm_90f"])
def test_texts_that_are_no_architecture(arch: str) -> None:
    with pytest.raises(ConfigError, match=f"CUDA architecture: found '{arch}'"):
        nearest_arch(arch, (80,))


@dataclass(frozen=True)
class Library:
    """What `choose` looks at."""

    version: tuple[int, int]
    archs: tuple[int, ...]

    def _unsupported(self, arch: str) -> str:
        return f"{self.version} makes no code for {arch}"


OLD, NEW = Library((12, 9), (70, 80, 90)), Library((13, 5), (80, 90))


def chosen(arch: str, driver: int | None = None, *found: Library) -> tuple[int, int]:
    return choose(cast(tuple[Nvrtc, ...], found or (OLD, NEW)), arch, driver).version


def test_the_newest_library_that_fits_is_chosen() -> None:
    assert chosen("sm_80") == (13, 5)
    assert chosen("sm_70") == (12, 9)
    assert chosen("sm_80", 12) == (12, 9)
    assert chosen("sm_80", 14) == (13, 5)


def test_messages_when_none_fits() -> None:
    with pytest.raises(ConfigError, match=r"makes no code for sm_60"):
        chosen("sm_60")
    with pytest.raises(ConfigError, match=r"NVRTC 13.5 is newer than the driver.*CUDA 12"):
        chosen("sm_80", 12, NEW)
    with pytest.raises(ConfigError, match=r"was not found: install autosched\[cuda-compile\]"):
        choose((), "sm_80", None)


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    path = tmp_path / "libnvrtc.so.13"
    path.write_text("text")
    with pytest.raises(ConfigError, match="NVRTC cannot be loaded"):
        Nvrtc(str(path))


def test_what_was_tried_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_NVRTC", "/nowhere/libnvrtc.so.13")
    with pytest.raises(ConfigError, match=r"was not found: [^$]*/nowhere/libnvrtc.so.13"):
        load_nvrtc("sm_80")
