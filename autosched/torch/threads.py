"""Kernels on the threads that PyTorch computes with."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path

import torch

from autosched.runtime.parallel import Team, borrow_team

_FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_max_threads")


@lru_cache(maxsize=1)
def share_threads() -> None:
    """Let parallel loops of this process run on PyTorch's threads from now on.

    Only where these are OpenMP's, and would otherwise look for work on the cores of autosched's
    own: not with `OMP_WAIT_POLICY=passive`.
    """
    if os.environ.get("OMP_WAIT_POLICY", "").strip().lower() == "passive":
        return
    team = _team()
    if team is not None:
        borrow_team(team)


def _team() -> Team | None:
    """The functions of the OpenMP runtime that PyTorch is linked with; None without one."""
    if "parallel backend: OpenMP" not in torch.__config__.parallel_info():
        return None
    found = sorted((Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*"))
    for path in found:
        try:
            library = ctypes.CDLL(str(path))
            functions = [getattr(library, name) for name in _FUNCTIONS]
        except (OSError, AttributeError):
            continue
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
        return Team(*[address or 0 for address in addresses])
    return None
