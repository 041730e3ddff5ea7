"""Programs seen while they are lowered: what every pass made, and that it is well formed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from autosched.tir.function import PrimFunc
from autosched.tir.verify import verify
from autosched.transform.framework.context import PassContext, PassInfo, Program
from autosched.transform.framework.instruments import BaseInstrument, Verify


@contextmanager
def verified_passes() -> Iterator[PassContext]:
    """A context in which every function that a pass makes must be well formed."""
    with PassContext(instruments=[Verify(verify)]) as ctx:
        yield ctx


@dataclass
class Stages(BaseInstrument):
    """Keeps (pass, function) for every pass that changed something, in order."""

    seen: list[tuple[str, PrimFunc]] = field(default_factory=list)
    _before: list[Program] = field(default_factory=list)

    def run_before_pass(self, program: Program, info: PassInfo) -> None:
        self._before.append(program)

    def run_after_pass(self, program: Program, info: PassInfo) -> None:
        changed = self._before.pop() is not program
        if changed and not info.is_sequence:
            assert isinstance(program, PrimFunc)
            self.seen.append((info.name, program))
