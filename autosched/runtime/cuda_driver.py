"""Whether this machine has what measuring on a GPU needs, found without touching a GPU."""

from __future__ import annotations

import ctypes
import importlib.util

from autosched.errors import ConfigError

LIBRARY = "libcuda.so.1"


def driver_problem() -> str | None:
    """Why the driver's library cannot be used, or None when it can."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        text = str(error)
        return f"{LIBRARY} not found" if "cannot open shared object file: No such" in text else text
    return None


def driver_version() -> tuple[int, int] | None:
    """The CUDA version that the driver knows, e.g. (13, 0); None where there is no driver.

    Asking starts nothing on a GPU.
    """
    version = ctypes.c_int()
    try:
        if ctypes.CDLL(LIBRARY).cuDriverGetVersion(ctypes.byref(version)):
            return None
    except (OSError, AttributeError):  # no driver, or a library that is none
        return None
    return version.value // 1000, version.value % 1000 // 10


def require_gpu_runtime() -> None:
    """Raise ConfigError, which names what is missing, when nothing can be measured on a GPU here.

    PyCUDA is looked for, not imported: that is the worker's to do.
    """
    problem = driver_problem()
    if problem is not None:
        raise ConfigError(
            f"no CUDA driver ({problem}): kernels can be generated and compiled (autosched lower, "
            "show, tune --dry-run), not measured; autosched doctor --target cuda says what is there"
        )
    if importlib.util.find_spec("pycuda") is None:
        raise ConfigError("PyCUDA is not installed; it is built from source: see docs/cuda.md")
