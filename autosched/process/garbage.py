"""How often Python looks for reference cycles, in the processes that are autosched's own."""

from __future__ import annotations

import gc


def rarely_collect() -> None:
    """Look for cycles once in 500,000 new objects, not in 700, and among these alone: what there is
    already, modules above all, stays.

    Expressions, statements and analyzers form none: they are freed without that. What forms some
    are tensors and their operations, which refer to each other, and a few passes for GPUs.
    """
    gc.set_threshold(500_000, 20, 20)
    gc.freeze()


def never_collect() -> None:
    """Look for no more cycles: where a process ends, its memory goes with it.

    Python otherwise looks through all modules and what is left of a run, in a tenth of a second.
    """
    gc.freeze()
    gc.disable()
