"""Issue Python warnings at the user's line, however deep in the package the cause is."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

Tell = Callable[[str], None]
"""A function that is told a text for the user, such as `warn`."""

_BETWEEN = ("autosched", "contextlib", "functools", "torch")


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line from which the package was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in _BETWEEN
