"""The places of a pipeline where a user's own passes run (`tir.add_lower_pass`, spec passes 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.transform.framework.context import PHASES, PassContext, PassInfo
from autosched.transform.framework.passes import ProgramT, run_enabled

LAST_PHASE = PHASES[-1]


@dataclass(frozen=True)
class UserPasses:
    """The passes that the context's `tir.add_lower_pass`, a list of [phase, pass], has for a phase.

    It is no pass of its own to instruments: they see those that it runs.
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
        for phase, pass_ in ctx.setting("tir.add_lower_pass"):
            if phase == self.phase:
                program = run_enabled(pass_, program, ctx)
        return program
