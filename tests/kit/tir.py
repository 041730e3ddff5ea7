"""Constants in TIR, and programs during lowering: the function after each pass, verified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from autosched.tir.expr import Expr, FloatImm, IntImm
from autosched.tir.function import PrimFunc
from autosched.tir.verify import verify
from autosched.transform.framework.context import PassContext, PassInfo, Program
from autosched.transform.framework.instruments import BaseInstrument, Verify


def value_of(expr: Expr, of_others: int | None = None) -> int:
    """The value of an integer constant; `of_others`, if given, for other expressions."""
    if of_others is not None and not isinstance(expr, IntImm):
        return of_others
    assert isinstance(expr, IntImm)
    return expr.value


def number_of(expr: Expr) -> float:
    """The value of a constant of any type."""
    assert isinstance(expr, IntImm | FloatImm)
    return expr.value


@contextmanager
def verified_passes() -> Iterator[PassContext]:
    """A context that verifies every function that a pass makes."""
    with PassContext(instruments=[Verify(verify)]) as ctx:
        yield ctx


@dataclass
class Stages(BaseInstrument):
    """Records (pass, function) for every pass that changed something, in order."""

    seen: list[tuple[str, PrimFunc]] = field(default_factory=list)
    _before: list[Program] = field(default_factory=list)

    def run_before_pass(self, program: Program, info: PassInfo) -> None:
        self._before.append(program)

    def run_after_pass(self, program: Program, info: PassInfo) -> None:
        changed = self._before.pop() is not program
        if changed and not info.is_sequence:
            assert isinstance(program, PrimFunc)
            self.seen.append((info.name, program))
