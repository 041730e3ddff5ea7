"""What is known of a machine comes from the target alone."""

from dataclasses import replace
from pathlib import Path

from autosched.cpu_caches import TYPICAL, cache_sizes
from autosched.features.autosched_1.machine import machine_of
from autosched.nest.core import Core
from autosched.target import HardwareParams, Target, cpu_target, cuda_target

CPU = Target("cpu", HardwareParams(2), 2, "cascadelake", vector_bytes=64, caches=(1, 2, 3))


def test_caches_are_those_of_the_record() -> None:
    assert machine_of(CPU).caches == (1, 2, 3)
    assert machine_of(Target.from_json(CPU.to_json())) == machine_of(CPU)


def test_a_record_without_caches_has_typical_ones() -> None:
    assert machine_of(replace(CPU, caches=())).caches == TYPICAL


def test_registers_go_by_the_width_of_vectors() -> None:
    assert machine_of(CPU).core == Core(64, 32)
    assert machine_of(replace(CPU, vector_bytes=32)).core == Core(32, 16)


def test_an_ansor_record_tells_the_width_by_its_hardware() -> None:
    hardware = HardwareParams(2, vector_unit_bytes=32)
    assert machine_of(Target("cpu", hardware, 2)).core.vector_bytes == 32


def test_a_gpu_is_known_by_its_architecture() -> None:
    ampere = machine_of(cuda_target("sm_80"))
    assert ampere.caches[0] == 49152
    assert (ampere.gpu, ampere.sm_shared) == (True, 164 * 1024)
    assert machine_of(cuda_target("sm_90")).sm_shared == 228 * 1024
    assert machine_of(cuda_target("sm_999")) == ampere


def test_this_machines_caches_are_recorded() -> None:
    assert cpu_target().caches == cache_sizes()


def test_sizes_as_linux_tells_them(tmp_path: Path) -> None:
    for k, (kind, level, size) in enumerate(
        [("Data", 1, "48K"), ("Instruction", 1, "32K"), ("Unified", 2, "2M")]
    ):
        folder = tmp_path / f"index{k}"
        folder.mkdir()
        for name, value in (("type", kind), ("level", level), ("size", size)):
            (folder / name).write_text(f"{value}\n")
    assert cache_sizes(tmp_path) == (48 * 1024, 2 * 1024**2, TYPICAL[2])
    cache_sizes.cache_clear()
