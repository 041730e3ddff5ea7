"""Importing packages that may be missing or broken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from autosched.errors import ConfigError
from autosched.words import in_shell, told, visible

XGBOOST = (
    "install one of xgboost-cpu and xgboost anew, or go without: cost_model.kind random "
    "(--set cost_model.kind=random); autosched doctor says more"
)
"""What to do where XGBoost cannot be imported."""


def needed(name: str, remedy: str, broken: str = "") -> Any:
    """The package. Raises ConfigError, which ends with `remedy`, where its import fails.

    A broken installation raises whatever it meets: a library that cannot be loaded, a name that
    another version does not have. `broken` is what to do then, where that is something else.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise _broken(name, error, broken or remedy) from error
        raise ConfigError(f"{error.name} is not installed; {remedy}") from error
    except Exception as error:
        raise _broken(name, error, broken or remedy) from error


def mended(remedy: str) -> str:
    """What to do about a package whose import fails: `remedy`, unless Python itself may be why."""
    if sys.flags.optimize < 2:
        return remedy
    return (
        "Python runs without docstrings, which some packages need: leave out -OO and "
        f"PYTHONOPTIMIZE=2; where that does not help, {remedy}"
    )


def needed_for(use: str, name: str, install: str) -> Any:
    """As `needed`, for a `use` such as "a plot"; `install` is what pip is to install."""
    package = name.partition(".")[0]
    return needed(
        name,
        f"{use} needs it: pip install {in_shell(install)}",
        f"{use} needs it: pip install --force-reinstall {package}",
    )


@contextmanager
def as_if_missing(package: str) -> Iterator[None]:
    """Inside, `package` is not found, unless it is imported already.

    For what a package imports where it happens to be installed, and nobody here uses.
    """
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # how Python itself marks such names
    try:
        yield
    finally:
        del sys.modules[package]


def _broken(name: str, error: Exception, remedy: str) -> ConfigError:
    why = visible(told(error).splitlines()[0])
    package = name.partition(".")[0]
    return ConfigError(f"{package} is installed and cannot be imported ({why}); {mended(remedy)}")
