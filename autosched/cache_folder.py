"""The folder where tuned kernels are kept between processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from autosched import arguments
from autosched.errors import ConfigError

VARIABLE = "AUTOSCHED_CACHE"


def cache_folder() -> Path:
    """`$AUTOSCHED_CACHE`, or the folder `autosched/kernels` of the user's caches (XDG).

    Raises ConfigError where the user has none.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return folder_of(VARIABLE, given)
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if caches.is_absolute():  # others are to be ignored, says the standard
        return caches / "autosched" / "kernels"
    try:
        return Path.home() / ".cache" / "autosched" / "kernels"
    except RuntimeError:
        raise ConfigError(
            f"there is no home folder for the cache of kernels; set {VARIABLE} to a folder"
        ) from None


def folder_of(name: str, value: Any) -> Path:
    """`value`, called `name` in messages, as an absolute path. Raises ConfigError if it is none."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigError(f"{name}: expected the path of a folder, {arguments.found(value)}")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError(f"{name}: {text}: no user of that name has a home folder") from error
    except FileNotFoundError as error:
        raise ConfigError(
            f"{name}: {text} leads nowhere: the current folder was deleted; give an absolute path"
        ) from error
