"""Keep the memory of freed arrays in the process, because other arrays need it soon."""

from __future__ import annotations

import contextlib

import numpy as np

_LARGEST = (1 << 25) - (1 << 16)
"""Bytes of the largest mapping that counts for glibc (its `DEFAULT_MMAP_THRESHOLD_MAX`)."""


def keep_freed() -> None:
    """Let the C library keep up to 64 MB of free memory.

    glibc returns memory beyond twice the largest mapping that was freed (`M_MMAP_THRESHOLD` in
    mallopt(3)) to the system, and then asks for it again, page by page. The mapping that is made
    and freed here raises that limit; none of its pages is ever touched.
    """
    with contextlib.suppress(MemoryError):  # without free memory, there is none to keep
        np.empty(_LARGEST, np.uint8)
