"""The places of a pipeline where a user's own passes run (`tir.add_lower_pass`, spec passes 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import ConfigError
from autosched.transform.framework.context import PassContext, PassInfo
from autosched.transform.framework.passes import ProgramT, run_enabled

PHASES = (0, 1, 2, 3)
"""At the start; before loops are rewritten; after they are unrolled; after the last clean-up."""
LAST_PHASE = PHASES[-1]


@dataclass(frozen=True)
class UserPasses:
    """The passes that the context's `tir.add_lower_pass`, a list of [phase, pass], has for a phase.

    It is no pass of its own to instruments: they see those that it runs. Raises ConfigError when
    an entry of the list is no pair or has a phase that no pipeline has.
    """

    phase: int
    name: ClassVar[str] = "UserPasses"

    @property
    def info(self) -> PassInfo:
        """Always enabled: each of the passes it runs is asked for itself."""
        return PassInfo(self.name)

    def __call__(self, program: ProgramT) -> ProgramT:
        """`program` after the passes of this phase, in the order of the list."""
        ctx = PassContext.current()
        entries = ctx.setting("tir.add_lower_pass")
        for entry in entries:
            if not isinstance(entry, list | tuple) or len(entry) != 2:
                raise ConfigError(
                    f"tir.add_lower_pass: expected a list of [phase, pass], found {entry!r} in it"
                )
            phase, pass_ = entry
            if phase not in PHASES:
                raise ConfigError(
                    f"tir.add_lower_pass: {pass_!r} has phase {phase!r}, expected 0, 1, 2 or 3"
                )
        for phase, pass_ in entries:
            if phase == self.phase:
                program = run_enabled(pass_, program, ctx)
        return program
