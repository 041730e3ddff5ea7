"""How often Python looks for reference cycles, in the processes that are autosched's own."""

from __future__ import annotations

import gc


def rarely_collect() -> None:
    """Look for cycles once in 500,000 new objects, not in 700.

    Expressions and statements form none: they are freed without that, and a candidate is lowered
    in 12 % less time. What forms some, mostly analyzers, is some 5,000 objects a candidate.
    """
    gc.set_threshold(500_000, 20, 20)


def never_collect() -> None:
    """Look for no more cycles: where a process ends, its memory goes with it.

    Python otherwise looks through all modules and what is left of a run, in a tenth of a second.
    """
    gc.freeze()
    gc.disable()
