"""Linking of a library with the system's C compiler, or with one that pip installs."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from autosched.errors import CompileError

NO_LINKER = (
    "no C compiler was found (CC, cc, gcc, clang, or the package ziglang), so nothing is linked"
)


def linker() -> list[str] | None:
    """The command of a C compiler that links: CC, cc, gcc, clang, or `python -m ziglang cc`.

    None if there is none. Raises CompileError if CC is not a command that exists.
    """
    named = os.environ.get("CC", "").strip()
    if named:
        try:
            words = shlex.split(named)
        except ValueError as error:
            problem = f"CC={named}: {str(error).lower()}; expected a command in shell syntax"
            raise CompileError(problem, kind="environment") from error
        if shutil.which(words[0]) is None:
            raise CompileError(f"CC={named}: {words[0]} was not found", kind="environment")
        return words
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found is not None:
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def link(
    command: Sequence[str], objects: Sequence[Path], output: Path, symbols: Sequence[str]
) -> None:
    """Link the shared library `output`, which exports only `symbols` and binds calls to itself.

    It is never unloaded, because its threads run its code. Raises CompileError with the output of
    the linker.
    """
    arguments = [*command, "-shared", "-o", str(output), *map(str, objects)]
    exports = output.with_suffix(".exports")
    if sys.platform == "linux":
        names = "".join(f"  {symbol};\n" for symbol in symbols)
        exports.write_text(f"{{\nglobal:\n{names}local:\n  *;\n}};\n")
        script = ["-Xlinker", "--version-script", "-Xlinker", str(exports)]  # -Wl, ends at a comma
        arguments += [*script, f"-Wl,-soname,{output.name},-z,nodelete,-z,defs,-Bsymbolic"]
    try:
        done = subprocess.run([*arguments, "-lm", "-lpthread"], capture_output=True, text=True)
    except OSError as error:
        raise CompileError(
            f"{shlex.join(command)} cannot be started: {error}", kind="environment"
        ) from error
    finally:
        exports.unlink(missing_ok=True)
    if done.returncode or not output.is_file():  # CC=true, or SIGCHLD is ignored
        said = done.stderr.strip() or f"nothing, its status is {done.returncode}"
        raise CompileError(f"linking {output.name} failed: {shlex.join(command)} says\n{said}")
