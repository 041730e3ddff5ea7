"""Whether LLVM knows the CPU that a record names: asked in a process that may be aborted."""

from __future__ import annotations

import subprocess
import sys

from autosched.errors import ConfigError
from autosched.target import Target, cpu_target

# Of an unknown CPU LLVM warns, and then it may end the process ("64-bit code requested on a
# subtarget that doesn't support it"). An unknown triple is CompileError's to explain.
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


def require_known_cpu(target: Target) -> None:
    """Raise ConfigError when this machine's LLVM does not know the target's CPU or its features."""
    here = cpu_target()
    if (target.cpu, target.features) in (("", ""), (here.cpu, here.features)):
        return
    asked = [sys.executable, "-c", _PROBE, target.triple, target.cpu, target.features]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode == 0 and "not a recognized" not in done.stderr:
        return
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
    raise ConfigError(
        f"the record is for the CPU {target.cpu!r}, which this machine's LLVM does not support "
        f"({reason}); --as tir and llvm need no CPU, and autosched replay builds for this machine"
    )
