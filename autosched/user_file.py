"""The user's own Python files: workloads, inputs, passes and sketch rules.

A file that is named in a configuration or a call is run. A record is data: a file that it names is
run only if this process already ran it, or inside `trusting()`.
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
from autosched.user_source import parsed_source
from autosched.words import told, visible

_TRUSTING: ContextVar[bool] = ContextVar("trusting", default=False)
_RAN: set[Path] = set()
_OURS = f"{Path(__file__).parent}{os.sep}"
_RUNNING: ContextVar[frozenset[Path]] = ContextVar("running", default=frozenset())


@contextmanager
def trusting(yes: bool = True) -> Iterator[None]:
    """Allow Python files that records name to run inside this context.

        with autosched.trusting():
            kernel = autosched.load_best("mine.jsonl")  # a record of my_ops.py:my_matmul

    `yes` = False changes nothing.
    """
    token = _TRUSTING.set(yes or _TRUSTING.get())
    try:
        yield
    finally:
        _TRUSTING.reset(token)


@contextmanager
def watched(what: str) -> Iterator[None]:
    """Turn errors of the user's code that is called inside into a ConfigError.

    It begins with `what` and gives the line of the outermost frame outside of autosched.
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
    """Run the file of `spec` (file.py:name); returns its module and the object of that name.

    Raises ConfigError, beginning with `key` and naming the `kind` of object that was expected, when
    there is no such file or name, or the file fails.
    """
    path_text, separator, name = str(spec).rpartition(":")
    if not separator or not path_text or not name.isidentifier():
        raise ConfigError(f"{key}: expected file.py:{kind}, found {spec!r}")
    path = Path(path_text)
    _whole(path, key)  # raises a ConfigError of its own
    if not path.is_file():
        raise ConfigError(
            f"{key}: there is no file {visible(path_text)}; relative paths start from the current "
            f"folder, {Path.cwd()}"
        )
    module = _load(path, key)
    if not hasattr(module, name):
        raise ConfigError(f"{key}: {path_text} defines no {kind} {name}")
    return module, getattr(module, name)


def load_made(spec: str, key: str, kind: str) -> Any:
    """The object of `spec` (file.py:name), or an object of it where it is a class.

    Raises ConfigError as `load_object` does, and where the class cannot be called without
    arguments.
    """
    _, found = load_object(spec, key, kind)
    if not isinstance(found, type):
        return found
    path, _, name = spec.rpartition(":")
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{key}: {failure_in(path, error, f'{name}()')}") from error


def require_no_class(given: Any, where: str) -> None:
    """Raise ConfigError for a class in the place of an object of it."""
    if isinstance(given, type):
        name = given.__name__
        raise ConfigError(f"{where}: {name} is a class, not an object of it; give {name}()")


def tell_seed(given: Any, number: int, shown: str) -> None:
    """Tell a user's object the seed of a run, if it has a method `seed`; errors name `shown`."""
    with watched(f"{shown}: seed"):
        tell = getattr(given, "seed", None)
        if callable(tell):
            tell(number)


def spec_of(function: Any, key: str) -> str:
    """`file.py:name` of a function at the top level of a file, from which other processes load it.

    The path is relative to the current folder where the file is below it. Raises ConfigError that
    begins with `key`.
    """
    name = getattr(function, "__qualname__", None)
    code = getattr(function, "__code__", None)
    if name is None or code is None:
        raise ConfigError(f"{key}: expected a function or file.py:function, {found(function)}")
    return _spec(name, code.co_filename, key, "def")


def spec_of_class(defined: type, key: str) -> str:
    """The same as `spec_of`, for a class."""
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
    """The path relative to the current folder, where that exists and the path is below it."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was deleted
        return path
    return path.relative_to(here) if path.is_relative_to(here) else path


def _whole(path: Path, key: str) -> Path:
    """The absolute path without links. ConfigError where there is none (a deleted folder)."""
    if "\0" in str(path):
        raise ConfigError(f"{key}: expected the name of a file, found {visible(str(path))}")
    try:
        return real_path(path)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error


class _AsItIsNow(SourceFileLoader):
    """Compiles the file each time: cached byte code looks up to date for an edit a second ago."""

    def path_stats(self, path: str) -> NoReturn:
        """Refuse, so that cached byte code is neither read nor written."""
        raise OSError


def _load(path: Path, key: str) -> ModuleType:
    """Run the file as a module that may import files beside it, also later in functions.

    Its folder is the first on the path while the file runs, and the last from then on.
    """
    running = _RUNNING.get()  # files that this thread is running
    if path.resolve() in running:
        raise ConfigError(
            f"{key}: {visible(str(path))} makes a task of its own functions while it is being "
            'loaded; put that code under `if __name__ == "__main__":`'
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
    sys.modules[name] = module  # dataclass looks up annotations there
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
    """Raise ConfigError where an import of the file would find another user file's neighbour.

    That happens when a module of the same name beside another user's file was imported before.
    """
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
    """The paths at which a module of that name may be in a folder."""
    return folder / f"{name}.py", folder / name / "__init__.py"


def _imported(path: Path) -> set[str]:
    """The top-level names of all modules that the file's statements import."""
    nodes = list(ast.walk(parsed_source(path)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def failure_in(
    path: str | Path, error: BaseException, name: str = "", line: int | None = None
) -> str:
    """Where in the user's file `error` arose: `my_ops.py:7: my_matmul failed: KeyError: 'n'`.

    The line is the last one of that file in the traceback, or `line` where there is none. `name` is
    the function that was called; without one, the file itself failed. The text is a single line,
    because only the last line of a failed candidate's message is shown.
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
    """The line of the user's file `path` where `function` begins; None if not defined there."""
    code = getattr(function, "__code__", None)
    return None if code is None or not _same(code.co_filename, path) else code.co_firstlineno


def place_of(function: Any, path: str | Path, name: str) -> str:
    """Where the user's file defines `function`, as far as known: `my_ops.py:7: my_matmul`."""
    line = line_of(function, path)
    return f"{path}: {name}" if line is None else f"{path}:{line}: {name}"
