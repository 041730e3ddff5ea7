"""Ready-made instruments: print programs around passes, show diffs, time passes, verify results."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.printer import to_text
from autosched.transform.framework.context import PassInfo, Program


def program_text(program: Program) -> str:
    """The printed program."""
    return to_text(program) if isinstance(program, PrimFunc) else repr(program)


class BaseInstrument:
    """An instrument that does nothing; override the methods you need."""

    def enter_pass_ctx(self) -> None:
        """Called when its context is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when its context is left."""

    def should_run(self, program: Program, info: PassInfo) -> bool:
        """False skips the pass, unless the context requires it."""
        return True

    def run_before_pass(self, program: Program, info: PassInfo) -> None:
        """Called before each pass that runs."""

    def run_after_pass(self, program: Program, info: PassInfo) -> None:
        """Called with the result of each pass."""


@dataclass
class PrintAfter(BaseInstrument):
    """Writes the program after each named pass (after all passes if `names` is empty).

    "(unchanged)" marks a pass that returned its argument; the program is then written only for a
    named pass.
    """

    names: tuple[str, ...] = ()
    write: Callable[[str], object] = print
    _before: list[Program] = field(default_factory=list)

    def enter_pass_ctx(self) -> None:
        self._before.clear()

    def run_before_pass(self, program: Program, info: PassInfo) -> None:
        self._before.append(program)

    def run_after_pass(self, program: Program, info: PassInfo) -> None:
        unchanged = self._before.pop() is program
        if info.name not in self.names and (self.names or info.is_sequence):
            return
        head = f"# after {info.name}{' (unchanged)' if unchanged else ''}"
        shown = info.name in self.names or not unchanged
        self.write(f"{head}\n{program_text(program)}" if shown else head)


@dataclass
class PrintDiff(BaseInstrument):
    """Writes a unified diff for every pass that changed the program."""

    write: Callable[[str], object] = print
    _before: list[Program] = field(default_factory=list)

    def enter_pass_ctx(self) -> None:
        self._before.clear()

    def run_before_pass(self, program: Program, info: PassInfo) -> None:
        self._before.append(program)

    def run_after_pass(self, program: Program, info: PassInfo) -> None:
        before = self._before.pop()
        if before is program:
            return
        lines = difflib.unified_diff(
            program_text(before).splitlines(),
            program_text(program).splitlines(),
            f"before {info.name}",
            f"after {info.name}",
            lineterm="",
        )
        text = "\n".join(lines)
        if text:
            self.write(text)


@dataclass
class _Timed:
    name: str
    start: float
    end: float = 0.0
    children: list[_Timed] = field(default_factory=list)

    @property
    def duration(self) -> float:
        return self.end - self.start


@dataclass
class PassTiming(BaseInstrument):
    """Records a tree of pass times, cleared when the context is left. `clock` gives seconds."""

    clock: Callable[[], float] = time.perf_counter
    _finished: list[_Timed] = field(default_factory=list)
    _open: list[_Timed] = field(default_factory=list)

    def exit_pass_ctx(self) -> None:
        self._finished.clear()
        self._open.clear()

    def run_before_pass(self, program: Program, info: PassInfo) -> None:
        self._open.append(_Timed(info.name, self.clock()))

    def run_after_pass(self, program: Program, info: PassInfo) -> None:
        timed = self._open.pop()
        timed.end = self.clock()
        (self._open[-1].children if self._open else self._finished).append(timed)

    def times(self) -> list[tuple[str, float]]:
        """(name, seconds) of every finished pass without nested passes, in order."""
        return [(leaf.name, leaf.duration) for timed in self._finished for leaf in _leaves(timed)]

    def render(self) -> str:
        """One line per pass, indented by tabs: `name: D us [S us] (T%; P%)`.

        D is the duration, S without nested passes, T the share of all top-level passes, P that of
        the parent. Raises RuntimeError inside a pass.
        """
        if self._open:
            names = " > ".join(timed.name for timed in self._open)
            raise RuntimeError(f"PassTiming.render inside a running pass: {names}")
        total = sum(timed.duration for timed in self._finished)
        lines: list[str] = []
        for timed in self._finished:
            _render(timed, total, total, 0, lines)
        return "\n".join(lines)


def _leaves(timed: _Timed) -> Iterator[_Timed]:
    if not timed.children:
        yield timed
    for child in timed.children:
        yield from _leaves(child)


def _render(timed: _Timed, total: float, parent: float, depth: int, lines: list[str]) -> None:
    own = timed.duration - sum(child.duration for child in timed.children)
    lines.append(
        "\t" * depth + f"{timed.name}: {timed.duration * 1e6:.0f} us [{own * 1e6:.0f} us] "
        f"({_percent(timed.duration, total)}; {_percent(timed.duration, parent)})"
    )
    for child in timed.children:
        _render(child, total, timed.duration, depth + 1, lines)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0:.2f}%"


@dataclass
class Verify(BaseInstrument):
    """Calls `check(function)` on each function that was not in the result of the pass before.

    An error names the pass.
    """

    check: Callable[[PrimFunc], object]
    _checked: tuple[PrimFunc, ...] = field(default=(), init=False, repr=False, compare=False)

    def run_after_pass(self, program: Program, info: PassInfo) -> None:
        functions = (
            tuple(program.functions.values()) if isinstance(program, IRModule) else (program,)
        )
        for func in functions:
            if any(func is earlier for earlier in self._checked):
                continue
            try:
                self.check(func)
            except Exception as error:
                error.add_note(f"after pass {info.name} on {func.name}:\n{program_text(func)}")
                raise
        self._checked = functions
