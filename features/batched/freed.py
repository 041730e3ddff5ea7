"""What arrays take stays with the process when they are freed: other arrays take it soon."""

from __future__ import annotations

import contextlib

import numpy as np

_LARGEST = (1 << 25) - (1 << 16)
"""Bytes, of the largest mapping that counts (`DEFAULT_MMAP_THRESHOLD_MAX` of glibc)."""


def keep_freed() -> None:
    """Let the C library keep up to 64 MB that are free.

    glibc gives memory back beyond twice the largest mapping that was freed (`M_MMAP_THRESHOLD` in
    mallopt(3)), and then asks for it again, page by page. No page of this one is ever touched.
    """
    with contextlib.suppress(MemoryError):  # then there is none to keep
        np.empty(_LARGEST, np.uint8)
