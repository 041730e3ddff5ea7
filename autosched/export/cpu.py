"""Export of CPU kernels as a shared library, with files to use it from C, CMake and Python."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autosched.candidate import build_candidate
from autosched.codegen.llvm_compile import compile_object
from autosched.cpuid import Bit
from autosched.errors import ConfigError
from autosched.export.bundle import bundle
from autosched.export.c_files import Function, cmake, example, header
from autosched.export.candidate import Candidate, parameter, tools
from autosched.export.cpu_features import needed, saved_registers
from autosched.export.library_ir import Entry, Shapes, exported, library_ir
from autosched.export.link import NO_LINKER, link, linker
from autosched.runtime.artifact import CpuArtifact
from autosched.runtime.calling import constant_shape
from autosched.target import Target, cpu_target
from autosched.task import Task
from autosched.workloads.index_values import drawn_values

MODULES = (
    "runtime.array_checks",
    "runtime.calling",
    "runtime.memory",
    "runtime.quick_call",
    "runtime.made_outputs",
    "export.exported_cpu",
)
_DOCSTRING = """Kernels for the CPU, tuned by autosched; this module needs NumPy only.

It holds files of autosched (Apache-2.0).

    import {name}
    c = {name}.{first}(a, b)           # inputs; the outputs are made and returned
    {name}.{first}(a, b, c)            # or written in place

Importing it where the CPU lacks what the library needs is an ImportError that names it.
{name}.json says what the functions take, names() lists them, empty() makes aligned arrays."""
_X86 = ("x86_64", "amd64")


def export_cpu(
    candidates: Sequence[Candidate],
    folder: Path,
    name: str,
    choices: Mapping[str, Sequence[str]] | None = None,
) -> tuple[list[Path], str]:
    """Write the library `name` of `candidates`, whose symbols differ.

    `choices` maps functions that choose by shape to the symbols among which they choose. Returns
    the files, and a note or "". Without a linker the object files are written, and the note says
    how to link them. Raises CompileError, ScheduleError, ConfigError.
    """
    target = _one_target(candidates)
    built = {c.symbol: _build(c) for c in candidates}
    entries = [
        Entry(symbol, artifact.symbol, len(artifact.params), _threads(artifact))
        for symbol, artifact in built.items()
    ]
    shapes = [_shapes(symbol, among, built) for symbol, among in (choices or {}).items()]
    _refuse_same_names(name, [*exported(name, entries, shapes), *(e.kernel for e in entries)])
    features, registers = _needs(target)
    module = bundle(MODULES, _DOCSTRING.format(name=name, first=[*built, *(choices or {})][-1]))
    hashes = [hashlib.sha256(a.object_code).hexdigest() for a in built.values()]
    nameless = library_ir(name, entries, shapes, features, registers)
    identity = hashlib.sha256(repr((hashes, nameless, module)).encode()).hexdigest()[:16]
    own = library_ir(name, entries, shapes, features, registers, identity)
    objects = {f"{name}_runtime.o": compile_object(own, _plain(target), "light")}
    objects |= {f"{name}_{symbol}.o": a.object_code for symbol, a in built.items()}

    functions = _functions(candidates, shapes, built)
    library = f"lib{name}.so"
    threads = max(e.threads for e in entries)
    about = {
        "schema": 1,
        "target": "cpu",
        "name": name,
        "library": library,
        "build": identity,
        "triple": target.triple,
        "cpu": target.cpu,
        "cpu_features": list(features),
        "threads": threads,
        "tools": tools(),
        "kernels": {c.symbol: _about(c, built[c.symbol]) for c in candidates},
        "dispatch": {symbol: list(among) for symbol, among in (choices or {}).items()},
    }
    texts = {
        f"{name}.h": header(name, functions, list(features), threads),
        f"{name}_example.c": example(name, functions),
        f"{name}.cmake": cmake(name),
        f"{name}.json": json.dumps(about, indent=1) + "\n",
        f"{name}.py": module,
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    made, note = _linked(folder, library, objects, exported(name, entries, shapes))
    return [*made, *(folder / file for file in texts)], note


def _functions(
    candidates: Sequence[Candidate], shapes: Sequence[Shapes], built: Mapping[str, CpuArtifact]
) -> list[Function]:
    """The functions of the library: the kernels, then those that choose among them by shape."""
    functions = [
        Function(c.symbol, c.task.name, built[c.symbol].params, indices=_indices(c.task))
        for c in candidates
    ]
    for shape in shapes:
        params = built[shape.entries[0][0]].params
        variants = tuple(tuple(map(tuple, extents)) for _, extents in shape.entries)
        functions.append(Function(shape.symbol, f"{shape.symbol}, by shape", params, variants))
    return functions


def _indices(task: Task) -> dict[int, range]:
    """The values of the inputs that are read as indices, by position."""
    values = drawn_values(task.tensors)
    return {k: values[t] for k, t in enumerate(task.tensors) if t in values}


def _linked(
    folder: Path, library: str, objects: Mapping[str, bytes], symbols: Sequence[str]
) -> tuple[list[Path], str]:
    """Link the library, or write the object files if there is no linker."""
    command = linker()
    if command is not None:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            paths = _written(Path(place), objects)
            link(command, paths, folder / library, symbols)
        return [folder / library], ""
    paths = _written(folder, objects)
    words = " ".join(path.name for path in paths)
    note = (
        f"{NO_LINKER}: the object files are there instead; elsewhere, or after installing one "
        f"(pip install ziglang), link them in {folder} with\n"
        f"  cc -shared -o {library} {words} -Wl,-z,nodelete,-Bsymbolic -lm -lpthread"
    )
    return paths, note


def _written(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    for file, data in files.items():
        (folder / file).write_bytes(data)
    return [folder / file for file in files]


def _one_target(candidates: Sequence[Candidate]) -> Target:
    """The common target of all candidates, because a library states its requirements once.

    Raises ConfigError if targets differ.
    """
    first = candidates[0].task
    for c in candidates:
        there = c.task.target
        if (there.triple, there.cpu, there.features) != _machine(first.target):
            raise ConfigError(
                f"{first.name} is for {first.target} and {c.task.name} for {there}; one library is "
                "for one CPU: build them apart"
            )
    return first.target


def _refuse_same_names(name: str, symbols: Sequence[str]) -> None:
    """Raise ConfigError if a kernel has the name of one of the library's own functions."""
    for symbol, often in Counter(symbols).items():
        if often > 1:
            raise ConfigError(
                f"the library {name} defines {symbol} itself, and a kernel has the same name; give "
                "the library another name"
            )


