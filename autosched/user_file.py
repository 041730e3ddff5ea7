"""The user's own Python files: workloads, inputs, passes and sketch rules.

Whoever writes a file's name into a configuration or a call has it run. A record is data: the files
that it names are run only if this process already ran them, or inside `trusting()`.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from autosched.arguments import found
from autosched.errors import ConfigError
from autosched.output_file import real_path
from autosched.words import told, visible

_TRUSTING: ContextVar[bool] = ContextVar("trusting", default=False)
_RAN: set[Path] = set()
_OURS = f"{Path(__file__).parent}{os.sep}"
_RUNNING: ContextVar[frozenset[Path]] = ContextVar("running", default=frozenset())


@contextmanager
def trusting(yes: bool = True) -> Iterator[None]:
    """Python files that records name may be run while this is open.

        with autosched.trusting():
            kernel = autosched.load_best("mine.jsonl")  # a record of my_ops.py:my_matmul

    `yes` false changes nothing.
    """
    token = _TRUSTING.set(yes or _TRUSTING.get())
    try:
        yield
    finally:
        _TRUSTING.reset(token)


@contextmanager
def watched(what: str) -> Iterator[None]:
    """Errors of the user's code that is called inside are a ConfigError with `what` and the line.

    The line is the outermost one that is not autosched's.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if not frame.filename.startswith(_OURS)]
        place = f"{theirs[0].filename}:{theirs[0].lineno}" if theirs else "the call"
        raise ConfigError(f"{what} failed at {place}: {told(error)}") from error


def require_trusted(spec: str, key: str) -> None:
    """Raise ConfigError unless the file of `spec` (file.py:name), which a record names, may run."""
    path = Path(str(spec).rpartition(":")[0])
    whole = _whole(path, key)
    if not _TRUSTING.get() and whole not in _RAN:
        raise ConfigError(
            f"{key}: a record names {visible(str(spec))}, and records run no code by themselves; "
            "where you trust that file, add --trust, in Python use `with autosched.trusting():`"
        )


def load_object(spec: str, key: str, kind: str) -> tuple[ModuleType, Any]:
    """The module and the object that `spec` (file.py:name) means; the file is run.

    Raises ConfigError that begins with `key` and names the `kind` of object that was expected
    when there is no such file or name, or the file fails.
    """
    path_text, separator, name = str(spec).rpartition(":")
    if not separator or not path_text or not name.isidentifier():
        raise ConfigError(f"{key}: expected file.py:{kind}, found {spec!r}")
    path = Path(path_text)
    _whole(path, key)  # or it is said why there is none
    if not path.is_file():
        raise ConfigError(
            f"{key}: there is no file {visible(path_text)}; relative paths begin in the current "
            f"folder, {Path.cwd()}"
        )
    module = _load(path, key)
    if not hasattr(module, name):
        raise ConfigError(f"{key}: {path_text} defines no {kind} {name}")
    return module, getattr(module, name)


def spec_of(function: Any, key: str) -> str:
    """`file.py:name` of a function at the top level of a file, which other processes load.

    Relative to the current folder where it is below it. Raises ConfigError that begins with `key`.
    """
    name = getattr(function, "__qualname__", None)
    code = getattr(function, "__code__", None)
    if name is None or code is None:
        raise ConfigError(f"{key}: expected a function or file.py:function, {found(function)}")
    return _spec(name, code.co_filename, key, "def")


def spec_of_class(defined: type, key: str) -> str:
    """As `spec_of`, of a class."""
    file = getattr(sys.modules.get(defined.__module__), "__file__", None)
    return _spec(defined.__qualname__, file or "", key, "class")


def _spec(name: str, file: str, key: str, word: str) -> str:
    path = Path(file).absolute()
    if not name.isidentifier() or not path.is_file():
        raise ConfigError(
            f"{key}: {visible(name)} is not at the top level of a file, from which the processes "
            f"that build and check kernels load it; define it there, with {word}"
        )
    return f"{_from_here(path)}:{name}"


