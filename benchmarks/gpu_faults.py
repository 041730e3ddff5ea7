"""Kernels that hang, trap or write out of bounds, for benchmarks/gpu.py."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from gpu_bench import Bench

from autosched.driver import build_cuda
from autosched.measure.gpu_runner import GpuRunner
from autosched.measure.run_options import RunOptions
from autosched.runtime.cuda_artifact import Kernel, Launch
from autosched.search.space import SearchSpace
from autosched.task import Task

_KERNEL = """\
extern "C" __global__ void __launch_bounds__(64) NAME(const float* a, const float* b, float* c) {
  BODY
}
"""
# The fault, its code, the number of launches, the expected kind of failure, and the behaviour of a
# fake GPU.
FAULTS: tuple[tuple[str, str, int, str, dict[str, Any]], ...] = (
    (
        "endless loop",
        "while (*(volatile const float*)a == *(volatile const float*)a) {}",
        *(1, "timeout", {"hang": True}),
    ),
    (
        "illegal address",
        "*(volatile float*)((unsigned long long)c + (1ull << 40)) = 1.f;",
        *(1, "crash", {"run": 700}),
    ),
    (
        "misaligned address",
        "*(volatile float*)((char*)c + 1) = 1.f;",
        *(1, "crash", {"run": 716}),
    ),
    ("trap", "__trap();", 1, "crash", {"run": 719}),
    ("wrong numbers", "c[threadIdx.x] = 1.f;", 1, "wrong_answer", {"wrong": "value"}),
    (
        "a write behind the output",
        "c[64 * 64 + threadIdx.x] = 1.f;",
        *(1, "wrong_answer", {"wrong": "guard"}),
    ),
    (
        "full launch queue",
        "while (*(volatile const float*)a == *(volatile const float*)a) {}",
        *(3000, "timeout", {"hang": True}),
    ),
)


def faults(bench: Bench) -> None:
    """Measure each fault between two good candidates: it must cost one measurement only."""
    task = Task.from_workload("matmul", M=64, N=64, K=64, target=bench.target)
    (steps, *_) = SearchSpace(task).sample(np.random.default_rng(0), 1)
    good = build_cuda(task.dag, steps, task.target, task.function_name)
    batch = [good.to_bytes()]
    for number, (_, body, launches, _, fake) in enumerate(FAULTS):
        name = f"fault_{number}"
        source = _KERNEL.replace("NAME", name).replace("BODY", body)
        cubin = json.dumps(fake).encode() if bench.fake else bench.compile(source)
        artifact = replace(
            good,
            kernels=(Kernel(name, (1, 1, 1), (64, 1, 1), 0, 0),),
            plan=(Launch(name, tuple(spec.name for spec in good.params)),) * launches,
            source=source,
            cubins={bench.arch: cubin},
        )
        batch += [artifact.to_bytes(), good.to_bytes()]
    options = RunOptions(timeout=2.0)
    runner = GpuRunner(options)
    try:
        results = runner.run(task, batch)
    finally:
        runner.close()
    bench.report.add("| fault | must be | was |", "|---|---|---|")
    for (what, _, _, kind, _), (_, failure) in zip(FAULTS, results[1::2], strict=True):
        found = "measured" if failure is None else failure.kind
        bench.report.add(f"| {what} | {kind} | {found} |")
        if found != kind:
            bench.report.fail(f"{what}: expected {kind}, found {failure or found}")
    kept = sum(failure is None and bool(seconds) for seconds, failure in results[::2])
    bench.report.add("", f"{kept} of {len(FAULTS) + 1} good candidates between them were measured.")
    if kept < len(FAULTS) + 1:
        bench.report.fail("a fault cost more than one measurement")
