"""The process of a fake GPU: real requests and processes, with a FakeDevice at the end."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from autosched.errors import MeasureError
from autosched.measure.gpu_run import GpuSession
from autosched.process.worker import Handler
from autosched.runtime.fake_device import FACTS, Behaviour, FakeDevice
from kit.device import behave

RUNS = "AUTOSCHED_TEST_GPU_RUNS"  # a file to which each cubin is noted at its first launch
BROKEN = (
    "AUTOSCHED_TEST_GPU_BROKEN"  # a file that, while it exists, keeps new processes from working
)


class FakeSession(GpuSession):
    """A session in which the device's kernels write the task's expected outputs."""

    def __init__(self, device: FakeDevice, names: Sequence[str] = ()) -> None:
        super().__init__(lambda: device, lambda: list(names))
        self.fake = device

    def _set_expected(self, arrays: Sequence[npt.NDArray[Any]]) -> None:
        super()._set_expected(arrays)
        assert self._slab is not None
        for name, array in zip(self._outputs, arrays, strict=True):
            self.fake.answers[self._slab.address[name]] = array.tobytes()

    def handle(self, request: tuple[Any, ...]) -> Any:
        if request[0] == "load" and RUNS in os.environ:
            with Path(os.environ[RUNS]).open("a") as notes:
                notes.write(f"{request[1]} {zlib.crc32(request[2])}\n")
        return super().handle(request)


def make_numbered() -> Handler:
    """The handler of one of two GPUs, the one that CUDA_VISIBLE_DEVICES names.

    A name in the file of BROKEN keeps new processes of that GPU from working. Each GPU writes its
    own file, with its name behind that of RUNS.
    """
    name = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    broken = Path(os.environ.get(BROKEN, "/nowhere"))
    if broken.exists() and name in broken.read_text().split():
        return refuse
    if RUNS in os.environ:
        os.environ[RUNS] += f".{name}"
    device = FakeDevice(behave, replace(FACTS, uuid=f"GPU-{name}"))
    return FakeSession(device, ["0", "1"]).handle


def make_handler() -> Handler:
    """A handler whose cubins are the JSON of a `Behaviour`."""
    if Path(os.environ.get(BROKEN, "/nowhere")).exists():
        return refuse
    return FakeSession(FakeDevice(behave)).handle


def refuse(request: tuple[Any, ...]) -> Any:
    raise MeasureError("device unavailable", stage="load", kind="lost")


def faulty(cubin: bytes) -> Behaviour:
    """A behaviour drawn from the checksum of a real cubin: four of ten have a fault."""
    number = zlib.crc32(cubin)
    seconds = 1e-5 * (1 + number % 97)
    faults = FAULTS[number // 97 % (len(FAULTS) * 5 // 2) :][:1]
    return Behaviour(seconds, **(faults[0] if faults else {}))


FAULTS: tuple[dict[str, Any], ...] = (
    {"load": 218},
    {"launch": 701},
    {"launch": 1},
    {"launch": 2},
    {"run": 700},
    {"run": 716},
    {"run": 719, "run_at": 40},
    {"run": 702},
    {"run": 999},
    {"hang": True},
    {"hang": True, "run_at": 3},
    {"slow": 0.05},
    {"wrong": "value"},
    {"wrong": "nothing"},
    {"wrong": "later"},
    {"wrong": "guard"},
    {"wrong": "input"},
)


class WrongAdder(FakeDevice):
    """A GPU that computes wrong sums and reports no error."""

    def add(self, left: int, right: int, total: int, count: int) -> None:
        super().add(left, right, total, count)
        self.fill(total, 4, 0xFF)


def make_wrong_adder() -> Handler:
    return FakeSession(WrongAdder(behave)).handle


def behave_mixed(cubin: bytes) -> Behaviour:
    """The behaviour in a cubin that is JSON, else a time drawn from the checksum of the cubin."""
    if cubin.startswith(b"{"):
        return behave(cubin)
    return Behaviour(1e-5 * (1 + zlib.crc32(cubin) % 97))


def make_mixed_handler() -> Handler:
    return FakeSession(FakeDevice(behave_mixed)).handle


def make_refusing() -> Handler:
    return refuse


def make_good_handler() -> Handler:
    """A handler with which real cubins take 100 us."""
    return FakeSession(FakeDevice(lambda _: Behaviour(1e-4))).handle


def make_faulty_handler() -> Handler:
    """A handler for the real cubins of a tuning run, some of which have faults."""
    return FakeSession(FakeDevice(faulty)).handle
