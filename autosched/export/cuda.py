"""Export of CUDA kernels: source, cubins, PTX, launch sizes, and a module that loads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autosched.candidate import cuda_source_of_candidate
from autosched.codegen.nvrtc import is_portable, load_nvrtc, nearest_arch
from autosched.errors import CompileError
from autosched.export.bundle import bundle
from autosched.export.candidate import Candidate, parameter, tools
from autosched.runtime.cuda_artifact import Alloc, CudaArtifact, Launch

MODULES = (
    "runtime.array_checks",
    "runtime.calling",
    "runtime.cuda_api",
    "runtime.cuda_arrays",
    "runtime.cuda_loader",
    "export.exported_cuda",
)
_DOCSTRING = """Kernels for CUDA, tuned by autosched; this needs NumPy and the CUDA driver only.

It holds files of autosched (Apache-2.0).

    import {name}
    c = {name}.{first}(a, b)               # NumPy arrays: copied to the GPU and back
    c = {name}.{first}(x, y)               # of CuPy, PyTorch, Numba, PyCUDA: stays on the GPU
    {name}.{first}(x, y, out=z, stream=s)  # queued in a stream

{name}.json says what they take and how they are launched; {name}.names() lists them."""


def export_cuda(
    candidates: Sequence[Candidate], folder: Path, name: str, archs: Sequence[str] = ()
) -> list[Path]:
    """Write the files of `candidates`, whose symbols differ, and their module `name`.

    `archs` are the architectures to compile for; by default the one each candidate was recorded
    for. Returns the files. Raises CompileError, ScheduleError, and ConfigError if NVRTC is missing.
    """
    written: dict[str, bytes] = {}
    entries: dict[str, Any] = {}
    for candidate in candidates:
        entries[candidate.symbol] = _files(candidate, archs, written)
    about = {"schema": 1, "target": "cuda", "tools": tools(), "kernels": entries}
    written[f"{name}.json"] = (json.dumps(about, indent=1) + "\n").encode()
    first = candidates[0].symbol
    written[f"{name}.py"] = bundle(MODULES, _DOCSTRING.format(name=name, first=first)).encode()
    for file, data in written.items():
        (folder / file).write_bytes(data)
    return [folder / file for file in written]


def _files(candidate: Candidate, archs: Sequence[str], written: dict[str, bytes]) -> dict[str, Any]:
    """Add the files of one candidate to `written`; return its entry in the module's JSON."""
    task, symbol = candidate.task, candidate.symbol
    # NVRTC chooses the variant of an architecture (sm_90a) if a kernel needs it.
    asked = archs or [task.target.arch or "sm_80"]
    wanted = list(dict.fromkeys(arch.rstrip("af") for arch in asked))
    artifact = _source(candidate, wanted)
    cubins: dict[str, str] = {}
    compilers: dict[str, str] = {}
    for arch in wanted:
        nvrtc = load_nvrtc(arch)
        with candidate.named_in_errors(arch):
            compiled = nvrtc.compile(artifact.source, arch, statements=artifact.statements)
        artifact = artifact.with_cubin(compiled)
        cubins[compiled.arch] = f"{symbol}.{compiled.arch}.cubin"
        written[cubins[compiled.arch]] = compiled.cubin
        compilers[compiled.arch] = ".".join(map(str, nvrtc.version))
    lowest = min(cubins, key=lambda arch: int(arch.removeprefix("sm_")))
    nvrtc = load_nvrtc(lowest)
    ptx = None
    if is_portable(artifact.source):
        written[f"{symbol}.ptx"] = nvrtc.ptx(artifact.source, lowest).encode()
        ptx = {"arch": nearest_arch(lowest, nvrtc.archs) or lowest, "file": f"{symbol}.ptx"}
    written[f"{symbol}.cu"] = artifact.source.encode()
    code = [*cubins.values(), *([ptx["file"]] if ptx else ())]
    return {
        **candidate.about(),
        "parameters": [parameter(p) for p in artifact.params],
        "source": f"{symbol}.cu",
        "cubins": cubins,
        "ptx": ptx,
        "nvrtc": compilers,
        "launches": _launches(artifact),
        "workspaces": {s.workspace: s.size for s in artifact.plan if isinstance(s, Alloc)},
        "resources": {arch: _resources(artifact, arch) for arch in cubins},
        "sha256": {file: hashlib.sha256(written[file]).hexdigest() for file in code},
    }


def _source(candidate: Candidate, archs: Sequence[str]) -> CudaArtifact:
    """The artifact for the first of `archs`.

    Raises ScheduleError if the steps are illegal for one of them.
    """
    found = []
    for arch in archs:
        load_nvrtc(arch)  # whether there is such an architecture
        target = replace(candidate.task.target, arch=arch)
        with candidate.named_in_errors(arch):
            found.append(
                cuda_source_of_candidate(candidate.task, candidate.steps, target, candidate.symbol)
            )
    return found[0]


def _launches(artifact: CudaArtifact) -> list[dict[str, Any]]:
    kernels = {kernel.name: kernel for kernel in artifact.kernels}
    launches = []
    for step in artifact.plan:
        if not isinstance(step, Launch):
            continue
        kernel = kernels[step.kernel]
        if not all(isinstance(argument, str) for argument in step.args):
            raise CompileError(f"{kernel.name} is passed numbers; only arrays can be exported")
        launches.append(
            {
                "kernel": kernel.name,
                "grid": list(kernel.grid),
                "block": list(kernel.block),
                "static_shared": kernel.static_shared,
                "dynamic_shared": kernel.dynamic_shared,
                "arguments": list(step.args),
            }
        )
    return launches


def _resources(artifact: CudaArtifact, arch: str) -> dict[str, Any]:
    return {name: asdict(used) for name, used in artifact.resources[arch].items()}
