"""The default number of processes that build candidates."""

from __future__ import annotations

from autosched.cpu_cores import usable_cores, usable_threads

_FEWEST = 2
_MOST = {"cpu": 8, "cuda": 16}
"""The most processes: a batch has sixteen candidates by default, and a process takes 60 MB.

Timing on a CPU waits for all of them.
"""


def default_workers(kind: str) -> int:
    """The default number of build processes for a kind of target, at least 2.

    For a CPU it is one per usable core, at most 8. For a GPU it is one per hardware thread but one,
    at most 16, because builds do not disturb timing on the GPU and CUDA C takes a second to
    compile.
    """
    cores = usable_cores() if kind == "cpu" else usable_threads() - 1
    return min(_MOST[kind], max(_FEWEST, cores))
