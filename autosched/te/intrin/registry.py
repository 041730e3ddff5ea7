"""All tensor instructions by name, and the selection of those that a target has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from autosched.cpu_features import enabled
from autosched.errors import ConfigError
from autosched.target import Target
from autosched.te.intrin.arm import ARM
from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.nvidia import NVIDIA, TF32
from autosched.te.intrin.warpgroup import WARPGROUP
from autosched.te.intrin.x86 import X86
from autosched.te.operations.tensor_intrin import TensorIntrin

INSTRUCTIONS: dict[str, Instruction] = {it.name: it for it in (*X86, *ARM, *WARPGROUP, *NVIDIA)}
"""All instructions by name; among those with the same types the best comes first."""


def instruction(name: str) -> Instruction:
    """The instruction called `name`; ConfigError when there is none."""
    found = INSTRUCTIONS.get(name) if isinstance(name, str) else None
    if found is None:
        raise ConfigError(
            f"tensor instruction {name!r} is unknown; expected one of {', '.join(INSTRUCTIONS)}"
        )
    return found


def statements(name: str) -> Mapping[str, TensorIntrin]:
    """The statements of the instruction called `name`, declared once; ConfigError when unknown."""
    return _declared(instruction(name))


@cache
def _declared(it: Instruction) -> Mapping[str, TensorIntrin]:
    return it.declare(it)


def available(target: Target) -> tuple[Instruction, ...]:
    """The instructions that the target has, best first."""
    has = {*enabled(target.features), *([TF32] if target.tf32 else [])}
    return tuple(
        it
        for it in INSTRUCTIONS.values()
        if it.kind == target.kind
        and target.triple.startswith(it.triple)
        and all(_has(feature, has, target.arch) for feature in it.features)
    )


def _has(feature: str, has: set[str], arch: str) -> bool:
    if not feature.startswith("sm_"):
        return feature in has
    number = arch.removeprefix("sm_").rstrip("af")
    if feature.endswith("a"):  # architecture-specific: no later architecture has the feature
        return number == feature.removeprefix("sm_").rstrip("a")
    return number.isdecimal() and int(number) >= int(feature.removeprefix("sm_"))
