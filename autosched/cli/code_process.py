"""LLVM at work for `autosched show`, in a process of its own: a candidate may make it hang."""

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
"""For a candidate; the compiler takes milliseconds to seconds for one that is worth looking at."""
_MEMORY = 8 << 30


def code_of(task: Task, steps: Sequence[Step], target: Target, form: str) -> str:
    """The text of a CPU candidate for `target`: `form` is llvm or asm.

    Raises MeasureError when it is illegal, LLVM refuses it, or the process hangs or dies, and
    ConfigError when passes of the task are not there or not trusted.
    """
    task.lowering.require()  # the process trusts whoever asks it
    entry = replace(task, target=target).to_json()
    text: str = _process().call((entry, steps_to_json(tuple(steps)), form), SECONDS, "compile")
    return text


def make_handler() -> Handler:
    """The process's side: (task, steps) as JSON values, and the form, to the text."""

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
