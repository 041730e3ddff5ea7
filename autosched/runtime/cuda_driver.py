"""Query the CUDA driver's library without touching a GPU."""

from __future__ import annotations

import ctypes

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
    """The highest CUDA version that the driver supports, e.g. (13, 0); None without a driver.

    Starts nothing on a GPU.
    """
    version = ctypes.c_int()
    try:
        if ctypes.CDLL(LIBRARY).cuDriverGetVersion(ctypes.byref(version)):
            return None
    except (OSError, AttributeError):  # no driver, or another library of that name
        return None
    return version.value // 1000, version.value % 1000 // 10


def gpu_name() -> str | None:
    """The driver's name of the first GPU, e.g. NVIDIA H200; None without a driver or a GPU."""
    name = ctypes.create_string_buffer(256)
    try:
        library = ctypes.CDLL(LIBRARY)
        if library.cuInit(0) or library.cuDeviceGetName(name, len(name), 0):
            return None
    except (OSError, AttributeError):  # no driver, or another library of that name
        return None
    return name.value.decode(errors="replace")


def no_driver(problem: str) -> str:
    """The message where the driver is missing because of `problem`."""
    return (
        f"no CUDA driver ({problem}): kernels can be generated and compiled (autosched lower, "
        "show, tune --dry-run), not measured; autosched doctor --target cuda says what is there"
    )
