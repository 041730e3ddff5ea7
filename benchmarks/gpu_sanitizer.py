"""Faulty kernels under compute-sanitizer, each in a process of its own, for benchmarks/gpu.py."""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
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
from autosched.search.space import SearchSpace
from autosched.task import Task
from autosched.workloads.workload import shape_of

SCRIPT = Path(__file__).with_name("gpu.py")
_FOUND = 77  # compute-sanitizer's status when it found something


def sanitizer(bench: Bench, share: float = 0.2) -> None:
    """Mutants of small kernels under compute-sanitizer; the kernels themselves must be clean."""
    program = find_sanitizer()
    if program is None:
        bench.report.add("compute-sanitizer is not installed (it comes with the CUDA toolkit).")
        if not bench.fake:
            return
    end = bench.budget.spent + share * bench.budget.left
    found: Counter[tuple[str, str]] = Counter()
    kernels: tuple[tuple[str, dict[str, Any]], ...] = (
        ("matmul", {"M": 64, "N": 64, "K": 64}),
        ("softmax", {"M": 16, "N": 256}),
    )
    for name, args in kernels:
        task = Task.from_workload(name, target=bench.target, **args)
        (steps, *_) = SearchSpace(task).sample(np.random.default_rng(0), 1)
        func = lower_steps(task.dag, steps, task.target, task.function_name)
        every = [("the kernel itself", func)]
        if program is not None:
            every += {m.kind: (m.kind, m.func) for m in mutants(func)}.values()
        for kind, changed in every:
            try:
                artifact = cuda_artifact(lower_to_kernels(changed), changed.name)
                artifact = replace(artifact, cubins={bench.arch: bench.compile(artifact.source)})
            except (ScheduleError, CompileError):
                continue
            for tool in ("memcheck", "racecheck"):
                if bench.budget.spent > end:
                    found["stopped: no time left", tool] += 1
                    break
                said = launched(program, tool, task, artifact, bench.fake)
                found[kind, f"{tool}: {said}"] += 1
                if kind == "the kernel itself" and said not in ("clean", "ran"):
                    bench.report.fail(f"{task.name}: {tool} says: {said}")
    bench.report.add("| kernel | tool: what it found | how many |", "|---|---|---|")
    for (kind, said), number in sorted(found.items()):
        bench.report.add(f"| {kind} | {said} | {number} |")


def find_sanitizer() -> str | None:
    """The program, on PATH or in the toolkit that CUDA_HOME names."""
    homes = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH"))
    folders = [os.environ.get("PATH", ""), *(f"{home}/bin" for home in homes if home)]
    return shutil.which("compute-sanitizer", path=os.pathsep.join(folders))


def launched(program: str | None, tool: str, task: Task, artifact: CudaArtifact, fake: bool) -> str:
    """What the tool says of one launch: clean, found, or how the process ended; ran without it."""
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
    status = {0: "clean" if program else "ran", _FOUND: "found"}
    return status.get(done.returncode, f"ended with status {done.returncode}")


def launch(path: Path, fake: bool) -> None:
    """In a process of its own: one call of an artifact, each array in memory of its own."""
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
    sys.stdout.flush()
    os._exit(0)  # PyCUDA aborts a process that ends with a context


def open_device(fake: bool) -> Device:
    """The GPU, or the one of the tests."""
    if not fake:
        from autosched.runtime.cuda import CudaDevice

        return CudaDevice()
    from autosched.runtime.fake_device import FakeDevice
    from kit.fake_gpu import behave_mixed

    return FakeDevice(behave_mixed)
