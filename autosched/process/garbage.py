"""How often Python looks for reference cycles, in the processes that are autosched's own."""

from __future__ import annotations

import gc


def rarely_collect() -> None:
    """Look for cycles once in 100,000 new objects, not in 700.

    Expressions and statements form none: they are freed without that, and a candidate is lowered
    in 12 % less time.
    """
    gc.set_threshold(100_000, 20, 20)
