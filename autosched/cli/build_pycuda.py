"""The shell commands that build PyCUDA on this machine, as in docs/cuda.md."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

# Of the wheels: pinned packages, and the folders of cuda.h and cudaProfiler.h below `nvidia`.
_WHEELS = {
    12: (
        ("nvidia-cuda-runtime-cu12", "nvidia-cuda-profiler-api-cu12"),
        ("cuda_runtime/include", "cuda_profiler_api/include"),
    ),
    13: (
        ('"nvidia-cuda-runtime==13.0.*"', '"nvidia-cuda-profiler-api==13.0.*"'),
        ("cu13/include", "cu13/include"),
    ),
}
_STUB = (
    "sort -u | sed 's/.*/int &(void){return 34;}/' | gcc -shared -fPIC -w "
    "-Wl,-soname,libcuda.so.1 -o ~/cuda-stub/libcuda.so -x c -"
)
_TOOLKIT = ("bin/nvcc", "include/cuda.h", "lib64/stubs/libcuda.so")
_SETTINGS = "~/.aksetup-defaults.py"
_BUILD = "pip install --no-cache-dir --force-reinstall --no-binary pycuda pycuda"


def commands(driver_major: int) -> list[str]:
    """Shell commands that build PyCUDA, with the CUDA toolkit if its nvcc is on PATH.

    PyCUDA looks beside nvcc for headers and for the library to link, which toolkits put together
    from wheels lack. The headers must not be newer than the driver: `driver_major` is the CUDA
    version that it supports.
    """
    root = Path(shutil.which("nvcc") or "/").parent.parent
    if all((root / part).exists() for part in _TOOLKIT):
        return [f"echo 'CUDA_ENABLE_CURAND = False' > {_SETTINGS}", _BUILD]
    wheels, below = _WHEELS[min(max(driver_major, min(_WHEELS)), max(_WHEELS))]
    packages = Path(sysconfig.get_path("purelib"), "nvidia")
    cuda, profiler = (packages / folder for folder in below)
    folders = ", ".join(f'"{folder}"' for folder in dict.fromkeys((cuda, profiler)))
    return [
        f"pip install numpy {' '.join(wheels)}",
        "mkdir -p ~/cuda-stub",
        rf"grep -ohE '\bcu[A-Z]\w*' {cuda}/cuda.h {profiler}/cudaProfiler.h | {_STUB}",
        f"cat > {_SETTINGS} <<EOF",
        f"CUDA_INC_DIR = [{folders}]",
        'CUDADRV_LIB_DIR = ["$HOME/cuda-stub"]',
        "CUDA_ENABLE_CURAND = False",
        "EOF",
        _BUILD,
    ]
