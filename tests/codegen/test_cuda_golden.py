"""A golden CUDA candidate of each kind of workload, compiled for two architectures.

`benchmarks/golden_cuda.py` compiles all of them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from autosched import workloads
from autosched.driver import build_cuda, cuda_source, lower_for_features
from autosched.errors import ScheduleError
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_from_json
from autosched.target import cuda_target
from kit.golden_lines import golden_candidates

CHOSEN = ("matmul", "conv2d_nhwc", "softmax", "norm_bmn")


@cache
def lines() -> list[dict[str, Any]]:
    return list(golden_candidates("ansor_v06.jsonl.gz", target="cuda"))


def candidate(workload: str) -> tuple[ComputeDAG, Any]:
    """The first golden candidate of a workload within the limits of a GPU."""
    for line in lines():
        if line["workload"] == workload:
            dag = ComputeDAG(workloads.get(workload).tensors(**line["args"]))
            steps = steps_from_json(line["steps"])
            try:
                lower_for_features(dag, steps, cuda_target())
            except ScheduleError:
                continue
            return dag, steps
    raise AssertionError(f"no golden candidate of {workload} for CUDA")


@pytest.mark.parametrize("workload", CHOSEN)
def test_golden_candidates_compile(workload: str) -> None:
    dag, steps = candidate(workload)
    for arch in ("sm_80", "sm_90"):
        artifact = build_cuda(dag, steps, cuda_target(arch), workload)
        assert artifact.cubins[arch].startswith(b"\x7fELF")
        names = [kernel.name for kernel in artifact.kernels]
        assert names[0] == f"{workload}_kernel"
        for name in names:
            used = artifact.resources[arch][name]
            assert used.registers is not None
            assert 0 < used.registers <= 255


def test_an_equal_candidate_has_an_equal_source() -> None:
    """What is compiled is found again in the cache: names do not depend on objects."""
    sources = [cuda_source(*candidate("matmul"), cuda_target(), "matmul").source for _ in range(2)]
    assert sources[0] == sources[1]
