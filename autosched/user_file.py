"""The user's own Python files: workloads and sketch rules."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from autosched.errors import ConfigError


def load_object(spec: str, key: str, kind: str) -> tuple[ModuleType, Any]:
    """The module and the object that `spec` (file.py:name) means; the file is run.

    Raises ConfigError that begins with `key` and names the `kind` of object that was expected
    when there is no such file or name, or the file fails.
    """
    path_text, separator, name = str(spec).rpartition(":")
    if not separator or not path_text or not name.isidentifier():
        raise ConfigError(f"{key}: expected file.py:{kind}, found {spec!r}")
    path = Path(path_text)
    if not path.is_file():
        raise ConfigError(
            f"{key}: there is no file {path_text}; relative paths begin in the current folder, "
            f"{Path.cwd()}"
        )
    module = _load(path, key)
    if not hasattr(module, name):
        raise ConfigError(f"{key}: {path_text} defines no {kind} {name}")
    return module, getattr(module, name)


def _load(path: Path, key: str) -> ModuleType:
    """The file as a module; its folder is on the path while it runs."""
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(f"autosched_user_{digest}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{key}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{key}: {path} failed: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module
