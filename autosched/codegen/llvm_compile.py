"""From LLVM assembly to object code.

There are three levels of optimisation. `light` suits code that is explicit already (vectors and
unrolled register tiles): it promotes stack slots to registers, unrolls where emit_llvm asks for it,
and takes a tenth of the time of `full`. `full` is LLVM's O3. `auto` takes `light` for modules whose
innermost loops compute vectors, even short ones, because O3 joins none to longer ones. On a Zen 3
such modules take 0.44 of the time to compile, and their kernels take as long. `scalar` is O2
without vectors and unrolling, for loops of one value after the other (`compiled_loops.py`): they
take 0.98 of the time of `full` and 0.91 of that of `light`, compiling them 0.7 of that of `full`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any, Literal

import llvmlite.binding as llvm

from autosched.errors import CompileError
from autosched.target import Target

LARGE = 1200
"""Lines of assembly beyond which `full` is O1 with loop vectorisation.

O3 takes over half a second on unrolled scalar code, and its result is often slower. O1 unrolls only
what emit_llvm asks for: on 2,000 lines of dependent reductions its unrolling took 50 s, without it
0.2 s. Kernels of 54 random candidates take 1.00 of the time (Zen 4), compiling 0.94.
"""

_EFFORT = 1
"""Effort of code generation, at most 3.

Kernels of 236 random candidates of six operators took 0.998 to 1.003 of the time with 1, and
generating their code 0.78 to 0.96 (Zen 5).
"""

_UNNEEDED, _WIDE = "-disable-lsr", 64
"""The pass of code generation, loop strength reduction, left out for vectors of `_WIDE` bytes.

emit_llvm adds up addresses from round to round itself. Without the pass, code is generated in 0.66
to 0.77 of the time and kernels take as long (Zen 4); code for AVX2 takes 1.01 of the time.
"""
_ENDLESS, _HAS_ENDLESS = "-disable-loop-idiom-hashrecognize", llvm.llvm_version_info[0] >= 22
"""What recognises CRC sums in loops, from LLVM 22 on, left out.

It goes through both operands of every value that leads to a result. In a loop of 8 rounds, 32
maxima one after the other, each of which is read twice, took it more than a minute.
"""
_options = Lock()

Level = Literal["auto", "light", "full", "scalar"]
_UNROLLED = re.compile(r"llvm\.loop\.unroll\.(?:count|full)")
_BRANCHES = "\nthen"
"""The label of branches, which instruction combining improves.

It makes one load or value of each value that branches write to registers. Without it a padded
window that lives in registers takes 1.4 times as long. Straight code gains nothing from it.
"""
_FROM_UNSIGNED = re.compile(r"= uitofp i(?:16|32|64) ")
"""Conversions of scalars that LLVM 22 gets wrong where it joins them to vectors (SLP).

