"""Small arguments for every built-in workload."""

from __future__ import annotations

from typing import Any

from autosched import workloads

_SPECIAL = {"stride": 2, "padding": 1, "K": 3, "KH": 3, "KW": 2, "L": 9, "D": 5, "H": 7, "W": 6}


def small_args(name: str) -> dict[str, Any]:
    """Arguments of a built-in workload: sizes of a few elements, with a stride and padding."""
    args = workloads.get(name).args
    return {key: _SPECIAL.get(key, 4) if value is None else value for key, value in args.items()}
