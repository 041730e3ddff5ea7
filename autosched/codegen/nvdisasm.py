"""Machine code of a cubin as text, by NVIDIA's `nvdisasm` where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from autosched.errors import CompileError

HOW_TO_INSTALL = "pip install nvidia-cuda-nvdisasm"
_NAME = "nvdisasm"
_SECONDS = 60


def find_nvdisasm(environ: Mapping[str, str], packages: Iterable[Path]) -> str | None:
    """The program, from NVIDIA's wheels, CUDA_HOME or CUDA_PATH, or PATH; None if not found.

    `packages` are the folders of the namespace package `nvidia`.
    """
    for package in packages:
        for cuda in sorted(package.glob("cu[0-9]*"), reverse=True):
            if (found := shutil.which(_NAME, path=str(cuda / "bin"))) is not None:
                return found
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(variable):
            folder = Path(environ[variable]) / "bin"
            if (found := shutil.which(_NAME, path=str(folder))) is not None:
                return found
    return shutil.which(_NAME, path=environ.get("PATH", ""))


def disassemble(program: str, cubin: bytes) -> str:
    """The code of `cubin` with the live ranges of its registers (`-c -plr`).

    Raises CompileError (kind `environment`) with the program's output when it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [program, "-c", "-plr", str(path)],
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(f"{program}: {error}", kind="environment") from error
    if done.returncode:
        said = (done.stderr or done.stdout).replace(f"{folder}/", "").strip()
        raise CompileError(
            f"{program} ended with status {done.returncode}: {said or 'it says nothing'}",
            kind="environment",
        )
    return done.stdout
