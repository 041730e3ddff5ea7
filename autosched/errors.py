"""The errors that a user of autosched can meet. Anything else that escapes is a bug."""

from __future__ import annotations


class AutoschedError(Exception):
    """Base of the errors below."""


class ScheduleError(AutoschedError):
    """The schedule is illegal; a search catches only this error and drops the candidate."""


class CompileError(AutoschedError):
    """Code generation or a vendor's compiler refused the function.

    - `kind`: `illegal` when the machine lacks what the function needs, `memory` when the compiler
      ran out of memory, `environment` when the compiler's own files are missing, else `error`.
    - `line`: the line of the generated source, where known.
    - `statement`: the statement from which that line was made, where known.
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

    - `stage`: lower, compile, load, run or check.
    - `kind`: error, illegal (a schedule), timeout, crash, wrong_answer, memory, or lost (a GPU that
      no longer answers).
    """

    def __init__(self, message: str, *, stage: str, kind: str = "error") -> None:
        super().__init__(message)
        self.stage = stage
        self.kind = kind


class DeviceError(MeasureError):
    """A call to a GPU's driver failed.

    - `code`: what the driver returned.
    - `worker_ends`: the process that made the call can no longer use the GPU.
    """

    def __init__(
        self, message: str, *, stage: str, kind: str, code: int, worker_ends: bool
    ) -> None:
        super().__init__(message, stage=stage, kind=kind)
        self.code = code
        self.worker_ends = worker_ends


class ConfigError(AutoschedError):
    """The user's file, flag or argument is wrong; the message says what, where and the remedy."""
