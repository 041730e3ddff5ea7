"""The fingerprint of GPUs and their software, for the environment of record files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from autosched.codegen.nvrtc import load_nvrtc
from autosched.errors import ConfigError
from autosched.measure.nvml import Nvml
from autosched.target import arch_of

_MATH = "precise"  # no fast approximations of math functions: docs/cuda.md


def gpu_environment(facts: Sequence[Mapping[str, Any]], nvml: Nvml) -> dict[str, Any]:
    """The `gpus` and `cuda` entries of an environment.

    `facts` are DeviceFacts as dictionaries, one for each GPU and at least one. UUIDs are hashed.
    Values that NVML does not report are None.
    """
    first = facts[0]
    return {
        "gpus": [_gpu(each, nvml) for each in facts],
        "cuda": {
            "driver": first["driver"],
            "driver_release": nvml.driver(),
            "runtime": first["runtime"],
            "nvrtc": _nvrtc(first),
            "mps": shared_by_mps(),
            "math": _MATH,
        },
    }


def gpu_id(uuid: str) -> str:
    """12 hex digits that tell GPUs apart without revealing the UUID."""
    return hashlib.sha256(uuid.encode()).hexdigest()[:12]


def gpu_names(environment: Mapping[str, Any]) -> tuple[str, ...]:
    """The different names of the GPUs in a record file's environment; empty for a CPU."""
    found = environment.get("gpus")
    if not isinstance(found, list):
        return ()
    return tuple(dict.fromkeys(str(g.get("name")) for g in found if isinstance(g, Mapping)))


def _gpu(facts: Mapping[str, Any], nvml: Nvml) -> dict[str, Any]:
    handle = nvml.find(facts["uuid"])
    return {
        "name": facts["name"],
        "id": gpu_id(facts["uuid"]),
        "capability": list(facts["capability"]),
        "memory_bytes": facts["memory"],
        **({} if handle is None else nvml.settings(handle)),
    }


def _nvrtc(facts: Mapping[str, Any]) -> str | None:
    arch = arch_of(facts["capability"])
    with suppress(ConfigError):
        found = load_nvrtc(arch, int(facts["driver"].partition(".")[0])).version
        return f"{found[0]}.{found[1]}"
    return None


def shared_by_mps() -> bool:
    """Whether processes share the GPUs through NVIDIA's multi-process service."""
    folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    return (Path(folder) / "control").exists()
