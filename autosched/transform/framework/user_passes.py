"""Extension points of a pipeline for a user's own passes (`tir.add_lower_pass`, spec passes 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.transform.framework.context import PHASES, PassContext, PassInfo
from autosched.transform.framework.passes import ProgramT, run_enabled

LAST_PHASE = PHASES[-1]


@dataclass(frozen=True)
class UserPasses:
    """Runs the passes that `tir.add_lower_pass`, a list of [phase, pass], holds for one phase.

    Instruments see the passes that it runs, not UserPasses itself.
    """

    phase: int
    name: ClassVar[str] = "UserPasses"

    @property
    def info(self) -> PassInfo:
        """Always enabled; the context decides about each of the passes."""
        return PassInfo(self.name)

    def __call__(self, program: ProgramT) -> ProgramT:
        """Run the passes of this phase, in the order of the list."""
        ctx = PassContext.current()
        for phase, pass_ in ctx.setting("tir.add_lower_pass"):
            if phase == self.phase:
                program = run_enabled(pass_, program, ctx)
        return program
