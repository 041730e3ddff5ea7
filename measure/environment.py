"""The fingerprint of the machine and software on which a result was measured."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

# Two distributions bring the module of XGBoost; with the same seed they train different trees.
_PACKAGES = (("autosched",), ("numpy",), ("llvmlite",), ("xgboost-cpu", "xgboost"))


@lru_cache(maxsize=1)
def fingerprint() -> dict[str, Any]:
    """CPU model, cores, memory, system and package versions; nothing that identifies the user."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "packages": dict(map(_installed, _PACKAGES)),
    }


def fingerprint_hash(environment: dict[str, Any]) -> str:
    """12 hex digits that name a fingerprint in a record."""
    text = json.dumps(environment, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _installed(distributions: Sequence[str]) -> tuple[str, str]:
    """The first of the distributions that is installed, and its version."""
    from importlib.metadata import PackageNotFoundError, version  # takes 40 ms: loaded only here

    for name in distributions:
        with suppress(PackageNotFoundError):
            return name, version(name)
    return distributions[-1], "not installed"


@lru_cache(maxsize=1)
def cpu_model() -> str:
    """The name that the CPU gives itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
