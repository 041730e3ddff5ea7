"""Which targets convert bfloat16 and 8-bit floats themselves."""

from __future__ import annotations

import re

from autosched.errors import ConfigError
from autosched.tir.function import PrimFunc
from autosched.transform.framework.function_target import FunctionTarget, target_of

FLOAT8 = (8, 9)
"""The compute capability from which GPUs convert 8-bit floats by instructions."""

BFLOAT16 = (8, 0)
"""The one from which they do bfloat16."""


def is_native(func: PrimFunc, since: tuple[int, int], otherwise: str = "") -> bool:
    """Whether `func` is for a CUDA GPU of at least the compute capability `since`.

    `otherwise` is the kind of target of a function that does not say one. A GPU of which only the
    kind is known is sm_80. Raises ConfigError for a target of no known kind.
    """
    target = target_of(func)
    if target is None and otherwise:
        target = FunctionTarget.of(otherwise)
    if target is None or target.kind != "cuda":
        return False
    found = re.fullmatch(r"sm_(\d+)(\d)[af]?", str(target.options.get("arch", "sm_80")))
    return found is not None and (int(found[1]), int(found[2])) >= since


def require_target(name: str, func: PrimFunc, otherwise: str) -> None:
    """Raise ConfigError when `func` does not say what it is for and `otherwise` does not either."""
    if "target" not in func.attrs and not otherwise:
        raise ConfigError(
            f"{name}: the function {func.name} has no attribute `target`; run BindTarget before, "
            "or give the pass the option kind"
        )
