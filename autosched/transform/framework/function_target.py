"""The target of a function, as stated by its attribute `target`.

The attribute is the kind alone, `target="cuda"`, or a dictionary with the kind and options:
`target={"kind": "cuda", "arch": "sm_80", "host": "cpu"}`. The host may be a dictionary too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.errors import ConfigError
from autosched.tir.function import PrimFunc
from autosched.tir.packed import CPU

DEVICE_TYPES = {
    **dict.fromkeys(("cpu", "llvm", "c"), 1),
    "cuda": 2,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "rocm": 10,
    "ext_dev": 12,
    "hexagon": 16,
}
"""DLPack device type of each kind of target."""


@dataclass(frozen=True)
class FunctionTarget:
    """A kind of target, its options, and the target of its host code (None if there is none)."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    host: FunctionTarget | None = None

    @classmethod
    def of(cls, value: object) -> FunctionTarget:
        """Parse the value of the attribute. Raises ConfigError for an unknown kind."""
        fields = dict(value) if isinstance(value, Mapping) else {"kind": value}
        kind, host = fields.pop("kind", None), fields.pop("host", None)
        if kind not in DEVICE_TYPES:
            raise ConfigError(
                f"target {value!r}: found the kind {kind!r}, expected one of "
                f"{', '.join(sorted(DEVICE_TYPES))}"
            )
        return cls(kind, fields, None if host is None else cls.of(host))

    @property
    def attribute(self) -> str | dict[str, Any]:
        """The value of the attribute for this target."""
        if not self.options and self.host is None:
            return self.kind
        host = {} if self.host is None else {"host": self.host.attribute}
        return {"kind": self.kind, **self.options, **host}

    @property
    def device_type(self) -> int:
        """The DLPack device type."""
        return DEVICE_TYPES[self.kind]

    @property
    def is_host(self) -> bool:
        """Whether its code runs on the CPU."""
        return self.device_type == CPU

    def without_host(self) -> FunctionTarget:
        """The same target without a host."""
        return replace(self, host=None)

    def with_host(self, host: FunctionTarget) -> FunctionTarget:
        """The same target with `host` as its host."""
        return replace(self, host=host.without_host())


def target_of(func: PrimFunc) -> FunctionTarget | None:
    """The target of `func`, None without one. Raises ConfigError for an unknown kind."""
    value = func.attrs.get("target")
    return None if value is None else FunctionTarget.of(value)


def is_host_function(func: PrimFunc) -> bool:
    """Whether the function is known to run on the CPU, by a mark or by its target."""
    if func.attrs.get("tir.is_host_func"):
        return True
    target = target_of(func)
    return target is not None and target.is_host
