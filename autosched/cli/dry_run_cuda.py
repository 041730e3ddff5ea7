"""CUDA candidates in `autosched tune --dry-run`: they are compiled, checked and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from autosched.candidate import kernels_of_candidate
from autosched.cli.console import err, warn
from autosched.codegen.nvrtc import load_nvrtc
from autosched.errors import ConfigError
from autosched.measure.build import Builder
from autosched.runtime.cuda_artifact import CudaArtifact
from autosched.state.steps import Step
from autosched.task import Task
from autosched.tir.function import IRModule
from autosched.transform.device.thread_sync import kernels, missing_barriers
from autosched.words import count

_SCOPES = ("shared", "shared.dyn")


@dataclass(frozen=True, slots=True)
class KernelUse:
    """A compiled kernel: its launch, and the resources that ptxas reports for it.

    A resource is None if ptxas does not report it.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int | None
    stack: int | None
    spill_stores: int | None
    spill_loads: int | None
    shared: int

    def __str__(self) -> str:
        spilled = f", {self.spill_stores} bytes spilled" if self.spill_stores else ""
        return (
            f"{self.name} grid {self.grid}, block {self.block}, {self.registers} registers"
            f"{spilled}, {self.shared} bytes shared"
        )


@dataclass(frozen=True, slots=True)
class Compiling:
    """The result of compiling candidates.

    `kernels` has an entry for each candidate, None if it failed; `failed` holds the reasons.
    `compiler` names the compiler and the architecture. `missing` says why nothing was compiled.
    """

    compiler: str
    kernels: list[tuple[KernelUse, ...] | None]
    failed: list[str]
    missing: str = ""

    def to_json(self) -> dict[str, Any]:
        """The object for --json; `kernels` has an entry for each candidate, null if it failed."""
        if self.missing:
            return {"missing": self.missing}
        rows = [None if use is None else list(map(asdict, use)) for use in self.kernels]
        return {"compiler": self.compiler, "kernels": rows, "failed": self.failed}


def compiled(task: Task, candidates: Sequence[tuple[Step, ...]], timeout: float) -> Compiling:
    """Compile every candidate in another process, `timeout` seconds each, and check barriers."""
    try:
        nvrtc = load_nvrtc(task.target.arch)
    except ConfigError as error:
        return Compiling("", [], [], str(error))
    found = Compiling("", [], [])
    chosen: set[str] = set()
    if err.is_terminal:  # it takes some seconds
        warn(f"compiling {count(len(candidates), 'candidate')} for {task.target.arch}")
    builder = Builder(workers=1, timeout=timeout)
    try:
        built = builder.build(task, candidates)
    finally:
        builder.close()
    for steps, result in zip(candidates, built, strict=True):
        if result.artifact is None:
            assert result.failure is not None
            found.failed.append(result.failure.message)
            found.kernels.append(None)
            continue
        problem = barrier_problem(kernels_of_candidate(task, steps))
        if problem is not None:
            found.failed.append(problem)
            found.kernels.append(None)
            continue
        artifact = CudaArtifact.from_bytes(result.artifact)
        chosen.update(artifact.cubins)
        found.kernels.append(uses(artifact))
    archs = ", ".join(sorted(chosen)) or task.target.arch
    name = f"NVRTC {nvrtc.version[0]}.{nvrtc.version[1]} for {archs}"
    return Compiling(name, found.kernels, found.failed)


def barrier_problem(module: IRModule) -> str | None:
    """A message about the first missing barrier, or None.

    This repeats ThreadSync's check on the final kernels: the passes after it must keep what it
    proved.
    """
    for func in module.functions.values():
        for region in kernels(func.body):
            for scope in _SCOPES:
                for stmt in missing_barriers(region, scope, func.name):
                    head = repr(stmt).strip().partition("\n")[0]
                    return f"{func.name}: a barrier is missing before `{head}`"
    return None


def uses(artifact: CudaArtifact) -> tuple[KernelUse, ...]:
    """The resources of the kernels of an artifact with one cubin."""
    ((_, resources),) = artifact.resources.items()
    return tuple(
        KernelUse(
            kernel.name,
            kernel.grid,
            kernel.block,
            used.registers,
            used.stack,
            used.spill_stores,
            used.spill_loads,
            kernel.static_shared + kernel.dynamic_shared,
        )
        for kernel in artifact.kernels
        for used in (resources[kernel.name],)
    )


def summary(run: Compiling) -> list[str]:
    """Lines about the resources of the kernels of all candidates that compiled."""
    if run.missing:
        return [f"not compiled: {run.missing}"]
    good = [use for use in run.kernels if use is not None]
    lines = [f"{len(good)} compiled by {run.compiler}, {len(run.failed)} failed"]
    if not good:
        return lines
    spilled = [max(k.spill_stores or 0 for k in use) for use in good]
    stacks = sum(any(k.stack for k in use) for use in good)
    threads = [k.block[0] * k.block[1] * k.block[2] for use in good for k in use]
    spills = sum(map(bool, spilled))
    most = f" (at most {max(spilled)} bytes a thread)" if spills else ""
    registers = [k.registers for use in good for k in use if k.registers is not None]
    if registers:
        lines.append(f"    registers a thread: {_range(registers)}")
    lines.append(f"    threads a block: {_range(threads)}")
    lines.append(f"    shared bytes a block: {_range([k.shared for use in good for k in use])}")
    lines.append(f"    candidates that spill: {spills}{most}; that use the stack: {stacks}")
    return lines


def _range(values: Sequence[int]) -> str:
    return f"{min(values)} to {max(values)}, median {median(values):g}"
