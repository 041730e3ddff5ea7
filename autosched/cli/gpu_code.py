"""The forms of `autosched show` for CUDA candidates only: CUDA C, PTX, machine code."""

from __future__ import annotations

import os
from dataclasses import replace

from autosched.candidate import cuda_source_of_candidate
from autosched.cli.console import warn
from autosched.codegen.nvdisasm import HOW_TO_INSTALL, disassemble, find_nvdisasm
from autosched.codegen.nvrtc import Nvrtc, load_nvrtc, nearest_arch
from autosched.codegen.nvrtc_find import nvidia_folders
from autosched.errors import CompileError, ConfigError
from autosched.runtime.cuda_artifact import CudaArtifact
from autosched.state.steps import Step
from autosched.target import cuda_target
from autosched.task import Task


def cuda_c(task: Task, steps: tuple[Step, ...], arch: str | None) -> str:
    """The exact source that is compiled."""
    return _artifact(task, steps, arch).source


def ptx(task: Task, steps: tuple[Step, ...], arch: str | None) -> str:
    """NVRTC's PTX of the source, before registers are allocated."""
    wanted = _arch(task, arch)
    nvrtc = _compiler(task, wanted, given=arch is not None)
    return nvrtc.ptx(_artifact(task, steps, wanted).source, wanted)


def machine_code(task: Task, steps: tuple[Step, ...], arch: str | None) -> str:
    """The instructions of the cubin; without nvdisasm PTX, with a line that says so.

    Raises CompileError if nvdisasm fails.
    """
    wanted = _arch(task, arch)
    nvrtc = _compiler(task, wanted, given=arch is not None)
    program = find_nvdisasm(os.environ, nvidia_folders())
    artifact = _artifact(task, steps, wanted)
    if program is None:
        text = nvrtc.ptx(artifact.source, wanted)
        return (
            f"// PTX: nvdisasm, which shows machine code, was not found ({HOW_TO_INSTALL})\n{text}"
        )
    compiled = nvrtc.compile(artifact.source, wanted, statements=artifact.statements)
    try:
        return disassemble(program, compiled.cubin)
    except CompileError as error:
        raise CompileError(
            f"{error}\n--as ptx needs no nvdisasm; a newer one: {HOW_TO_INSTALL}", kind=error.kind
        ) from error


def _arch(task: Task, arch: str | None) -> str:
    """The architecture to compile for: as asked, else the record's, else the default."""
    return arch or task.target.arch or cuda_target().arch


def _artifact(task: Task, steps: tuple[Step, ...], arch: str | None) -> CudaArtifact:
    wanted = _arch(task, arch)
    nearest_arch(wanted, ())  # raises ConfigError for an invalid architecture
    return cuda_source_of_candidate(task, steps, replace(task.target, arch=wanted))


def _compiler(task: Task, arch: str, *, given: bool) -> Nvrtc:
    """NVRTC for `arch`; notes tell which architecture it compiles for if that was not given."""
    try:
        nvrtc = load_nvrtc(arch)
    except ConfigError as error:
        raise ConfigError(f"{error}\n--as cuda shows the source, and needs no NVRTC") from error
    chosen = nearest_arch(arch, nvrtc.archs)
    if chosen != arch:
        warn(f"note: compiled for {chosen}, which {arch} can run: NVRTC does not support {arch}")
    elif not given and not task.target.arch:
        warn(
            f"note: the record names no architecture; compiled for {arch} (--arch chooses another)"
        )
    return nvrtc
