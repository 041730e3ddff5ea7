"""Import packages that may be missing or broken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from traceback import walk_tb
from typing import Any

from autosched.errors import ConfigError
from autosched.words import in_shell, told, visible

XGBOOST = (
    "install one of xgboost-cpu and xgboost anew, or go without: cost_model.kind random "
    "(--set cost_model.kind=random); autosched doctor says more"
)
"""The remedy where XGBoost cannot be imported."""

_REQUIRED = {
    "llvmlite": "llvmlite",
    "ml_dtypes": "ml_dtypes",
    "numpy": "numpy",
    "pydantic": "pydantic",
    "rich": "rich",
    "ruamel": "ruamel.yaml",
    "typer": "typer",
}  # packages that every installation has: module -> distribution


def needed(name: str, remedy: str, broken: str = "") -> Any:
    """Import a package. Raises ConfigError, which ends with `remedy`, where that fails.

    A broken installation may raise anything: a library that cannot be loaded, a name that another
    version lacks. `broken` is the remedy in that case, where it is another one.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise _broken(name, error, broken or remedy) from error
        raise ConfigError(f"{error.name} is not installed; {remedy}") from error
    except Exception as error:
        raise _broken(name, error, broken or remedy) from error


def failed_import(error: Exception) -> ConfigError | None:
    """The error to show if `error` ended the import of a package that autosched always needs."""
    importing = [
        str(frame.f_globals.get("__name__")).partition(".")[0]
        for frame, _ in walk_tb(error.__traceback__)
        if frame.f_code.co_name == "<module>"
    ]
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing in _REQUIRED and missing not in importing:
        return ConfigError(f"{missing} is not installed; pip install {_REQUIRED[missing]}")
    # NumPy writes a page of its own around the cause.
    why = error.__cause__ if isinstance(error.__cause__, Exception) else error
    for name in reversed(importing):
        if name in _REQUIRED:
            return _broken(name, why, f"pip install --force-reinstall {_REQUIRED[name]}")
    return None


def mended(remedy: str) -> str:
    """The remedy for a package whose import fails: `remedy`, unless -OO may be the cause."""
    if sys.flags.optimize < 2:
        return remedy
    return (
        "Python runs without docstrings, which some packages need: leave out -OO and "
        f"PYTHONOPTIMIZE=2; where that does not help, {remedy}"
    )


def needed_for(use: str, name: str, install: str) -> Any:
    """Import a package as `needed` does, for a `use` such as "a plot".

    `install` is the argument for pip.
    """
    package = name.partition(".")[0]
    return needed(
        name,
        f"{use} needs it: pip install {in_shell(install)}",
        f"{use} needs it: pip install --force-reinstall {package}",
    )


@contextmanager
def as_if_missing(package: str) -> Iterator[None]:
    """Make `package` appear missing inside, unless it is already imported.

    This keeps other packages from importing it where it happens to be installed but is not needed.
    """
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # Python itself marks missing modules so
    try:
        yield
    finally:
        del sys.modules[package]


def _broken(name: str, error: Exception, remedy: str) -> ConfigError:
    why = visible(told(error).splitlines()[0])
    package = name.partition(".")[0]
    return ConfigError(f"{package} is installed and cannot be imported ({why}); {mended(remedy)}")
