"""Ask LLVM whether it knows the CPU that a target names, in a process that may be aborted."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from typing import NamedTuple

from autosched.cpu_features import UNKNOWN
from autosched.target import Target, cpu_target

# LLVM warns of an unknown CPU, and then it may end the process ("64-bit code requested on a
# subtarget that doesn't support it"). An unknown triple is no problem here: compiling raises
# CompileError for it.
_PROBE = """
import sys
import llvmlite.binding as llvm
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
triple, cpu, features = sys.argv[1:]
try:
    family = llvm.Target.from_triple(triple or llvm.get_process_triple())
except RuntimeError:
    sys.exit(0)
machine = family.create_target_machine(cpu=cpu, features=features)
module = llvm.parse_assembly("define void @f() { ret void }")
machine.emit_assembly(module)
"""


class Answer(NamedTuple):
    """The answer of LLVM about a CPU: names that it does not know, and why it makes no code at all.

    `unknown` has the CPU's name and the names of features that are to be used. `unused` has the
    names of features that are not (`-avx10.1`), which newer versions of LLVM know: code is the same
    without them. `problem` is empty if LLVM makes code.
    """

    unknown: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    problem: str = ""


def ask_llvm(target: Target) -> Answer:
    """The answer of this machine's LLVM about the target's CPU and features."""
    here = cpu_target()
    if (target.cpu, target.features) in (("", ""), (here.cpu, here.features)):
        return Answer()
    return _asked(target.triple, target.cpu, target.features)


@lru_cache(maxsize=8)
def _asked(triple: str, cpu: str, features: str) -> Answer:
    words = [sys.executable, "-P", "-c", _PROBE, triple, cpu, features]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    names = list(dict.fromkeys(UNKNOWN.findall(done.stderr)))
    unused = tuple(name for name in names if name.startswith("-"))
    problem = ""
    if done.returncode != 0:
        problem = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return Answer(tuple(name for name in names if name not in unused), unused, problem)
