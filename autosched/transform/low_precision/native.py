"""Which targets compute in bfloat16 and 8-bit floats themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping

from autosched.errors import ConfigError
from autosched.tir.function import PrimFunc

FLOAT8 = (8, 9)
"""The compute capability from which GPUs convert 8-bit floats by instructions."""

BFLOAT16 = (8, 0)
"""The one from which they do bfloat16."""


def is_native(func: PrimFunc, since: tuple[int, int], otherwise: str = "") -> bool:
    """Whether `func` is for a CUDA GPU of at least the compute capability `since`.

    Its attribute `target` is a kind, or a dictionary of `kind` and perhaps `arch`, sm_80 where it
    is not told; `otherwise` is the kind of a function without one.
    """
    target = func.attrs.get("target", otherwise)
    fields = target if isinstance(target, Mapping) else {"kind": target}
    found = re.fullmatch(r"sm_(\d+)(\d)[af]?", str(fields.get("arch", "sm_80")))
    if fields.get("kind") != "cuda" or found is None:
        return False
    return (int(found[1]), int(found[2])) >= since


def require_target(name: str, func: PrimFunc, otherwise: str) -> None:
    """Raise ConfigError when `func` does not say what it is for and `otherwise` does not either."""
    if "target" not in func.attrs and not otherwise:
        raise ConfigError(
            f"{name}: the function {func.name} has no attribute `target`; give it one, such as "
            '{"kind": "cuda", "arch": "sm_80"}, or the pass the option kind'
        )
