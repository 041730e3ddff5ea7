"""The pipelines, read top to bottom, and every pass by name."""

from __future__ import annotations

from collections.abc import Callable

from autosched.transform.module import Pass

PASSES: dict[str, Callable[[], Pass]] = {}
