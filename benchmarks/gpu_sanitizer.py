"""Run faulty kernels under compute-sanitizer, each in its own process, for benchmarks/gpu.py."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gpu_bench import Bench

from autosched.driver import lower_steps, lower_to_kernels
from autosched.errors import CompileError, ScheduleError
from autosched.referee.mutants import mutants
from autosched.runtime.cuda_artifact import CudaArtifact, cuda_artifact
from autosched.runtime.device import Device
from autosched.runtime.launch_plan import LoadedPlan
from autosched.search.options import SearchOptions, SpaceName
from autosched.search.space import SearchSpace
from autosched.task import Task
from autosched.tir.function import PrimFunc
from autosched.workloads.workload import shape_of

SCRIPT = Path(__file__).with_name("gpu.py")
_FOUND = 77  # compute-sanitizer's status after a finding


_TOOLS = {
    "the kernel itself": ("memcheck", "racecheck"),
    "barrier dropped": ("racecheck",),
    "one group fewer waited for": ("racecheck",),
}
_DRAWN = 12
_SIZES = {"M": 128, "N": 128, "K": 128}
# The second and third fill shared memory by asynchronous copies, which racecheck does not follow.
_KERNELS: tuple[tuple[str, dict[str, Any], SpaceName], ...] = (
    ("matmul", _SIZES, "ansor"),
    ("matmul", _SIZES, "autosched"),
    ("matmul", {**_SIZES, "dtype": "float16", "acc_dtype": "float32"}, "autosched"),
    ("softmax", {"M": 16, "N": 1024}, "autosched"),
)


def sanitizer(bench: Bench, share: float = 0.25) -> None:
    """Check that small kernels are clean under compute-sanitizer, then that mutants are found."""
    program = find_sanitizer()
    if program is None:
        bench.report.add("compute-sanitizer is not installed (it comes with the CUDA toolkit).")
        if not bench.fake:
            return
    end = bench.budget.spent + share * bench.budget.left
    found: Counter[tuple[str, str]] = Counter()
    candidates = []
    for name, args, space in _KERNELS:
        task = Task.from_workload(name, target=bench.target, **args)
        candidates.append((task, *_largest(bench, task, space)))
    jobs = [("the kernel itself", task, artifact) for task, _, artifact in candidates]
    if program is not None:
        for task, func, _ in candidates:
            jobs += _mutants(bench, task, func)
        jobs.sort(key=lambda job: job[0] not in _TOOLS)
    for kind, task, artifact in jobs:
        for tool in _TOOLS.get(kind, ("memcheck",)):
            if bench.budget.spent > end:
                found["stopped: no time left", tool] += 1
                continue
            said = launched(program, tool, task, artifact, bench.fake)
            found[kind, f"{tool}: {said}"] += 1
            if kind == "the kernel itself" and not said.startswith(("clean", "ran")):
                bench.report.fail(f"{task.name}: {tool} says: {said}")
    bench.report.add("| kernel | tool: what it found | how many |", "|---|---|---|")
    for (kind, said), number in sorted(found.items()):
        bench.report.add(f"| {kind} | {said} | {number} |")


def _largest(bench: Bench, task: Task, space: SpaceName) -> tuple[PrimFunc, CudaArtifact]:
    """The candidate with the most threads, because a single warp has no races between warps."""
    options = SearchOptions(space=space)
    drawn = SearchSpace(task, options).sample(np.random.default_rng(0), _DRAWN)
    funcs = [lower_steps(task.dag, s, task.target, task.function_name) for s in drawn]
    printed = [(func, cuda_artifact(lower_to_kernels(func), func.name)) for func in funcs]
    func, artifact = max(printed, key=lambda pair: _threads(pair[1]))
    return func, _compiled(bench, artifact)


def _threads(artifact: CudaArtifact) -> int:
    return max(math.prod(kernel.block) for kernel in artifact.kernels)


def _compiled(bench: Bench, artifact: CudaArtifact) -> CudaArtifact:
    return replace(artifact, cubins={bench.arch: bench.compile(artifact.source)})


def _mutants(bench: Bench, task: Task, func: PrimFunc) -> Iterator[tuple[str, Task, CudaArtifact]]:
    """One mutant of each kind."""
    for mutant in {m.kind: m for m in mutants(func)}.values():
        try:
            artifact = cuda_artifact(lower_to_kernels(mutant.func), func.name)
            yield mutant.kind, task, _compiled(bench, artifact)
        except (ScheduleError, CompileError):
            continue


def find_sanitizer() -> str | None:
    """The path of compute-sanitizer, from PATH or from the toolkit of CUDA_HOME."""
    homes = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH"))
    folders = [os.environ.get("PATH", ""), *(f"{home}/bin" for home in homes if home)]
    return shutil.which("compute-sanitizer", path=os.pathsep.join(folders))


def launched(program: str | None, tool: str, task: Task, artifact: CudaArtifact, fake: bool) -> str:
    """The tool's verdict on one launch: clean, found, how the process ended, or ran (no tool)."""
    watch = [program, "--tool", tool, "--error-exitcode", str(_FOUND)] if program else []
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        data = base64.b64encode(artifact.to_bytes()).decode()
        json.dump({"task": task.to_json(), "artifact": data}, file)
        file.flush()
        command = [*watch, sys.executable, str(SCRIPT), "--launch", file.name, *["--fake"] * fake]
        try:
            done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            return "no end within 60 s"
    if program is None and done.returncode == 0:
        return "ran"
    status = {0: "clean", _FOUND: "found"}
    said = status.get(done.returncode, f"ended with status {done.returncode}")
    summary = re.search(rb"SUMMARY: *(.*)", done.stdout + done.stderr)
    return f"{said} ({summary[1].decode(errors='replace') if summary else 'no summary'})"


def launch(path: Path, fake: bool) -> None:
    """Call an artifact once, with each array in its own memory; runs in a separate process."""
    data = json.loads(path.read_text())
    task, artifact = Task.from_json(data["task"]), base64.b64decode(data["artifact"])
    device = open_device(fake)
    plan = CudaArtifact.from_bytes(artifact)
    inputs = [np.ascontiguousarray(array) for array in task.inputs(seed=0)]
    addresses = {}
    for place, (spec, tensor) in enumerate(zip(plan.params, task.tensors, strict=True)):
        size = math.prod(shape_of(tensor)) * tensor.dtype.numpy.itemsize
        addresses[spec.name] = device.alloc(size)
        if place < len(inputs):
            device.upload(addresses[spec.name], inputs[place])
    LoadedPlan(device, device.facts(), plan, addresses).call()
    device.synchronize()
    if not fake:
        end_context()
    sys.exit(0)


def end_context() -> None:
    """End the context: PyCUDA would abort the process, and racecheck reports only at the end."""
    from autosched.runtime.cuda import import_pycuda

    of_driver = import_pycuda().Context
    context = of_driver.get_current()
    of_driver.pop()
    context.detach()


def open_device(fake: bool) -> Device:
    """The GPU, or the fake one of the tests."""
    if not fake:
        from autosched.runtime.cuda import CudaDevice

        return CudaDevice()
    from autosched.runtime.fake_device import FakeDevice
    from kit.fake_gpu import behave_mixed

    return FakeDevice(behave_mixed)
