"""Code generation by LLVM for `autosched show`, in a separate process, because it may hang."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from autosched.candidate import lower_candidate
from autosched.codegen.llvm import assembly, emit_llvm
from autosched.process.worker import Handler, Worker
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.target import Target
from autosched.task import Task

FACTORY = "autosched.cli.code_process:make_handler"
SECONDS = 60.0
"""Time limit for a candidate; compiling a reasonable one takes milliseconds to seconds."""
_MEMORY = 8 << 30


def code_of(task: Task, steps: Sequence[Step], target: Target, form: str) -> str:
    """The LLVM IR (`form` llvm) or assembly (asm) of a CPU candidate for `target`.

    Raises MeasureError if the candidate is illegal, LLVM refuses it, or the process hangs or dies,
    and ConfigError if passes of the task are missing or not trusted.
    """
    task.lowering.require()  # the process trusts whoever asks it
    entry = replace(task, target=target).to_json()
    text: str = _process().call((entry, steps_to_json(tuple(steps)), form), SECONDS, "compile")
    return text


def make_handler() -> Handler:
    """The handler in the process: from (task as JSON, steps as JSON, form) to the text."""

    def handle(request: tuple[dict[str, Any], list[Any], str]) -> str:
        entry, steps, form = request
        task = Task.from_json(entry, trust=True)
        func = lower_candidate(task, steps_from_json(steps))
        code = emit_llvm(func, task.target)
        return code if form == "llvm" else assembly(code, task.target)

    return handle


@lru_cache(maxsize=1)
def _process() -> Worker:
    worker = Worker(FACTORY, memory_limit=_MEMORY)
    atexit.register(worker.stop)
    return worker
