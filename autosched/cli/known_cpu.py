"""Refusal of CPUs that LLVM does not know."""

from __future__ import annotations

from autosched.codegen.known_cpu import ask_llvm
from autosched.errors import ConfigError
from autosched.target import Target


def require_known_cpu(target: Target) -> None:
    """Raise ConfigError if this machine's LLVM does not know the target's CPU or features."""
    found = ask_llvm(target)
    if not found.unknown and not found.problem:
        return
    reason = f"it does not know {', '.join(found.unknown)}" if found.unknown else found.problem
    raise ConfigError(
        f"the record is for the CPU {target.cpu!r}, which this machine's LLVM does not support "
        f"({reason}); --as tir and llvm need no CPU, and autosched replay builds for this machine"
    )
