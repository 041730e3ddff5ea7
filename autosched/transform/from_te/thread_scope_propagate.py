"""The storage scope of a buffer that names none."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.tir.expr import IterVar


def infer_scope(scope: str, threads: Sequence[IterVar]) -> str:
    """`scope`, or when it is empty the scope that fits the open thread axes, outermost first.

    Outside of all threads a buffer is global; otherwise the innermost axis decides: one block
    shares it (shared), one thread has its own (local). Virtual threads do not count.
    """
    if scope:
        return scope
    if not threads:
        return "global"
    return "shared" if threads[-1].thread_tag.startswith("blockIdx") else "local"
