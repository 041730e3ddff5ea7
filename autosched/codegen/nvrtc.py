"""NVRTC through ctypes: CUDA C becomes a cubin for a real architecture, on machines without a GPU.

    compiled = load_nvrtc("sm_80").compile(source, "sm_80")

No header, driver or CUDA toolkit is needed, only the NVRTC library (`nvrtc_find.py`). ctypes
releases Python's lock during a compile.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autosched.codegen.nvrtc_find import VARIABLE, builtins_beside, candidates, nvidia_folders
from autosched.codegen.nvrtc_log import Resources, compile_error, resources
from autosched.errors import CompileError, ConfigError
from autosched.target import parse_arch

HOW_TO_INSTALL = (
    "install autosched[cuda-compile] (nvidia-cuda-nvrtc, no GPU or driver needed; "
    "nvidia-cuda-nvrtc-cu12 for sm_50 to sm_72 or drivers below 580), or set "
    f"{VARIABLE} to the file of libnvrtc.so"
)

_SOURCE_NAME = b"kernel.cu"
_PROGRAM = ctypes.c_void_p
_INT = ctypes.POINTER(ctypes.c_int)
_SIZE = ctypes.POINTER(ctypes.c_size_t)
_STRINGS = ctypes.POINTER(ctypes.c_char_p)
_FUNCTIONS: dict[str, list[type[ctypes._SimpleCData[object]] | object]] = {
    "nvrtcVersion": [_INT, _INT],
    "nvrtcGetNumSupportedArchs": [_INT],
    "nvrtcGetSupportedArchs": [_INT],
    "nvrtcCreateProgram": [
        *(ctypes.POINTER(_PROGRAM), ctypes.c_char_p, ctypes.c_char_p),
        *(ctypes.c_int, _STRINGS, _STRINGS),
    ],
    "nvrtcCompileProgram": [_PROGRAM, ctypes.c_int, _STRINGS],
    "nvrtcGetProgramLogSize": [_PROGRAM, _SIZE],
    "nvrtcGetProgramLog": [_PROGRAM, ctypes.c_char_p],
    "nvrtcGetCUBINSize": [_PROGRAM, _SIZE],
    "nvrtcGetCUBIN": [_PROGRAM, ctypes.c_char_p],
    "nvrtcGetPTXSize": [_PROGRAM, _SIZE],
    "nvrtcGetPTX": [_PROGRAM, ctypes.c_char_p],
    "nvrtcDestroyProgram": [ctypes.POINTER(_PROGRAM)],
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A cubin and what is known of it.

    `log` is the compiler's output, `resources` has the resources of each kernel by name, and
    `seconds` is the time of the compile. `arch` is the architecture that the cubin was made for.
    """

    cubin: bytes
    log: str
    resources: dict[str, Resources]
    seconds: float
    arch: str


class Nvrtc:
    """One NVRTC library. Raises ConfigError when the file cannot be loaded."""

    def __init__(self, library: str) -> None:
        self.path = library
        self._library = _open(library)
        for name, types in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = types, ctypes.c_int
        self._library.nvrtcGetErrorString.argtypes = [ctypes.c_int]
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(major, minor), "nvrtcVersion")
        self.version = (major.value, minor.value)

    @property
    def archs(self) -> tuple[int, ...]:
        """The architectures that cubins can be made for, as numbers: 80 is sm_80."""
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(count), "nvrtcGetNumSupportedArchs")
        found = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(found), "nvrtcGetSupportedArchs")
        return tuple(found)

    @property
    def build(self) -> str:
        """A text that tells builds of the library apart: version and size of the file."""
        path = Path(self.path)
        size = path.stat().st_size if path.is_file() else 0
        return f"{self.version[0]}.{self.version[1]}-{size}"

    def options(self, arch: str, extra: Sequence[str] = ()) -> tuple[str, ...]:
        """The options of a compile, in order; `extra` come last."""
        # With NVRTC's own cache, ptxas's lines are missing in the log. Older versions refuse the
        # option.
        cache = ("--no-cache",) if self.version >= (12, 9) else ()
        always = (f"--gpu-architecture={arch}", "--std=c++17", "--ptxas-options=-v")
        return (*always, *cache, *extra)

    def compile(
        self,
        source: str,
        arch: str,
        extra: Sequence[str] = (),
        statements: Mapping[int, str] | None = None,
    ) -> Compiled:
        """The cubin of CUDA C for `arch` (sm_80), or for the nearest older one of its generation.

        `statements` has the TIR statements of source lines, for messages. Raises CompileError if
        the compiler refuses the source, or if the library cannot make code for `arch`.
        """
        chosen = nearest_arch(arch, self.archs)
        if chosen is None:
            raise CompileError(self._unsupported(arch), kind="environment")
        start = time.perf_counter()
        with _Program(self, source) as program:
            log = program.compile(self.options(_full(chosen, source), extra), statements or {})
            cubin = program.read("CUBIN")
        seconds = time.perf_counter() - start
        return Compiled(cubin, log, resources(log), seconds, chosen)

    def ptx(self, source: str, arch: str, extra: Sequence[str] = ()) -> str:
        """The PTX of CUDA C, for reading. Raises CompileError as `compile` does."""
        chosen = nearest_arch(arch, self.archs)
        if chosen is None:
            raise CompileError(self._unsupported(arch), kind="environment")
        with _Program(self, source) as program:
            program.compile(self.options(_full(chosen, source), extra), {})
            return program.read("PTX").rstrip(b"\0").decode()

    def _unsupported(self, arch: str) -> str:
        known = ", ".join(f"sm_{a}" for a in self.archs)
        return (
            f"NVRTC {self.version[0]}.{self.version[1]} ({self.path}) makes no code for {arch}, "
            f"only for {known}; {HOW_TO_INSTALL}"
        )

    def _check(self, status: int, what: str) -> None:
        if status:
            raise CompileError(f"{what}: {self._error(status)}", kind="environment")

    def _error(self, status: int) -> str:
        text: bytes = self._library.nvrtcGetErrorString(status)
        return text.decode()


