"""The last part of an exported CUDA module: its kernels, described by the JSON file beside it.

It is bundled with the files it imports (`bundle.py`); in autosched itself only tests import it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from autosched.runtime.array_checks import element_of
from autosched.runtime.cuda_api import Driver, LibCuda
from autosched.runtime.cuda_loader import GpuKernel, Parameter, Program, Step

_FILE = Path(__file__).with_suffix(".json")
_AGAIN = "export it again, or copy all of its files"
_kernels: dict[str, GpuKernel] = {}


def names() -> list[str]:
    """The names of the kernels of this module; each is an attribute of the module."""
    return list(_description())


def load(name: str, driver: Driver | None = None, device: int = 0) -> GpuKernel:
    """Load a kernel; it computes NumPy arrays on GPU `device`.

    Raises ValueError for a name that is not in `names`, OSError if there is no driver, ImportError
    if the files are not of the same build.
    """
    kernels = _description()
    if name not in kernels:
        raise ValueError(f"there is no kernel {name!r} in {__name__}; it has {', '.join(kernels)}")
    entry = kernels[name]
    parameters = tuple(
        Parameter(p["name"], p["dtype"], element_of(p["dtype"]), tuple(p["shape"]), p["output"])
        for p in entry["parameters"]
    )
    steps = tuple(
        Step(
            s["kernel"], tuple(s["grid"]), tuple(s["block"]), s["dynamic_shared"],
            tuple(s["arguments"]),
        )
        for s in entry["launches"]
    )  # fmt: skip
    cubins = {arch: _code(entry, file) for arch, file in entry["cubins"].items()}
    text = entry["ptx"]
    ptx = None if text is None else (text["arch"], _code(entry, text["file"]))
    program = Program(name, parameters, cubins, entry["workspaces"], steps, ptx)
    return GpuKernel(program, LibCuda() if driver is None else driver, device=device)


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name not in _description():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _kernels:
        _kernels[name] = load(name)
    return _kernels[name]


def __dir__() -> list[str]:
    return [*names(), "load", "names"]


def _code(entry: dict[str, Any], file: str) -> bytes:
    """The content of a file, if it belongs to the same build as the JSON file."""
    try:
        code = _FILE.with_name(file).read_bytes()
    except OSError as error:
        raise ImportError(f"{_FILE.with_name(file)} cannot be read: {error}; {_AGAIN}") from error
    if hashlib.sha256(code).hexdigest() != entry["sha256"][file]:
        raise ImportError(f"{_FILE.with_name(file)} does not belong to {_FILE.name}; {_AGAIN}")
    return code


def _description() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))["kernels"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ImportError(
            f"{_FILE} does not describe the kernels: {type(error).__name__}: {error}; {_AGAIN}"
        ) from error
    return found
