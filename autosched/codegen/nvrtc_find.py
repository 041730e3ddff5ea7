"""Where NVRTC may be: NVIDIA's wheels, a CUDA toolkit, the loader's own path.

Only files are looked for here; `nvrtc.py` opens them and chooses. Folders of the wheels, below the
namespace package `nvidia`: `cuda_nvrtc/lib` (CUDA 12), `cu13/lib` (CUDA 13).
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

VARIABLE = "AUTOSCHED_NVRTC"
SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12")

_LIBRARY = re.compile(r"libnvrtc\.so\.\d+")
_BUILTINS = re.compile(r"libnvrtc-builtins\.so\.\d+(\.\d+)*")


def nvidia_folders() -> tuple[Path, ...]:
    """The folders of the namespace package `nvidia`, in which wheels put their libraries."""
    spec = importlib.util.find_spec("nvidia")
    places = () if spec is None else spec.submodule_search_locations or ()
    return tuple(map(Path, places))


def candidates(environ: Mapping[str, str], packages: Iterable[Path]) -> tuple[str, ...]:
    """Paths and library names to try, best first: the file of AUTOSCHED_NVRTC alone when it is set.

    `packages` are the folders of the package `nvidia`. A file that is reached by two ways is listed
    once.
    """
    given = environ.get(VARIABLE)
    if given:
        return (given,)
    found: dict[str, Path] = {}
    for folder in (*_wheel_folders(packages), *_toolkit_folders(environ)):
        for path in libraries(folder):
            found.setdefault(str(path.resolve()), path)
    return (*map(str, found.values()), *SONAMES)


def libraries(folder: Path) -> list[Path]:
    """The NVRTC libraries of a folder, the newest name first; `*.alt.so*` are other builds."""
    if not folder.is_dir():
        return []
    names = [path for path in folder.iterdir() if _LIBRARY.fullmatch(path.name)]
    return sorted(names, key=lambda path: int(path.name.rpartition(".")[2]), reverse=True)


def builtins_beside(library: Path) -> list[Path]:
    """The `libnvrtc-builtins` in the folder of a library, which the loader may not find itself."""
    if not library.is_file():
        return []
    return sorted(p for p in library.parent.iterdir() if _BUILTINS.fullmatch(p.name))


def _wheel_folders(packages: Iterable[Path]) -> Iterator[Path]:
    for package in packages:
        for cuda in sorted(package.glob("cu[0-9]*"), reverse=True):
            yield cuda / "lib"
        yield package / "cuda_nvrtc" / "lib"


def _toolkit_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(variable):
            yield from _library_folders(Path(environ[variable]))
    compiler = shutil.which("nvcc", path=environ.get("PATH", ""))
    if compiler is not None:
        yield from _library_folders(Path(compiler).resolve().parent.parent)


def _library_folders(toolkit: Path) -> Iterator[Path]:
    yield toolkit / "lib64"
    yield toolkit / "lib"
    yield from sorted(toolkit.glob("targets/*/lib"))
