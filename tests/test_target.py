"""Targets and hardware parameters."""

import json
import platform
from dataclasses import replace
from typing import Any

import pytest

from autosched.cpu_features import enabled
from autosched.driver import pipeline_of
from autosched.errors import ConfigError
from autosched.features.autosched_1.machine import machine_of
from autosched.nest.core import Core
from autosched.search.space import SearchSpace
from autosched.target import (
    HardwareParams,
    Target,
    cpu_target,
    cuda_target,
    make_target,
    require_threads,
)
from autosched.task import Task

X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="these are CPUs of x86-64")


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_target_survives_json(kind: str) -> None:
    target = make_target(kind)
    assert Target.from_json(json.loads(json.dumps(target.to_json()))) == target


def test_defaults_are_ansors() -> None:
    assert HardwareParams.default("cpu", threads=4).as_list() == [4, 64, 64, 0, 0, 0, 0, 0]
    cuda = HardwareParams.default("cuda").as_list()
    assert cuda == [-1, 16, 64, 49152, 2**31 - 1, 1024, 8, 32]


def test_fields_can_be_overridden() -> None:
    target = make_target("cpu", threads=3, num_cores=12, cache_line_bytes=128)
    assert target.threads == 3
    assert target.hardware.as_list()[:3] == [12, 64, 128]


def test_arrays_of_a_thread_fit_its_registers() -> None:
    """Or what the user says where that is less."""
    assert make_target("cuda").hardware.local_memory_limit == 1020
    assert make_target("cuda", max_local_memory_per_block=512).hardware.local_memory_limit == 512


def test_wrong_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="found 'tpu', expected cpu or cuda"):
        make_target("tpu")
    with pytest.raises(ConfigError, match="'cores' is unknown; expected one of cache_line_bytes"):
        make_target("cpu", cores=3)
    with pytest.raises(ConfigError, match="expected 8 integers, found 2"):
        HardwareParams.from_list([1, 2])
    wrong: Any = ["-1"] * 8
    with pytest.raises(ConfigError, match="hardware parameters: expected an integer, found '-1'"):
        HardwareParams.from_list(wrong)
    with pytest.raises(ConfigError, match="hardware parameters: expected a list, found 'list'"):
        wrong = "list"
        HardwareParams.from_list(wrong)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("vector_bytes", 7, "target: vector_bytes: expected a power of two, found 7"),
        ("num_cores", -1, "hardware: num_cores: expected 1 to 2147483647 for a CPU, found -1"),
    ],
)
def test_records_of_impossible_cpus_are_refused(key: str, value: int, message: str) -> None:
    data = cpu_target(2).to_json()
    (data["hardware"] if key in data["hardware"] else data)[key] = value
    with pytest.raises(ConfigError, match=message):
        Target.from_json(data)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threads": 0}, "threads: expected at least 1, found 0"),
        ({"threads": "4"}, "threads: expected an integer, found '4'"),
        ({"cache_line_bytes": "64"}, "hardware: cache_line_bytes: expected an integer, found '64'"),
        ({"cache_line_bytes": 0}, "hardware: cache_line_bytes: expected 1 to 2147483647, found 0"),
    ],
)
def test_numbers_that_no_machine_has_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cpu_target(**given)
    if "threads" not in given:
        with pytest.raises(ConfigError, match=message):
            cuda_target(**given)


@pytest.mark.parametrize(
    ("arch", "kib"),
    [
        ("", 48),
        ("sm_61", 48),
        ("sm_72", 96),
        ("sm_75", 64),
        ("sm_80", 163),
        ("sm_88", 99),
        ("sm_90a", 227),
        ("sm_101a", 227),
        ("sm_103f", 227),
        ("sm_107", 227),  # not known: the least of its generation
        ("sm_110", 227),
        ("sm_121a", 99),
        ("sm_84", 99),
        ("sm_130", 48),
        ("sm_999", 48),
    ],
)
def test_shared_memory_of_a_block(arch: str, kib: int) -> None:
    target = Target("cuda", HardwareParams.default("cuda"), arch=arch)
    assert target.opt_in_shared_memory == kib << 10
    assert target.shared_memory_limit == kib << 10


