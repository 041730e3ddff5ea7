"""The end of an exported module for CUDA: its kernels, read from the file beside it.

It is bundled with what it imports (`bundle.py`) and never imported here but by tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autosched.runtime.array_checks import element_of
from autosched.runtime.cuda_api import Driver, LibCuda
from autosched.runtime.cuda_loader import GpuKernel, Parameter, Program, Step

_FILE = Path(__file__).with_suffix(".json")
_kernels: dict[str, GpuKernel] = {}


def names() -> list[str]:
    """The kernels of this module: each is an attribute of it."""
    return list(_description())


def load(name: str, driver: Driver | None = None, device: int = 0) -> GpuKernel:
    """A kernel; NumPy arrays are computed on GPU `device`. OSError where there is no driver."""
    entry = _description()[name]
    folder = _FILE.parent
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
    cubins = {arch: (folder / file).read_bytes() for arch, file in entry["cubins"].items()}
    text = entry["ptx"]
    ptx = None if text is None else (text["arch"], (folder / text["file"]).read_bytes())
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


def _description() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))["kernels"]
    return found
