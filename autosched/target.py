"""Targets: the machine for which code is made, and the limits of the search."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

from autosched.arguments import found, integer, is_flag
from autosched.cpu_caches import cache_sizes
from autosched.cpu_cores import hardware_threads, physical_cores, usable_cores
from autosched.cpu_features import enabled, features_of, host_features
from autosched.errors import ConfigError
from autosched.words import count

_UNLIMITED = 2**31 - 1
_STATIC_SHARED = 48 << 10
_OPT_IN_KIB = {
    70: 96,
    72: 96,
    75: 64,
    80: 163,
    86: 99,
    87: 163,
    88: 99,
    89: 99,
    90: 227,
    100: 227,
    101: 227,  # sm_110 before CUDA 13
    103: 227,
    110: 227,
    120: 99,
    121: 99,
}
"""KiB of shared memory of a block that asks for more than 48 KiB at its launch, by architecture.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", without the 1
KiB that each block takes from sm_80 on; for sm_88 and sm_110 libcu++'s `arch_traits`.
"""
THREAD_BYTES = 255 * 4
"""Bytes in the registers of a thread: 255 of 4 bytes, on every architecture.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". An array of a
thread that does not fit them is in memory, and so is each access to it.
"""
_LEAST_ASYNC = 80
KINDS = ("cpu", "cuda")
MAX_THREADS = 1024
"""The most threads of the worker pool; each takes 64 bytes there."""


@dataclass(frozen=True, slots=True)
class HardwareParams:
    """What sketch rules, features and GPU checks know of the hardware: Ansor's eight numbers.

    Sizes are in bytes. On a CPU the GPU limits are 0; on a GPU `num_cores` is -1.
    """

    num_cores: int
    vector_unit_bytes: int = 64
    cache_line_bytes: int = 64
    max_shared_memory_per_block: int = 0
    max_local_memory_per_block: int = 0
    max_threads_per_block: int = 0
    max_vthread_extent: int = 0
    warp_size: int = 0

    @property
    def local_memory_limit(self) -> int:
        """The most bytes of arrays per thread in the search space `autosched`.

        That is what a thread's registers hold, or the hardware's own limit where that is less.
        """
        return min(self.max_local_memory_per_block, THREAD_BYTES)

    @classmethod
    def default(cls, kind: str, *, threads: int | None = None) -> HardwareParams:
        """Ansor's defaults for `cpu` or `cuda`; CUDA's are those of compute capability 7 and up."""
        if kind == "cpu":
            return cls(num_cores=threads or usable_cores())
        return cls(
            num_cores=-1,
            vector_unit_bytes=16,
            cache_line_bytes=64,
            max_shared_memory_per_block=_STATIC_SHARED,
            max_local_memory_per_block=_UNLIMITED,
            max_threads_per_block=1024,
            max_vthread_extent=8,
            warp_size=32,
        )

    @classmethod
    def from_list(cls, values: Sequence[int]) -> HardwareParams:
        """Parse the list of an Ansor v0.6 record, in field order. Raises ConfigError."""
        number = len(fields(cls))
        if not isinstance(values, Sequence) or isinstance(values, str):
            raise ConfigError(f"hardware parameters: expected a list, {found(values)}")
        if len(values) != number:
            raise ConfigError(
                f"hardware parameters: expected {number} integers, found {len(values)}"
            )
        return cls(*(integer("hardware parameters", v) for v in values)).checked()

    def checked(self) -> HardwareParams:
        """Return these parameters. Raises ConfigError where a value is impossible."""
        for name, value in asdict(self).items():
            if name == "num_cores" and value == -1:  # a GPU
                continue
            least = 1 if name in ("num_cores", "vector_unit_bytes", "cache_line_bytes") else 0
            if not least <= value <= _UNLIMITED:
                raise ConfigError(
                    f"hardware: {name}: expected {least} to {_UNLIMITED}, found {value!r:.40}"
                )
        return self

    def as_list(self) -> list[int]:
        """The eight numbers in the order of an Ansor v0.6 record."""
        return list(asdict(self).values())


@dataclass(frozen=True, slots=True)
class Target:
    """The kind of device and what its code generator needs.

    - `threads`: the number of worker threads of a parallel loop (cpu).
    - `cpu`, `features`, `triple`: LLVM's names.
    - `vector_bytes`: the width of the vector registers.
    - `arch`: CUDA's name of the architecture, e.g. sm_90.
    - `caches`: the bytes of the CPU's L1, L2 and L3, empty where they are not known. They are
      recorded with a task, so that features that depend on them are the same on every machine.
    - `chosen_cpu`: the user chose `cpu`; it need not be this machine's. The code stays as it is
      wherever it runs, and tasks are not those of machines' own CPUs.
    - `tf32`: a GPU may round the factors of float32 products to 10 bits of mantissa
      (docs/tensor_intrinsics.md). That makes another task, with its own tolerance.
    """

    kind: str
    hardware: HardwareParams
    threads: int = 1
    cpu: str = ""
    features: str = ""
    triple: str = ""
    vector_bytes: int = 16
    arch: str = ""
    caches: tuple[int, ...] = ()
    tf32: bool = False
    chosen_cpu: bool = False

    @property
    def is_gpu(self) -> bool:
        """Whether the target is a GPU: candidates have blocks and threads."""
        return self.kind == "cuda"

    @property
    def vector_registers(self) -> int:
        """The number of the CPU's vector registers: SSE and AVX 16, AVX-512 and NEON 32."""
        sse = self.vector_bytes == 16 and self.triple.startswith(("x86_64", "amd64"))
        return 16 if sse or self.vector_bytes == 32 else 32

    @property
    def copies_ahead(self) -> bool:
        """Whether the GPU has `cp.async` (PTX ISA: from sm_80 on)."""
        number = self.arch.removeprefix("sm_").rstrip("af")
        return self.is_gpu and number.isdecimal() and int(number) >= _LEAST_ASYNC

    @property
    def opt_in_shared_memory(self) -> int:
        """The most bytes of shared memory that a block on `arch` may ask for at its launch.

        For an unknown architecture, the least of its generation (8 of sm_88, 10 of sm_107). For an
        unknown generation, what every GPU has: 48 KiB.
        """
        if not self.arch:
            return _STATIC_SHARED
        number, _ = parse_arch(self.arch)
        alike = [kib for known, kib in _OPT_IN_KIB.items() if known // 10 == number // 10]
        kib = _OPT_IN_KIB.get(number, min(alike, default=0))
        return max(kib << 10, _STATIC_SHARED)

    @property
    def shared_memory_limit(self) -> int:
        """The most bytes of shared memory per block in the search space `autosched`.

        That is the value of `hardware` where it was overridden, otherwise `opt_in_shared_memory`.
        """
        own = self.hardware.max_shared_memory_per_block
        return self.opt_in_shared_memory if own == _STATIC_SHARED else own

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary, the input of `from_json`."""
        fields_ = asdict(self)
        for name in ("tf32", "chosen_cpu"):
            if not fields_[name]:
                del fields_[name]
        return fields_

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Target:
        """The inverse of `to_json`.

        Raises ConfigError naming a field that is unknown, missing or of a wrong type.
        """
        _check_fields("target", cls, data)
        _check_fields("hardware", HardwareParams, data["hardware"])
        if data["kind"] not in KINDS:
            raise ConfigError(f"target kind: found {data['kind']!r}, expected cpu or cuda")
        hardware = HardwareParams(**data["hardware"]).checked()
        if data["kind"] == "cpu" and hardware.num_cores < 1:
            raise ConfigError(
                f"hardware: num_cores: expected 1 to {_UNLIMITED} for a CPU, found "
                f"{hardware.num_cores}"
            )
        for name in ("cpu", "features", "triple", "arch"):
            if not data.get(name, "").isprintable():
                raise ConfigError(f"target: {name}: expected a name, found {data[name]!r:.40}")
        for name, most in (("threads", _UNLIMITED), ("vector_bytes", 4096)):
            if not 1 <= data.get(name, 1) <= most:
                raise ConfigError(f"target: {name}: expected 1 to {most}, found {data[name]!r:.40}")
        if (width := data.get("vector_bytes", 16)) & (width - 1):
            raise ConfigError(f"target: vector_bytes: expected a power of two, found {width}")
        caches = _checked_caches(data.get("caches", ()))
        _check_gpu(data["kind"], data.get("arch", ""), data.get("tf32", False))
        return cls(**{**data, "hardware": hardware, "caches": caches})

    def __str__(self) -> str:
        if self.kind == "cpu":
            threads = count(self.threads, "thread")
            return f"cpu ({self.cpu}, {threads}, {self.vector_bytes * 8}-bit vectors)"
        return f"cuda ({self.arch}{', tf32' if self.tf32 else ''})"


def cpu_target(threads: int | None = None, cpu: str = "", **hardware: int) -> Target:
    """This machine's CPU, or the one that LLVM calls `cpu` beside this machine's caches.

    `hardware` overrides fields of HardwareParams. Raises ConfigError for a CPU that LLVM does not
    know, or of another architecture than this machine's.

    >>> cpu_target(threads=2, cache_line_bytes=128).hardware.cache_line_bytes
    128
    """
    own, features, triple = _host()
    if cpu:
        features = _features_of(cpu, triple)
    if threads is None:
        threads = min(usable_cores(), MAX_THREADS)
    threads = integer("threads", threads, 1)
    params = _override(HardwareParams.default("cpu", threads=threads), hardware)
    width = _vector_bytes(features)
    return Target(
        "cpu",
        params,
        threads,
        cpu or own,
        features,
        triple,
        width,
        caches=cache_sizes(),
        chosen_cpu=bool(cpu),
    )


def cuda_target(arch: str = "sm_80", *, tf32: bool = False, **hardware: int) -> Target:
    """A CUDA target for `arch`; `hardware` overrides fields of HardwareParams.

    With `tf32`, factors of float32 products may be rounded to 10 bits of mantissa (`Target`).
    Raises ConfigError where `arch` is not an architecture, or does not support tf32.

    >>> print(cuda_target("sm_90"))
    cuda (sm_90)
    """
    _check_gpu("cuda", arch, tf32)
    params = _override(HardwareParams.default("cuda"), hardware)
    return Target("cuda", params, arch=arch, tf32=bool(tf32))


def make_target(
    kind: str,
    *,
    threads: int | None = None,
    cpu: str = "",
    arch: str = "",
    tf32: bool = False,
    **hardware: int,
) -> Target:
    """The target of `kind` (cpu or cuda). Raises ConfigError for another kind."""
    _check_gpu(kind, arch, tf32)
    if kind == "cpu":
        return cpu_target(threads, cpu, **hardware)
    if cpu:
        raise ConfigError("target.cpu: expected a target of kind cpu, found cuda; leave it out")
    if kind == "cuda":
        return cuda_target(arch or "sm_80", tf32=tf32, **hardware)
    raise ConfigError(f"target kind: found {kind!r}, expected cpu or cuda")


def arch_of(capability: Sequence[int]) -> str:
    """The architecture of GPUs of a compute capability: `sm_90` for (9, 0)."""
    major, minor = capability
    return f"sm_{major}{minor}"


_ARCH = re.compile(r"sm_([1-9][0-9]{1,2})([af]?)")
_LEAST_WITH = {"": 0, "a": 90, "f": 100}
"""The first architectures with features that no later one has (a), or only their family has (f).

Source: NVCC, "GPU Feature List".
"""


def parse_arch(arch: Any, where: str = "CUDA architecture") -> tuple[int, str]:
    """The number of an architecture, and the letter behind it if there is one.

        >>> parse_arch("sm_80"), parse_arch("sm_90a")
        ((80, ''), (90, 'a'))

    Raises ConfigError, which begins with `where`, for a text that is not an architecture.
    """
    found = _ARCH.fullmatch(arch) if isinstance(arch, str) else None
    if found is None:
        raise ConfigError(f"{where}: found {arch!r:.40}, expected sm_ and a number: sm_80")
    number, letter = int(found[1]), found[2]
    least = _LEAST_WITH[letter]
    if number < least:
        raise ConfigError(
            f"{where}: found {arch!r}, expected {letter!r} from sm_{least} on; write sm_{number}"
        )
    return number, letter


_LEAST_TF32 = 80
"""sm_80 is the first architecture with `mma` of tf32 (PTX ISA, target notes of mma)."""


def _check_gpu(kind: str, arch: Any, tf32: Any) -> None:
    """Raise ConfigError for a wrong architecture, and for tf32 where it is not supported.

    An empty `arch` is allowed.
    """
    if kind == "cuda" and arch != "":
        parse_arch(arch, "target.arch")
    if not is_flag(tf32):
        raise ConfigError(f"target.tf32: expected true or false, found {tf32!r:.40}")
    if tf32 and kind == "cpu":
        raise ConfigError("target.tf32: expected a target of kind cuda, found cpu; leave it out")
    if tf32 and arch and parse_arch(arch)[0] < _LEAST_TF32:
        raise ConfigError(
            f"target.tf32: expected an architecture from sm_{_LEAST_TF32} on, found {arch}; "
            "leave it out"
        )


def _checked_caches(caches: Any) -> tuple[int, ...]:
    sizes = tuple(caches) if isinstance(caches, list | tuple) else (None,)
    if len(sizes) not in (0, 3) or any(type(size) is not int or size < 1 for size in sizes):
        raise ConfigError(f"target: caches: expected bytes of L1, L2 and L3, found {caches!r}")
    return sizes


def _check_fields(where: str, model: type, data: Any) -> None:
    """Raise ConfigError unless `data` maps names of `model`'s fields to values of their types."""
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: expected an object, found {data!r}")
    types = {"str": str, "int": int}
    known = {f.name: f for f in fields(model)}
    for name in data:
        if name not in known:
            raise ConfigError(f"{where}: unknown key {name!r}, expected {', '.join(known)}")
    for name, item in known.items():
        if name not in data:
            if item.default is MISSING:
                raise ConfigError(f"{where}: the key {name!r} is missing")
            continue
        kind = types.get(str(item.type))
        if kind is not None and type(data[name]) is not kind:
            raise ConfigError(f"{where}: {name}: expected {item.type}, found {data[name]!r}")


def _override(params: HardwareParams, values: Mapping[str, int]) -> HardwareParams:
    known = {f.name for f in fields(HardwareParams)}
    unknown = sorted(set(values) - known)
    if unknown:
        names = ", ".join(sorted(known))
        raise ConfigError(f"hardware parameter {unknown[0]!r} is unknown; expected one of {names}")
    whole = {name: integer(f"hardware: {name}", value) for name, value in values.items()}
    return replace(params, **whole).checked()


@lru_cache(maxsize=1)
def _host() -> tuple[str, str, str]:
    import llvmlite.binding as llvm

    return str(llvm.get_host_cpu_name()), host_features(), str(llvm.get_process_triple())


def _features_of(cpu: str, triple: str) -> str:
    if not isinstance(cpu, str):
        raise ConfigError(f"target.cpu: expected a name, {found(cpu)}")
    features = features_of(cpu)
    if features is None:
        raise ConfigError(
            f"target.cpu: LLVM makes no code for {cpu!r:.40} of {triple.split('-')[0]}, expected a "
            "name such as x86-64-v3, skylake-avx512 or neoverse-n1; leave it out for this machine's"
        )
    return features


def kind_of_triple(triple: str) -> tuple[str, str]:
    """The processor and system in an LLVM triple; code links only where both are equal.

    >>> kind_of_triple("arm64-apple-darwin23.0.0"), kind_of_triple("x86_64-pc-linux-gnu")
    (('aarch64', 'darwin'), ('x86_64', 'linux'))
    """
    processor, _, rest = triple.lower().partition("-")
    systems = {"linux": "linux", "darwin": "darwin", "macos": "darwin", "windows": "windows"}
    system = next((name for word, name in systems.items() if word in rest), rest)
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(processor, processor), system


def _vector_bytes(features: str) -> int:
    there = enabled(features)
    if "avx512f" in there:
        return 64
    return 32 if "avx2" in there or "avx" in there else 16


def require_threads(where: str, threads: int) -> None:
    """Raise ConfigError, beginning with `where`, for more threads than the machine or pool has."""
    if threads > MAX_THREADS:
        raise ConfigError(
            f"{where}: expected at most {MAX_THREADS}, which is what the worker pool has room for, "
            f"found {threads}"
        )
    most = hardware_threads()
    if threads > most:
        cores = count(physical_cores(), "core")
        raise ConfigError(
            f"{where}: expected at most {most}, the hardware threads of the {cores} that can be "
            f"used here, found {threads}"
        )
