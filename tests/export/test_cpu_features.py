"""What a library asks of the CPU, against what LLVM knows of this one."""

from __future__ import annotations

import ctypes
import platform

import llvmlite.binding as llvm
import pytest

from autosched.codegen.llvm_compile import compile_object
from autosched.cpuid import BITS
from autosched.export.cpu import _plain
from autosched.export.cpu_features import needed, saved_registers
from autosched.export.library_ir import Entry, library_ir
from autosched.runtime.native import load_object, runtime_library
from autosched.target import cpu_target

X86 = platform.machine() == "x86_64"


@pytest.mark.skipif(not X86, reason="CPUID is of x86")
@pytest.mark.parametrize("registers", [0, 0xE6])
def test_a_library_names_exactly_the_features_that_are_missing(registers: int) -> None:
    target = cpu_target(1)
    known = {name for name, there in llvm.get_host_cpu_features().items() if there}
    for some in (BITS, {n: b for n, b in BITS.items() if n in known}):
        code = compile_object(library_ir("lib", [], [], some, registers), _plain(target), "light")
        # This one is in no shared library; nothing calls it here.
        absent = {"pthread_atfork": runtime_library().addresses["autosched_call"]}
        library = load_object(code, ["lib_problem"], absent)
        problem = ctypes.CFUNCTYPE(ctypes.c_char_p)(library.addresses["lib_problem"])
        text = problem()
        assert problem() == text
        missing = [name for name in some if name not in known]
        if registers and "avx512f" not in known:
            missing += ["registers (saved by the system)"]
        if not missing:
            assert text is None
            continue
        assert text is not None
        start, _, found = text.decode().partition(": ")
        assert start == "this library needs what this machine's CPU or system lacks"
        assert found == " ".join(missing)


def test_needs_are_those_of_the_target() -> None:
    assert list(needed("+egpr,-zu,+ndd")) == ["egpr", "ndd"]  # of the CPUs to come
    assert {needed(f"+{name}")[name].bit for name in ("egpr", "nf", "zu")} == {21}
    assert [saved_registers(f"+egpr{f}") for f in ("", ",+avx", ",+avx,+avx512f")] == [
        0x80000, 0x80006, 0x800E6,
    ]  # fmt: skip
    assert list(needed("+avx2,-xop,+aes,+sse4.1,-fma")) == ["sse4.1", "avx2"]
    assert [saved_registers(f) for f in ("+sse2", "+avx,+sse2", "+avx,+avx512f", "-avx")] == [
        0,
        6,
        0xE6,
        0,
    ]


def test_no_question_is_asked_where_there_is_no_cpuid() -> None:
    text = library_ir("lib", [Entry("f", "g", 2, 1)], [], {}, 0)
    assert "cpuid" not in text
    assert "define i32 @f(ptr %a0, ptr %a1)" in text
