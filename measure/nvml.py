"""Read clocks, temperature and settings of GPUs from NVML; the package nvidia-ml-py is optional.

Each value may be missing on its own (MIG, containers); it is None then. Settings are only read,
because changing them needs root and outlives the run. Run on an H200.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_SM, _MEMORY = 1, 2  # nvmlClockType_t
_ON_DIE = 0  # nvmlTemperatureSensors_t


@dataclass(frozen=True, slots=True)
class GpuState:
    """The state of a GPU at time `at`, by time.monotonic().

    Clocks are in MHz. `reasons` are the bits of nvmlClocksEventReasons, which tell what holds the
    clocks down.
    """

    at: float
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    celsius: int | None = None
    watts: float | None = None
    reasons: int | None = None


class Nvml:
    """NVML in this process, started on first use.

    `missing` says why there is none. Only the parent of the processes that measure owns an
    instance, and closes it.
    """

    def __init__(self, load: Callable[[], Any] = lambda: importlib.import_module("pynvml")) -> None:
        self._load = load
        self._module: Any = None
        self._tried = False
        self.missing = ""

    def close(self) -> None:
        """Shut NVML down. A second call does nothing; a later query starts it again."""
        if self._module is not None:
            with contextlib.suppress(self._module.NVMLError):
                self._module.nvmlShutdown()
        self._module, self._tried = None, False

    def find(self, uuid: str) -> Any | None:
        """The handle of the GPU with that UUID, or None."""
        module = self._started()
        # CUDA names a slice (MIG) like a whole GPU; NVML has a prefix of its own for it.
        for name in (uuid, uuid.replace("GPU-", "MIG-", 1)):
            found = self._ask("nvmlDeviceGetHandleByUUID", name) if module else None
            if found is not None:
                return found
        return None

    def state(self, handle: Any) -> GpuState:
        """The present state of a GPU."""
        power = self._ask("nvmlDeviceGetPowerUsage", handle)
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:  # the function's name before driver 535
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return GpuState(
            at=time.monotonic(),
            sm_mhz=self._ask("nvmlDeviceGetClockInfo", handle, _SM),
            memory_mhz=self._ask("nvmlDeviceGetClockInfo", handle, _MEMORY),
            celsius=self._ask("nvmlDeviceGetTemperature", handle, _ON_DIE),
            watts=None if power is None else power / 1e3,
            reasons=reasons,
        )

    def settings(self, handle: Any) -> dict[str, Any]:
        """A GPU's settings: ECC, MIG, persistence, power limit, highest clock."""
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit", handle)
        return {
            "ecc": self._mode("nvmlDeviceGetEccMode", handle),
            "mig": self._mode("nvmlDeviceGetMigMode", handle),
            "persistence": self._mode("nvmlDeviceGetPersistenceMode", handle),
            "power_limit_watts": None if limit is None else limit / 1e3,
            "max_sm_mhz": self._ask("nvmlDeviceGetMaxClockInfo", handle, _SM),
        }

    def driver(self) -> str | None:
        """The release of the driver, e.g. 580.65.06."""
        found = self._ask("nvmlSystemGetDriverVersion") if self._started() else None
        return None if found is None else str(found)

    def processes(self) -> dict[str, tuple[int, ...]]:
        """The ids of the processes that compute on each GPU, by the GPU's UUID."""
        found: dict[str, tuple[int, ...]] = {}
        for handle in self.handles():
            uuid = self._ask("nvmlDeviceGetUUID", handle)
            running = self._ask("nvmlDeviceGetComputeRunningProcesses", handle)
            if uuid is not None:
                found[str(uuid)] = tuple(int(process.pid) for process in running or ())
        return found

    def handles(self) -> Iterator[Any]:
        """The handles of all GPUs."""
        number = self._ask("nvmlDeviceGetCount") if self._started() else None
        for index in range(number or 0):
            handle = self._ask("nvmlDeviceGetHandleByIndex", index)
            if handle is not None:
                yield handle

    def _mode(self, name: str, handle: Any) -> bool | None:
        """Whether a mode is on now; some functions return the present and the pending mode."""
        found = self._ask(name, handle)
        if isinstance(found, list | tuple):
            found = found[0]
        return None if found is None else bool(found)

    def _ask(self, name: str, *arguments: Any) -> Any:
        """The value of an NVML function; None where the function or the value is missing."""
        function = getattr(self._module, name, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except self._module.NVMLError:
            return None

    def _started(self) -> bool:
        if not self._tried:
            self._tried = True
            self._start()
        return self._module is not None

    def _start(self) -> None:
        try:
            module = self._load()
        except ImportError:
            self.missing = "nvidia-ml-py is not installed (pip install nvidia-ml-py)"
            return
        try:
            module.nvmlInit()
        except module.NVMLError as error:
            self.missing = f"NVML does not start: {error}"
            return
        self._module, self.missing = module, ""
