"""The measured peak of tensor instructions: nothing is optimised away, a plausible rate."""

import dataclasses
import re

import pytest

from autosched.codegen.llvm_compile import assembly
from autosched.measure.instruction_peak import instruction_peak, tile_ir, vector_ir
from autosched.target import cpu_target
from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.registry import available, instruction
from autosched.te.intrin.x86 import X86
from kit.cpus import CPUS

HERE = cpu_target(1)


@pytest.mark.parametrize("it", X86, ids=lambda it: it.name)
def test_nothing_is_optimised_away(it: Instruction) -> None:
    if it not in available(HERE):
        assert instruction_peak(HERE, it) is None
        return
    tiles = it.c.scope == "amx.tile"
    code = assembly(tile_ir(it) if tiles else vector_ir(it), HERE, "light")
    names = [it.name.split(".")[1 if tiles else 0]]
    if names[0].endswith("pmaddwd"):
        names.append("vpdpwssd")  # where there is VNNI, LLVM makes one of it and its sum
    uses = [line for line in code.splitlines() if any(name in line for name in names)]
    assert len(uses) >= (4 if tiles else 12)


@pytest.mark.parametrize(
    "it", [it for it in X86 if it.c.scope != "amx.tile"], ids=lambda it: it.name
)
def test_the_loop_does_nothing_else(it: Instruction) -> None:
    """vpdpbusd's had a product of the sums and two copies for each: half of the rate."""
    wide = CPUS["skylake-avx512"]
    features = ",".join([wide.features, *(f"+{feature}" for feature in it.features)])
    target = dataclasses.replace(wide, features=features)
    code = assembly(vector_ir(it), target, "light")
    loop = re.search(r"^\.LBB0_1:(.*?)^\tj", code, re.DOTALL | re.MULTILINE)
    assert loop is not None
    lines = [line for line in loop[1].splitlines() if re.match(r"\t[{a-z]", line)]
    copies = [line for line in lines if "mov" in line]
    assert len(copies) <= 1  # of pmaddwd's operand
    assert len(lines) - len(copies) in (12 + 2, 2 * 12 + 2)


def test_peak_of_this_machine() -> None:
    assert instruction_peak(HERE, instruction("neon.sdot")) is None
    for it in available(HERE)[:1]:
        peak = instruction_peak(HERE, it)
        assert peak is None or peak > 1e9
