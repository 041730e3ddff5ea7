"""The errors a user of autosched can meet. Anything else that escapes is a bug."""

from __future__ import annotations


class AutoschedError(Exception):
    """Base of the errors below."""


class ScheduleError(AutoschedError):
    """This schedule is illegal; a search catches exactly this and drops the candidate."""


class CompileError(AutoschedError):
    """Code generation or a vendor's compiler refused the function.

    `kind` is `illegal` when the machine lacks what the function asks for, `memory` when the
    compiler ran out of it, `environment` when its own files are missing, else `error`. `line` is
    that of the generated source, `statement` what of the function it was made from, where known.
    """

    def __init__(
        self, message: str, *, kind: str = "error", line: int | None = None, statement: str = ""
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.line = line
        self.statement = statement


class MeasureError(AutoschedError):
    """Building, running or checking failed.

    `stage` is one of lower, compile, load, run, check; `kind` one of error, illegal (a schedule),
    timeout, crash, wrong_answer, memory, lost (a GPU that answers no more).
    """

    def __init__(self, message: str, *, stage: str, kind: str = "error") -> None:
        super().__init__(message)
        self.stage = stage
        self.kind = kind


class DeviceError(MeasureError):
    """A call to a GPU's driver failed; `code` is what the driver returned.

    `worker_ends` when the process that made the call can use the GPU no more.
    """

    def __init__(
        self, message: str, *, stage: str, kind: str, code: int, worker_ends: bool
    ) -> None:
        super().__init__(message, stage=stage, kind=kind)
        self.code = code
        self.worker_ends = worker_ends


class ConfigError(AutoschedError):
    """The user's file, flag or argument is wrong; the message says what, where and the remedy."""
