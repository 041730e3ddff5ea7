"""A candidate to export, and the names of exported functions."""

from __future__ import annotations

import ctypes
import keyword
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from autosched.codegen.c_words import has_meaning
from autosched.errors import CompileError, ScheduleError
from autosched.runtime.artifact import ParamSpec
from autosched.state.steps import Step
from autosched.task import Task

OWN = "autosched_"
"""Prefix of the names of a library's own parts (`library_ir.py`, `c_files.py`)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task with steps, to be exported as the function `symbol`.

    `seconds` is the recorded time per call, None if not measured. `tuned_for` names the task for
    which the steps were tuned, if that is another one. `checked` says how the result was compared
    with that of NumPy.
    """

    task: Task
    steps: tuple[Step, ...]
    symbol: str
    seconds: float | None = None
    tuned_for: str = ""
    checked: str = ""

    def operator(self, taken: Collection[str] = ()) -> str:
        """The operator's name as a C identifier that has no meaning in C and is not in `taken`."""
        name = _identifier(self.task.function_name)
        if self.task.target.is_gpu:  # in CUDA C two underscores are the compiler's
            name = re.sub(r"__+", "_", name).strip("_") or "kernel"
        return f"kernel_{name}" if name in taken else name

    @property
    def computation(self) -> str:
        """What distinguishes operators of one name: an expression, or a function and its file."""
        workload = self.task.workload.to_json()
        kinds = ("op", "expr", "einsum", "python")
        return next((str(workload[kind]) for kind in kinds if kind in workload), "")

    @contextmanager
    def named_in_errors(self, arch: str = "") -> Iterator[None]:
        """A context in which compile and schedule errors name the task.

        Several kernels are exported at once.
        """
        whose = f"{self.task.name} for {arch}" if arch else self.task.name
        try:
            yield
        except ScheduleError as error:
            raise ScheduleError(f"{whose}: {error}") from error
        except CompileError as error:
            raise CompileError(
                f"{whose}: {error}", kind=error.kind, line=error.line, statement=error.statement
            ) from error

    def about(self) -> dict[str, Any]:
        """The description of the candidate for the JSON file of the export."""
        found: dict[str, Any] = {"workload": self.task.name, "key": self.task.key}
        if self.seconds is not None:
            found["recorded_seconds"] = self.seconds
        if self.tuned_for:
            found["steps_tuned_for"] = self.tuned_for
        if self.checked:
            found["checked"] = self.checked
        return found


def named(
    candidates: Sequence[Candidate], *, sized: bool = False, taken: Collection[str] = ()
) -> list[Candidate]:
    """Give the candidates symbols: distinct C identifiers, made of the operators' names.

    If an operator occurs more than once, its sizes are added: matmul_512x512x512. With `sized` they
    are always added. No operator is named as in `taken`.
    """
    often = Counter(c.operator(taken) for c in candidates)
    found: list[Candidate] = []
    for c in candidates:
        operator = c.operator(taken)
        name = f"{operator}_{_sizes(c.task)}" if sized or often[operator] > 1 else operator
        found.append(replace(c, symbol=unused(name, [other.symbol for other in found])))
    return found


def unused(name: str, taken: Collection[str]) -> str:
    """`name`, or the first of `name_2`, `name_3`, ... that is not in `taken`.

    >>> unused("softmax", ["softmax", "softmax_2"])
    'softmax_3'
    """
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def _identifier(name: str) -> str:
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    if text == "main":
        return "kernel"
    # A function called exp would replace that of the C library.
    known = has_meaning(text) or keyword.iskeyword(text) or _in_c_library(text)
    if not text or text[0].isdigit() or known or text.lower().startswith(OWN):
        return f"kernel_{text}"
    return text


def _in_c_library(name: str) -> bool:
    return any(hasattr(library, name) for library in _c_libraries())


@cache
def _c_libraries() -> list[ctypes.CDLL]:
    """The C libraries alone, not all that this process has loaded.

    The whole process if none is found under the usual names.
    """
    found = []
    for name in ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"):
        with suppress(OSError):
            found.append(ctypes.CDLL(name))
    return found or [ctypes.CDLL(None)]


def _sizes(task: Task) -> str:
    """The arguments of a built-in operator, else all extents: `512x512x512`."""
    workload = task.workload.to_json()
    args = workload.get("args")
    if isinstance(args, dict) and args:
        parts = [_text(value) for value in args.values() if value != "float32"]
    else:
        parts = ["x".join(_text(e) for e in t.shape) for t in task.tensors]
    return "x".join(parts)


def _text(value: Any) -> str:
    return re.sub(r"\W+", "_", str(value), flags=re.ASCII).strip("_")


def parameter(p: ParamSpec) -> dict[str, Any]:
    """The description of an array argument for the JSON file of the export."""
    shape = list(p.shape or ())
    entry = {"name": p.name, "dtype": p.dtype, "shape": shape, "output": p.is_output}
    if p.layout is not None:
        dims = [list(d) for d in p.layout.dims]
        entry["layout"] = {"shape": list(p.layout.shape), "dims": dims, "text": p.layout.text}
    return entry


def tools() -> dict[str, str]:
    """The versions of the packages that created the files."""
    found = {}
    for name in ("autosched", "llvmlite", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
