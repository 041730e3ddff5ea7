"""What LLVM says of names of no CPU, and of one that it makes no code for."""

from __future__ import annotations

import platform
from dataclasses import replace

import pytest

from autosched.codegen.known_cpu import Answer, ask_llvm
from autosched.target import cpu_target

HERE = cpu_target(1)


def test_this_cpu_is_known() -> None:
    assert ask_llvm(HERE) == ask_llvm(replace(HERE, cpu="", features="")) == Answer()
    assert ask_llvm(replace(HERE, triple="no-such-machine", cpu="x")) == Answer()


def test_names_that_llvm_does_not_know() -> None:
    """Those of features that are not used, which a newer LLVM lists, are told apart."""
    features = f"{HERE.features},+of-tomorrow,-of-tomorrow-too"
    found = ask_llvm(replace(HERE, cpu="cpu9000", features=features))
    assert found == Answer(("cpu9000", "+of-tomorrow"), ("-of-tomorrow-too",))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86")
def test_a_cpu_that_llvm_ends_the_process_for() -> None:
    found = ask_llvm(replace(HERE, cpu="pentium4", features=""))
    assert found.problem.startswith("LLVM ERROR: 64-bit code requested") and not found.unknown
