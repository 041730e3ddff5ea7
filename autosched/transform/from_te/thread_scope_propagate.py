"""Inference of the storage scope of a buffer that names none."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.tir.expr import IterVar


def infer_scope(scope: str, threads: Sequence[IterVar]) -> str:
    """`scope`, or, if it is empty, the scope for the enclosing thread axes (outermost first).

    Outside of all threads a buffer is global. Otherwise the innermost axis decides: shared for
    blockIdx, because the threads of a block share it, and local for threadIdx. Virtual threads do
    not count.
    """
    if scope:
        return scope
    if not threads:
        return "global"
    return "shared" if threads[-1].thread_tag.startswith("blockIdx") else "local"
