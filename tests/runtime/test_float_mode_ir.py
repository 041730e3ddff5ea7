"""The floating-point mode that a loop's launcher hands to its workers."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest

from autosched.runtime.float_mode_ir import float_mode_ir
from autosched.target import cpu_target

_TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
_INSTRUCTIONS = {"x86_64": ("stmxcsr", "ldmxcsr"), "aarch64": ("mrs", "msr"), "riscv64": ()}


@pytest.mark.parametrize("processor", list(_INSTRUCTIONS))
def test_each_processor_has_its_instructions(processor: str) -> None:
    triple = _TRIPLES.get(processor, cpu_target().triple)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = float_mode_ir(processor).replace("private ", "")
    module = llvm.parse_assembly(f'target triple = "{triple}"\n{text}')
    module.verify()
    assembly = llvm.Target.from_triple(triple).create_target_machine().emit_assembly(module)
    found = re.findall(r"\b(?:stmxcsr|ldmxcsr|mrs|msr)\b", assembly)
    assert tuple(found) == _INSTRUCTIONS[processor]
