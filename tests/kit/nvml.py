"""A stand-in for the module pynvml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from types import SimpleNamespace
from typing import Any


class FakeNvml:
    """One GPU, with the UUID `GPU-fake`. Functions in `without` are not supported.

    `reasons` are returned one by one, the last one forever. `calls` has the names of the functions
    called.
    """

    class NVMLError(Exception):
        pass

    def __init__(
        self,
        without: Iterable[str] = (),
        reasons: Sequence[int] = (0,),
        pids: Sequence[int] = (),
        uuids: Sequence[str] = ("GPU-fake",),
    ) -> None:
        self.without = set(without)
        self.calls: list[str] = []
        self.pids = pids
        self.uuids = uuids
        self._reasons = _then(reasons)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if name in self.without:
                raise self.NVMLError("Not Supported")
            return self._answer(name, arguments)

        return call

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> Any:
        match name:
            case "nvmlDeviceGetHandleByUUID":
                if arguments[0] not in self.uuids:
                    raise self.NVMLError("Not Found")
                return self.uuids.index(arguments[0])
            case "nvmlDeviceGetHandleByIndex":
                return arguments[0]
            case "nvmlDeviceGetUUID":
                return self.uuids[arguments[0]]
            case "nvmlDeviceGetCount":
                return len(self.uuids)
            case "nvmlDeviceGetClockInfo":
                return {1: 1980, 2: 2619}[arguments[1]]
            case "nvmlDeviceGetCurrentClocksEventReasons":
                return next(self._reasons)
            case "nvmlDeviceGetComputeRunningProcesses":
                return [SimpleNamespace(pid=pid) for pid in self.pids]
        return {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetTemperature": 41,
            "nvmlDeviceGetPowerUsage": 350_500,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 4,
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetMigMode": [0, 1],
            "nvmlDeviceGetPersistenceMode": 1,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlSystemGetDriverVersion": "580.65.06",
        }[name]


def _then(values: Sequence[int]) -> Iterator[int]:
    yield from values
    yield from repeat(values[-1])
