"""Registration of storage scopes that have memory of their own.

    register_memory("global.scratch", MemoryInfo(unit_bits=32, max_num_bits=1 << 20))

LowerDeviceStorageAccessInfo looks up the registration when it lowers a function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autosched import arguments
from autosched.errors import ConfigError
from autosched.tir.expr import Expr


@dataclass(frozen=True)
class MemoryInfo:
    """The memory behind a storage scope.

    It is addressed in units of `unit_bits`. One allocation holds at most `max_num_bits`.
    `head_address` creates the expression of a pointer to the start of the memory; without it the
    host cannot point into it.
    """

    unit_bits: int
    max_num_bits: int
    head_address: Callable[[], Expr] | None = None

    def __post_init__(self) -> None:
        for name in ("unit_bits", "max_num_bits"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(
                    f"MemoryInfo: {name}: expected a positive number of bits, found {value!r}"
                )
        if self.head_address is not None:
            arguments.function("MemoryInfo: head_address", self.head_address, "lambda: pointer")


_known: dict[str, MemoryInfo] = {}


def register_memory(scope: str, info: MemoryInfo) -> None:
    """Register `info` for a storage scope, in place of any earlier registration.

    Raises ConfigError for a scope without a tag, such as global, whose meaning is fixed.
    """
    arguments.instance("register_memory: scope", scope, str, "'global.scratch'")
    example = "MemoryInfo(unit_bits=32, max_num_bits=1 << 20)"
    arguments.instance(f"register_memory {scope}", info, MemoryInfo, example)
    if not is_special(scope):
        raise ConfigError(
            f"register_memory: {scope!r} is a built-in scope; expected one with a tag, such as "
            "'global.scratch'"
        )
    _known[scope] = info


def memory_info(scope: str) -> MemoryInfo | None:
    """The registration of a scope, or None."""
    return _known.get(scope)


def is_special(scope: str) -> bool:
    """Whether the scope has a tag that names a memory; not `shared.dyn`, nor the scopes of wmma."""
    rank, _, tag = scope.partition(".")
    return tag not in ("", "dyn") and rank not in ("wmma", "m16n8k8", "metal")
