"""Memory of arrays stays with the process when they are freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
import autosched
from autosched.features.batched.batch import BatchedFeatures

task = autosched.Task.from_workload("matmul", M=2, N=2, K=2)
{first}
def used():
    return [np.ones(1 << 18) for _ in range(20)]  # 40 MB in arrays of 2 MB

used()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
used()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(first: str) -> int:
    """Pages that the process gets for arrays that are made a second time."""
    text = FAULTS.format(first=first)
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return int(found.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc's malloc")
def test_freed_memory_is_not_given_back() -> None:
    assert _faults("BatchedFeatures(task.dag, task.target)") < 500 < 5000 < _faults("")