class _Program:
    """One program of NVRTC during its compilation."""

    def __init__(self, nvrtc: Nvrtc, source: str) -> None:
        self._nvrtc = nvrtc
        self._library = nvrtc._library
        self._source = source
        self._handle = _PROGRAM()

    def __enter__(self) -> _Program:
        status = self._library.nvrtcCreateProgram(
            self._handle, self._source.encode(), _SOURCE_NAME, 0, None, None
        )
        self._nvrtc._check(status, "nvrtcCreateProgram")
        return self

    def __exit__(self, *exc: object) -> None:
        self._library.nvrtcDestroyProgram(self._handle)

    def compile(self, options: Sequence[str], statements: Mapping[int, str]) -> str:
        """Compiles; returns the log."""
        texts = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        status = self._library.nvrtcCompileProgram(self._handle, len(options), texts)
        log = self.read("ProgramLog").rstrip(b"\0").decode(errors="replace")
        if status:
            raise compile_error(log, self._source, self._nvrtc._error(status), statements)
        return log

    def read(self, what: str) -> bytes:
        """The program's CUBIN, PTX or ProgramLog; texts end in NUL."""
        size = ctypes.c_size_t()
        status = getattr(self._library, f"nvrtcGet{what}Size")(self._handle, size)
        self._nvrtc._check(status, f"nvrtcGet{what}Size")
        buffer = ctypes.create_string_buffer(size.value)
        self._nvrtc._check(
            getattr(self._library, f"nvrtcGet{what}")(self._handle, buffer), f"nvrtcGet{what}"
        )
        return buffer.raw


def is_portable(source: str) -> bool:
    """Whether PTX of the source runs on later architectures; it does not if it uses wgmma."""
    return "wgmma." not in source


def _full(arch: str, source: str) -> str:
    """`arch`, or sm_90a for a source that uses wgmma, which no other architecture has.

    Raises CompileError (kind `illegal`) for such a source and another `arch` than sm_90.
    """
    if is_portable(source):
        return arch
    if arch.removesuffix("a") != "sm_90":
        raise CompileError(
            f"the kernel multiplies by wgmma, which sm_90 alone has; it is compiled for {arch}",
            kind="illegal",
        )
    return "sm_90a"


def nearest_arch(arch: str, supported: Sequence[int]) -> str | None:
    """The newest supported architecture whose cubins run on `arch`, or None.

    Cubins run on later architectures of the same major number. Raises ConfigError for a text that
    names no architecture.
    """
    wanted, letter = parse_arch(arch)
    if letter:
        return arch if wanted in supported else None
    fit = [a for a in supported if a // 10 == wanted // 10 and a <= wanted]
    return f"sm_{max(fit)}" if fit else None


def load_nvrtc(arch: str, driver: int | None = None) -> Nvrtc:
    """The newest NVRTC found that makes code for `arch`.

    With `driver`, the major CUDA version of a driver, libraries newer than it do not count. Raises
    ConfigError, which says what was tried, if no library is left.
    """
    found, problems = _available(candidates(os.environ, nvidia_folders()))
    return choose(found, arch, driver, problems)


def choose(
    found: Sequence[Nvrtc], arch: str, driver: int | None, problems: Sequence[str] = ()
) -> Nvrtc:
    """The newest of `found` that fits; ConfigError, with `problems`, when none does."""
    if not found:
        tried = "".join(f"\n  {problem}" for problem in problems)
        raise ConfigError(f"NVRTC, which compiles CUDA C, was not found: {HOW_TO_INSTALL}{tried}")
    usable = [n for n in found if driver is None or n.version[0] <= driver]
    if not usable:
        versions = ", ".join(f"{n.version[0]}.{n.version[1]}" for n in found)
        raise ConfigError(
            f"NVRTC {versions} is newer than the driver, which knows CUDA {driver}: install "
            f"nvidia-cuda-nvrtc-cu{driver}, or a newer driver"
        )
    fit = [n for n in usable if nearest_arch(arch, n.archs) is not None]
    if not fit:
        raise ConfigError(max(usable, key=lambda n: n.version)._unsupported(arch))
    return max(fit, key=lambda n: n.version)


@lru_cache(maxsize=4)
def _available(names: tuple[str, ...]) -> tuple[tuple[Nvrtc, ...], tuple[str, ...]]:
    """The libraries that open, and the reasons why the others do not."""
    found: list[Nvrtc] = []
    problems: list[str] = []
    for name in names:
        if found and not Path(name).is_absolute():
            continue  # the loader's own library only where no file was found
        try:
            found.append(Nvrtc(name))
        except ConfigError as error:
            problems.append(str(error))
    return tuple(found), tuple(problems)


def _open(library: str) -> ctypes.CDLL:
    try:
        # Early wheels do not tell the loader where the builtins are.
        for builtins in builtins_beside(Path(library)):
            ctypes.CDLL(str(builtins.resolve()))
        return ctypes.CDLL(library)
    except OSError as error:
        raise ConfigError(f"NVRTC cannot be loaded: {error}") from None