It computes in as few bits as an integer takes, and then makes 2^32 - 1 of a -1 that has become an
uint64.
"""
_LOCAL_ARRAY = re.compile(r"^ +(%\S+) = alloca \[(\d+) x (\w+)\].*$", re.MULTILINE)
_SMALL = 256  # elements of a local array that may become one vector


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # for inline assembly


@lru_cache(maxsize=8)
def _machine(triple: str, cpu: str, features: str) -> Any:
    _initialize()
    triple = triple or llvm.get_process_triple()
    try:
        family = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise CompileError(
            f"this machine's LLVM does not support {triple} (the target that the candidate was "
            f"recorded for); use a form that needs no compiler, such as loops or tir"
        ) from error
    return family.create_target_machine(
        cpu=cpu, features=features, opt=_EFFORT, reloc="pic", codemodel="default", jit=False
    )


def machine(target: Target) -> Any:
    """The (shared) llvmlite target machine of `target`."""
    return _machine(target.triple, target.cpu, target.features)


def _parse(ir_text: str, target: Target) -> Any:
    tm = machine(target)
    try:
        module = llvm.parse_assembly(ir_text)
        module.triple = target.triple or llvm.get_process_triple()
        module.data_layout = str(tm.target_data)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM rejected the generated code: {error}") from error
    return module


def _optimized(ir_text: str, target: Target, level: Level) -> Any:
    """The module after LLVM's passes."""
    if level == "auto":
        level = "light" if is_explicit(ir_text) else "full"
    module = _promoted(ir_text, target)
    tm = machine(target)
    large, scalar = level == "full" and ir_text.count("\n") > LARGE, level == "scalar"
    speed = 1 if large else 2 if scalar else 3
    options = llvm.create_pipeline_tuning_options(speed_level=speed)
    options.slp_vectorization = not (large or scalar or _FROM_UNSIGNED.search(ir_text))
    options.loop_vectorization = options.loop_interleaving = not scalar
    options.loop_unrolling = not (large or scalar) or bool(_UNROLLED.search(ir_text))
    builder = llvm.create_pass_builder(tm, options)
    if level != "light":
        with _without(_ENDLESS, _HAS_ENDLESS):
            builder.getModulePassManager().run(module, builder)
        return module
    passes = llvm.create_new_module_pass_manager()
    passes.add_simplify_cfg_pass()
    if _BRANCHES in ir_text:
        passes.add_instruction_combine_pass()
    if _UNROLLED.search(ir_text):
        passes.add_loop_unroll_pass()
    passes.run(module, builder)
    return module


def _promoted(ir_text: str, target: Target) -> Any:
    """The module with its local arrays in registers, where they can be (SROA).

    LLVM 22 joins vectors that are stored to parts of an array and loaded as one. It does so right
    before the store of the last part, though another part may be stored later, so that values are
    used before they are defined. If an array is stored to as a whole first, LLVM does not join its
    parts, at no cost.
    """
    for text in (ir_text, _stored_as_wholes(ir_text)):
        module = _parse(text, target)
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.run(module, llvm.create_pass_builder(machine(target), options))
        try:
            module.verify()
        except RuntimeError as error:
            failure = error
        else:
            return module
    raise CompileError(f"LLVM's SROA pass broke the generated code: {failure}") from failure


def _stored_as_wholes(ir_text: str) -> str:
    """The module with a store of poison to each small local array."""

    def stored(found: re.Match[str]) -> str:
        line, name, count, element = found.group(0, 1, 2, 3)
        if int(count) > _SMALL:
            return line
        return f"{line}\n  store <{count} x {element}> poison, ptr {name}, align 1"

    return _LOCAL_ARRAY.sub(stored, ir_text)


def is_explicit(ir_text: str) -> bool:
    """Whether emit_llvm found no innermost loop of scalars in the module."""
    return ir_text.startswith("; innermost loops of scalars: 0\n")


def optimized(ir_text: str, target: Target, level: Level = "auto") -> str:
    """The module after LLVM's passes, as text."""
    return str(_optimized(ir_text, target, level))


def compile_object(ir_text: str, target: Target, level: Level = "auto") -> bytes:
    """A relocatable object file of the module. Raises CompileError when LLVM rejects it."""
    return object_of(_optimized(ir_text, target, level), target)


def object_of(module: Any, target: Target) -> bytes:
    """A relocatable object file of the module after LLVM's passes."""
    with _without(_UNNEEDED, target.vector_bytes >= _WIDE):
        return bytes(machine(target).emit_object(module))


def assembly(ir_text: str, target: Target, level: Level = "auto") -> str:
    """The machine's assembly text of the module."""
    module = _optimized(ir_text, target, level)
    with _without(_UNNEEDED, target.vector_bytes >= _WIDE):
        return str(machine(target).emit_assembly(module))


@contextmanager
def _without(option: str, wanted: bool) -> Iterator[None]:
    """Leave out the pass that `option` disables, where that is `wanted`.

    LLVM's options belong to the process, so they are set back for its other users.
    """
    if not wanted:
        yield
        return
    with _options:
        llvm.set_option("autosched", f"{option}=true")
        try:
            yield
        finally:
            llvm.set_option("autosched", f"{option}=false")
