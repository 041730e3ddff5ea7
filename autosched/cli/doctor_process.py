"""The process in which `autosched doctor` tries what may crash or hang: native code, imports."""

from __future__ import annotations

import importlib
import time
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Any

from autosched.process.worker import Handler

# Module -> distributions that may provide it.
_PACKAGES = {
    "numpy": ("numpy",),
    "llvmlite": ("llvmlite",),
    "xgboost": ("xgboost-cpu", "xgboost"),
    "ml_dtypes": ("ml_dtypes",),
    "pydantic": ("pydantic",),
    "ruamel.yaml": ("ruamel.yaml",),
}
_BLOCKS = 60


def make_handler() -> Handler:
    """The handler for requests of `doctor`; each request imports only what it needs."""

    def handle(request: tuple[Any, ...]) -> Any:
        match request:
            case ("ready",):
                return True
            case ("package", name):
                return _version_of(name)
            case ("timer",):
                return _timer()
            case ("clock",):
                return _clock()
            case ("peak",):
                return _peak()
            case ("compile", task, steps):
                return _compile(task, steps)
            case ("model",):
                return _model()
        raise ValueError(f"unknown request {request[0]!r}")

    return handle


def packages() -> list[str]:
    """The modules that autosched needs."""
    return list(_PACKAGES)


def _version_of(name: str) -> str:
    """The version of a package, which is imported. Raises what its import raises."""
    importlib.import_module(name)
    for distribution in _PACKAGES[name]:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "of unknown version"


def _timer() -> tuple[float, float]:
    """The smallest step of the clock that times kernels, and the cost of a reading, in seconds."""
    readings = [time.perf_counter_ns() for _ in range(20_000)]
    steps = [b - a for a, b in pairwise(readings) if b > a]
    return min(steps) * 1e-9, (readings[-1] - readings[0]) / (len(readings) - 1) * 1e-9


def _clock() -> list[float]:
    from autosched.measure.peak import block_seconds
    from autosched.target import cpu_target

    return block_seconds(cpu_target(1), _BLOCKS)


def _peak() -> tuple[float, float]:
    """(operations per second of all threads, bytes per second they read from memory or 0)."""
    from autosched.measure.bandwidth import bandwidths
    from autosched.measure.peak import peak_flops
    from autosched.target import cpu_target

    target = cpu_target()
    memory = [b.bytes_per_second for b in bandwidths(target) if b.level == "memory"]
    return peak_flops(target, "float32") or 0.0, memory[0] if memory else 0.0


def _compile(task_json: dict[str, Any], steps_json: list[Any]) -> tuple[int, float]:
    """(bytes of code, seconds of compiling)."""
    from autosched.measure.build import make_handler as make_builder

    data, seconds = make_builder()((task_json, steps_json))
    return len(data), seconds


def _model() -> float:
    """The seconds of training a cost model. Raises ValueError if it learned nothing."""
    import numpy as np

    from autosched.search.cost_model import XGBoostModel

    start = time.perf_counter()
    rng = np.random.default_rng(0)
    programs = [np.full((1, 4), k / 16, np.float32) for k in range(16)]
    model = XGBoostModel(rounds=10, columns=1.0)
    model.fit(programs, [(k + 1) / 16 for k in range(16)])
    scores = model.predict([programs[k] for k in rng.permutation(16)])
    if not np.ptp(scores) > 0:
        raise ValueError("the trained model gives every program the same score")
    return time.perf_counter() - start