def _machine(target: Target) -> tuple[str, str, str]:
    return target.triple, target.cpu, target.features


def _build(candidate: Candidate) -> CpuArtifact:
    symbol = f"autosched_kernel_{candidate.symbol}"
    with candidate.named_in_errors():
        return build_candidate(candidate.task, candidate.steps, name=symbol)


def _threads(artifact: CpuArtifact) -> int:
    return artifact.threads if artifact.parallel else 1


def _plain(target: Target) -> Target:
    """The most basic CPU of the architecture, for the code that inspects the CPU."""
    cpu = "x86-64" if _is_x86(target) else "generic"
    return replace(target, cpu=cpu, features="", vector_bytes=16)


def _is_x86(target: Target) -> bool:
    return (target.triple or cpu_target().triple).split("-")[0] in _X86


def _needs(target: Target) -> tuple[dict[str, Bit], int]:
    if not _is_x86(target):
        return {}, 0
    return needed(target.features), saved_registers(target.features)


def _shapes(symbol: str, among: Sequence[str], built: Mapping[str, CpuArtifact]) -> Shapes:
    """The dispatch function `symbol` over the kernels `among`.

    Raises ConfigError if their arrays differ in name, type or rank, or if two have the same shapes.
    """
    kinds = {tuple((p.name, p.dtype, len(p.shape or ())) for p in built[s].params) for s in among}
    if len(kinds) > 1:
        raise ConfigError(
            f"{symbol}: kernels that are chosen by shape must take the same arrays, with the same "
            f"types and numbers of dimensions; {', '.join(among)} do not; build them apart"
        )
    entries = [(s, [constant_shape(p) for p in built[s].params]) for s in among]
    same = {tuple(extents) for _, extents in entries}
    if len(same) < len(entries):
        raise ConfigError(f"{symbol}: two of {', '.join(among)} are for the same shapes")
    return Shapes(symbol, [len(p.shape or ()) for p in built[among[0]].params], entries)


def _about(candidate: Candidate, artifact: CpuArtifact) -> dict[str, Any]:
    return {
        **candidate.about(),
        "parameters": [parameter(p) for p in artifact.params],
        "threads": _threads(artifact),
        "sha256": hashlib.sha256(artifact.object_code).hexdigest(),
    }
