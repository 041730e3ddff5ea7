"""Set how often Python collects reference cycles, in autosched's own processes."""

from __future__ import annotations

import gc


def rarely_collect() -> None:
    """Look for cycles once in 500,000 new objects instead of 700, and only among new objects.

    Objects that exist already, above all modules, are never looked at. Expressions, statements and
    analyzers form no cycles and are freed without a collection. Tensors and their operations do,
    which refer to each other, and so do a few passes for GPUs.
    """
    gc.set_threshold(500_000, 20, 20)
    gc.freeze()


def never_collect() -> None:
    """Stop looking for cycles, before a process ends and its memory is freed anyway.

    Python otherwise looks through all modules and the remains of a run, for a tenth of a second.
    """
    gc.freeze()
    gc.disable()
