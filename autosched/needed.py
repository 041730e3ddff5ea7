"""Importing packages that may be missing or broken."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from autosched.errors import ConfigError
from autosched.words import visible

XGBOOST = (
    "install one of xgboost-cpu and xgboost anew, or go without: cost_model.kind random "
    "(--set cost_model.kind=random); autosched doctor says more"
)
"""What to do where XGBoost cannot be imported."""


def needed(name: str, remedy: str) -> Any:
    """The package. Raises ConfigError, which ends with `remedy`, where its import fails.

    A broken installation raises whatever it meets: a library that cannot be loaded, a name that
    another version does not have.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise _broken(name, error, remedy) from error
        raise ConfigError(f"{error.name} is not installed; {remedy}") from error
    except Exception as error:
        raise _broken(name, error, remedy) from error


def _broken(name: str, error: Exception, remedy: str) -> ConfigError:
    why = visible(f"{type(error).__name__}: {error}".splitlines()[0])
    return ConfigError(f"{name} is installed and cannot be imported ({why}); {remedy}")