def _from_here(path: Path) -> Path:
    """Relative to the current folder, where there is one and the path is below it."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was deleted
        return path
    return path.relative_to(here) if path.is_relative_to(here) else path


def _whole(path: Path, key: str) -> Path:
    """The whole path, without links. ConfigError where there is none, as of a deleted folder."""
    if "\0" in str(path):
        raise ConfigError(f"{key}: expected the name of a file, found {visible(str(path))}")
    try:
        return real_path(path)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error


class _AsItIsNow(SourceFileLoader):
    """Compiles the file each time: stored byte code of an edit a second ago looks up to date."""

    def path_stats(self, path: str) -> NoReturn:
        """None: byte code is then neither read nor written."""
        raise OSError


def _load(path: Path, key: str) -> ModuleType:
    """The file as a module, which may import files beside it, also in functions called later.

    Its folder is the first on the path while it runs, and the last from then on.
    """
    running = _RUNNING.get()  # by this thread
    if path.resolve() in running:
        raise ConfigError(
            f"{key}: {visible(str(path))} asks for itself while it is run; put what makes tasks "
            'of its functions under `if __name__ == "__main__":`'
        )
    digest = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]
    name = f"autosched_user_{digest}"
    _require_own_neighbours(path, key)
    loader = _AsItIsNow(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{key}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    sys.modules[name] = module  # where dataclass looks up annotations
    token = _RUNNING.set(running | {path.resolve()})
    try:
        _RAN.add(path.resolve())
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{key}: {failure_in(path, error)}") from error
    finally:
        _RUNNING.reset(token)
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)
    return module


def _require_own_neighbours(path: Path, key: str) -> None:
    """Raise ConfigError where the file would import one beside another user's file, not its own."""
    folder = path.resolve().parent
    others = {ran.parent for ran in _RAN} - {folder}
    for name in _imported(path):
        own = next((p for p in _places(folder, name) if p.is_file()), None)
        file = getattr(sys.modules.get(name), "__file__", None) or ""
        if own and any(Path(file) in _places(other, name) for other in others):
            raise ConfigError(
                f"{key}: {visible(str(path))} imports {name}, which stands beside it, but {file} "
                "was imported under that name before; give one of the two another name"
            )


def _places(folder: Path, name: str) -> tuple[Path, Path]:
    """Where the module of that name may stand in a folder."""
    return folder / f"{name}.py", folder / name / "__init__.py"


def _imported(path: Path) -> set[str]:
    """The first names of all modules that statements of the file import."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return set()
    nodes = list(ast.walk(tree))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def failure_in(
    path: str | Path, error: BaseException, name: str = "", line: int | None = None
) -> str:
    """`my_ops.py:7: my_matmul failed: KeyError: 'n'`: where in the user's file `error` arose.

    The line is the last one of that file on the way to the error, `line` where none was. `name` is
    the function that was called; without one, the file itself failed. The text is one line, for of
    the lines of a failed candidate's message the last is shown.
    """
    for frame in traceback.extract_tb(error.__traceback__):
        if _same(frame.filename, path):
            line = frame.lineno
    if line is None and isinstance(error, SyntaxError) and _same(error.filename or "", path):
        line = error.lineno
    where = str(path) if line is None else f"{path}:{line}"
    failed = f"{name} failed" if name else "the file failed"
    return f"{where}: {failed}: {' '.join(told(error).split())}"


def _same(one: str, other: str | Path) -> bool:
    try:
        return bool(one) and Path(one).resolve() == Path(other).resolve()
    except FileNotFoundError:  # `<frozen ...>`, and the current folder was deleted
        return False


def line_of(function: Any, path: str | Path) -> int | None:
    """The line of the user's file `path` in which `function` begins; None where it is another's."""
    code = getattr(function, "__code__", None)
    return None if code is None or not _same(code.co_filename, path) else code.co_firstlineno


def place_of(function: Any, path: str | Path, name: str) -> str:
    """`my_ops.py:7: my_matmul`: where the user's file defines `function`, as far as it is known."""
    line = line_of(function, path)
    return f"{path}: {name}" if line is None else f"{path}:{line}: {name}"
