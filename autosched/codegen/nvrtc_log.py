"""Read NVRTC's log: the resources of each kernel, and where an error is.

The forms were read from logs of NVRTC 12.9 and 13.5 run with `--ptxas-options=-v`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autosched.errors import CompileError

# The patterns are compiled at their first use: compiling them here would take 15 ms of every
# process that builds, for CPUs, too.
_ENTRY = r"ptxas info\s*: Compiling entry function '(?P<name>[^']+)' for '(?P<arch>\w+)'"
_SPILLS = (
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED = r"ptxas info\s*: Used (?P<registers>\d+) registers(?P<rest>.*)"
_SHARED = r"(\d+)(?:\+\d+)? bytes smem"
_ERROR = r"(?m)^[^\s(]+\((?P<line>\d+)\): (?:catastrophic )?error(?: #\d+(?:-D)?)?: (?P<text>.*)$"
_PTXAS = r"(?m)^\s*ptxas (?:.*; )?\s*(?:error|fatal)\s*: (?P<text>.*)$"
_TOO_MUCH = ("uses too much", "too many resources", "too much data", "exceeds the maximum")
_NO_MEMORY = ("bad_alloc", "out of memory")
_BUILTINS = "libnvrtc-builtins"


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of one kernel, as ptxas reports them; None where the log does not say.

    `registers` is per thread. `stack`, `spill_stores` and `spill_loads` are bytes per thread.
    `shared` is bytes of static shared memory per block.
    """

    registers: int | None = None
    stack: int | None = None
    spill_stores: int | None = None
    spill_loads: int | None = None
    shared: int | None = None


def resources(log: str) -> dict[str, Resources]:
    """The resources of each entry function in the log, by its name."""
    found: dict[str, Resources] = {}
    parts = re.split(_ENTRY, log)
    # split() puts the groups name and arch before the text that belongs to them.
    for name, text in zip(parts[1::3], parts[3::3], strict=True):
        spills, used = re.search(_SPILLS, text), re.search(_USED, text)
        shared = None if used is None else re.search(_SHARED, used["rest"])
        found[name] = Resources(
            registers=None if used is None else int(used["registers"]),
            stack=None if spills is None else int(spills["stack"]),
            spill_stores=None if spills is None else int(spills["stores"]),
            spill_loads=None if spills is None else int(spills["loads"]),
            # A kernel without static shared memory has no such part in the line.
            shared=None if used is None else 0 if shared is None else int(shared[1]),
        )
    return found


def compile_error(
    log: str, source: str, status: str, statements: Mapping[int, str]
) -> CompileError:
    """The error that a failed compile raises.

    `status` is NVRTC's name of the failure. `statements` has the TIR statements of source lines.
    The error's kind is `illegal` if the kernel asks for more than the machine has, `memory` if the
    compiler ran out of memory, `environment` if files of the compiler are missing, and else
    `error`, a mistake of the code generator.
    """
    kind = _kind(log + status)
    found = re.search(_ERROR, log)
    if found is None:
        other = re.search(_PTXAS, log)
        text = other["text"] if other is not None else log.strip() or status
        return CompileError(f"nvrtc: {text}", kind=kind)
    line = int(found["line"])
    statement = statements.get(line, "")
    message = f"nvrtc: line {line}: {found['text']}\n{_excerpt(source, line)}"
    if statement:
        message += f"\nmade from: {statement}"
    return CompileError(message, kind=kind, line=line, statement=statement)


def _kind(text: str) -> str:
    if any(part in text for part in _TOO_MUCH):
        return "illegal"
    if _BUILTINS in text or "BUILTIN_OPERATION_FAILURE" in text:
        return "environment"
    if any(part in text.lower() for part in _NO_MEMORY) or "OUT_OF_MEMORY" in text:
        return "memory"
    return "error"


def _excerpt(source: str, line: int) -> str:
    lines = source.split("\n")
    shown = range(max(1, line - 1), min(len(lines), line + 1) + 1)
    width = len(str(shown[-1])) if shown else 1
    return "\n".join(f"{'>' if n == line else ' '} {n:{width}} | {lines[n - 1]}" for n in shown)
