"""The fingerprint of the machine and software that a result was measured on."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# Packages by the names of the distributions that bring them, the usual one first.
_PACKAGES = {
    "autosched": ("autosched",),
    "numpy": ("numpy",),
    "llvmlite": ("llvmlite",),
    "xgboost": ("xgboost-cpu", "xgboost"),
}


@lru_cache(maxsize=1)
def fingerprint() -> dict[str, Any]:
    """CPU model, cores, memory, system and package versions; nothing that names the user."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "packages": {name: _version(names) for name, names in _PACKAGES.items()},
    }


def fingerprint_hash(environment: dict[str, Any]) -> str:
    """12 hex digits that name a fingerprint in a record."""
    text = json.dumps(environment, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _version(distributions: Sequence[str]) -> str:
    for name in distributions:
        with suppress(PackageNotFoundError):
            return version(name)
    return "not installed"


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
