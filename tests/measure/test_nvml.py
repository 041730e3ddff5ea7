"""NVML: every value may be missing on its own, and so may NVML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from autosched.measure import nvml as source
from autosched.measure.nvml import GpuState, Nvml
from kit.nvml import FakeNvml

FIELDS = {
    "nvmlDeviceGetTemperature": "celsius",
    "nvmlDeviceGetPowerUsage": "watts",
    "nvmlDeviceGetClockInfo": "sm_mhz",
}


def state(module: FakeNvml) -> GpuState:
    nvml = Nvml(lambda: module)
    return nvml.state(nvml.find("GPU-fake"))


def test_all_there() -> None:
    found = state(FakeNvml(reasons=[0x44]))
    assert (found.sm_mhz, found.memory_mhz, found.celsius, found.watts) == (1980, 2619, 41, 350.5)
    assert found.reasons == 0x44


@pytest.mark.parametrize("name", FIELDS)
def test_what_is_not_supported_is_none_and_the_rest_is_there(name: str) -> None:
    found = state(FakeNvml([name]))
    assert getattr(found, FIELDS[name]) is None
    assert found.reasons == 0


def test_older_drivers_have_another_name_for_the_reasons() -> None:
    assert state(FakeNvml(["nvmlDeviceGetCurrentClocksEventReasons"])).reasons == 4


def test_it_is_started_once_and_ended_once() -> None:
    module = FakeNvml()
    nvml = Nvml(lambda: module)
    assert module.calls == []
    for _ in range(2):
        assert nvml.find("GPU-fake") is not None
    for _ in range(2):
        nvml.close()
    assert (module.calls.count("nvmlInit"), module.calls.count("nvmlShutdown")) == (1, 1)
    assert nvml.driver() == "580.65.06"  # asked again it starts again


def test_a_slice_of_a_gpu_is_found() -> None:
    assert Nvml(lambda: FakeNvml(uuids=("MIG-1",))).find("GPU-1") == 0
    assert Nvml(lambda: FakeNvml()).find("GPU-other") is None


def test_settings_and_processes() -> None:
    module = FakeNvml(["nvmlDeviceGetEccMode"], pids=[7, 9])
    nvml = Nvml(lambda: module)
    assert nvml.settings(nvml.find("GPU-fake")) == {
        "ecc": None,
        "mig": False,
        "persistence": True,
        "power_limit_watts": 700.0,
        "max_sm_mhz": 1980,
    }
    assert nvml.processes() == {"GPU-fake": (7, 9)}


def absent() -> Any:
    raise ModuleNotFoundError("no pynvml")


@pytest.mark.parametrize(
    ("load", "why"),
    [
        (absent, "nvidia-ml-py is not installed (pip install nvidia-ml-py)"),
        (lambda: FakeNvml(["nvmlInit"]), "NVML does not start: Not Supported"),
    ],
)
def test_without_it_nothing_is_known(load: Any, why: str) -> None:
    nvml = Nvml(load)
    assert nvml.find("GPU-fake") is None
    assert (nvml.processes(), nvml.driver(), nvml.missing) == ({}, None, why)


def test_the_names_are_those_of_the_package() -> None:
    module = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    names = re.findall(r'"(nvml\w+)"', Path(source.__file__).read_text())
    assert len(names) > 10
    assert [name for name in names if not hasattr(module, name)] == []
    assert (module.NVML_CLOCK_SM, module.NVML_CLOCK_MEM, module.NVML_TEMPERATURE_GPU) == (1, 2, 0)
