"""Which targets convert bfloat16 and 8-bit floats by instructions."""

from __future__ import annotations

import re

from autosched.errors import ConfigError
from autosched.tir.function import PrimFunc
from autosched.transform.framework.function_target import FunctionTarget, target_of

FLOAT8 = (8, 9)
"""Least compute capability of GPUs that convert 8-bit floats by instructions."""

BFLOAT16 = (8, 0)
"""Least compute capability of GPUs that convert bfloat16 by instructions."""


def is_native(func: PrimFunc, since: tuple[int, int], otherwise: str = "") -> bool:
    """Whether `func` is for a CUDA GPU of at least the compute capability `since`.

    `otherwise` is the kind of target of a function without a target. A GPU of which only the kind
    is known counts as sm_80. Raises ConfigError for an unknown kind of target.
    """
    target = target_of(func)
    if target is None and otherwise:
        target = FunctionTarget.of(otherwise)
    if target is None or target.kind != "cuda":
        return False
    found = re.fullmatch(r"sm_(\d+)(\d)[af]?", str(target.options.get("arch", "sm_80")))
    return found is not None and (int(found[1]), int(found[2])) >= since


def require_target(name: str, func: PrimFunc, otherwise: str) -> None:
    """Raise ConfigError if `func` has no target and `otherwise` is empty."""
    if "target" not in func.attrs and not otherwise:
        raise ConfigError(
            f"{name}: the function {func.name} has no attribute `target`; run BindTarget before, "
            "or give the pass the option kind"
        )
