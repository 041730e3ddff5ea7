"""How many processes build candidates where nothing is said."""

from __future__ import annotations

from autosched.cpu_cores import usable_cores, usable_threads

_FEWEST = 2
_MOST = {"cpu": 8, "cuda": 16}
"""A batch has sixteen candidates, unless it is told otherwise. A process has 60 MB of its own; what
is timed on a CPU waits for all of them."""


def default_workers(kind: str) -> int:
    """How many for a kind of target, at least 2.

    For a CPU one for each core that can be used, at most 8. For a GPU one for each hardware thread
    but one, at most 16: what is timed there is not disturbed by them, and CUDA C takes a second to
    compile.
    """
    cores = usable_cores() if kind == "cpu" else usable_threads() - 1
    return min(_MOST[kind], max(_FEWEST, cores))