@pytest.mark.parametrize("arch", ["sm90", "90", "SM_90", "sm_090", "sm_90 ", "sm_80a", "sm_90A"])
def test_what_is_no_architecture(arch: str) -> None:
    """Such a target would be one of a GPU of which nothing is known."""
    with pytest.raises(ConfigError, match=f"target.arch: found '{arch}', expected"):
        cuda_target(arch)
    with pytest.raises(ConfigError, match=f"target.arch: found '{arch}', expected"):
        make_target("cuda", arch=arch)
    with pytest.raises(ConfigError, match=f"target.arch: found '{arch}', expected"):
        Target.from_json({**cuda_target().to_json(), "arch": arch})
    for known in ("", "sm_50", "sm_90a", "sm_100f", "sm_121"):
        assert Target.from_json({**cuda_target().to_json(), "arch": known}).arch == known


def test_the_cpu_is_detected() -> None:
    target = make_target("cpu")
    assert target.cpu
    assert target.vector_bytes in (16, 32, 64)
    assert target.threads >= 1
    assert str(target.threads) in str(target)


def test_more_threads_than_the_pool_has_room_for_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the machine has as many; what is detected is cut instead."""
    monkeypatch.setattr("autosched.target.hardware_threads", lambda: 5000)
    monkeypatch.setattr("autosched.target.usable_cores", lambda: 2500)
    require_threads("target.threads", 1024)
    with pytest.raises(ConfigError, match=r"threads: expected at most 1024, which is what"):
        require_threads("target.threads", 1025)
    assert make_target("cpu").threads == 1024


@pytest.mark.parametrize(
    ("vector_bytes", "triple", "registers"),
    [
        (16, "x86_64-unknown-linux-gnu", 16),
        (16, "aarch64-unknown-linux-gnu", 32),
        (32, "x86_64-unknown-linux-gnu", 16),
        (64, "x86_64-unknown-linux-gnu", 32),
    ],
)
def test_processors_have_so_many_vector_registers(
    vector_bytes: int, triple: str, registers: int
) -> None:
    """SSE's were taken for NEON's, which are as wide and twice as many."""
    target = replace(cpu_target(1), cpu="some", vector_bytes=vector_bytes, triple=triple)
    assert target.vector_registers == registers
    passes = {p.name: p for p in pipeline_of(target)}
    for name in ("PromoteAccumulators", "VectorizeInnermost", "FuseReductions", "SeparateWindows"):
        assert getattr(passes[name], "registers") == registers
    assert machine_of(target).core == Core(vector_bytes, registers)
    task = replace(Task.from_workload("matmul", M=8, N=8, K=8), target=target)
    assert SearchSpace(task).context.core == Core(vector_bytes, registers)


@X86
def test_a_cpu_may_be_chosen() -> None:
    own, target = cpu_target(2), cpu_target(2, "x86-64-v3")
    assert str(target) == "cpu (x86-64-v3, 2 threads, 256-bit vectors)"
    assert (target.caches, target.hardware, target.triple) == (own.caches, own.hardware, own.triple)
    assert {"avx2"} <= enabled(target.features)
    assert Target.from_json(json.loads(json.dumps(target.to_json()))) == target
    assert "chosen_cpu" not in own.to_json()
    assert make_target("cpu", threads=2, cpu="x86-64-v3") == target
    tasks = [Task.from_workload("matmul", M=8, N=8, K=8, target=t) for t in (own, target)]
    assert tasks[1].name == "matmul(M=8, N=8, K=8), code for x86-64-v3"
    assert tasks[0].key != tasks[1].key == Task.from_json(tasks[1].to_json()).key


@pytest.mark.parametrize("cpu", ["none", "x86-64-v3 ", 3])
def test_a_cpu_that_llvm_does_not_know(cpu: Any) -> None:
    with pytest.raises(ConfigError, match=r"^target.cpu: (LLVM makes no code for|expected a name)"):
        cpu_target(cpu=cpu)


def test_no_cpu_is_chosen_for_a_gpu() -> None:
    with pytest.raises(ConfigError, match=r"target.cpu: expected a target of kind cpu, found cuda"):
        make_target("cuda", cpu="x86-64-v3")
