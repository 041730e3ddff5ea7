"""The features of this machine's CPU, and of others, by LLVM's names."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")

# 64-bit ARM features that Linux reports and LLVM does not detect (Linux, "ARM64 ELF hwcaps").
_OF_ARM = {"asimddp": "dotprod", "i8mm": "i8mm", "bf16": "bf16", "asimdhp": "fullfp16"}


_WIDE = {
    64: "cannonlake cascadelake cooperlake diamondrapids emeraldrapids graniterapids "
    "graniterapids-d icelake-client icelake-server knl knm novalake rocketlake sapphirerapids skx "
    "skylake-avx512 tigerlake x86-64-v4 znver4 znver5",
    32: "alderlake arrowlake arrowlake-s bdver1 bdver2 bdver3 bdver4 broadwell btver2 "
    "clearwaterforest core-avx-i core-avx2 corei7-avx gracemont grandridge haswell ivybridge "
    "lunarlake meteorlake pantherlake raptorlake sandybridge sierraforest skylake "
    "wildcatlake x86-64-v3 znver1 znver2 znver3",
}
_VECTOR_BYTES = {cpu: width for width, names in _WIDE.items() for cpu in names.split()}
"""Of the CPUs of x86-64 that LLVM knows. Logs are read by it: `features_of` starts a process."""
UNKNOWN = re.compile(r"^'(.*)' is not a recognized (?:processor|feature)", re.MULTILINE)
"""What LLVM writes to standard error about a name that it does not know."""

# LLVM has no list of a CPU's features. But it inlines a function that needs one only where the
# caller's CPU has it. The process may be aborted: "64-bit code requested on a subtarget that
# doesn't support it", for the name of an old CPU or none.
_PROBE = """
import sys
import llvmlite.binding as llvm
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
cpu, *others = sys.argv[1:]
names = sorted({*llvm.get_host_cpu_features(), *others})
text = 'attributes #0 = { "target-cpu"="' + cpu + '" }\\n'
for k, name in enumerate(names):
    text += (
        f"define internal i32 @needs{k}(i32 %x) #{k + 1} {{ %y = add i32 %x, {k + 1} ret i32 %y }}"
        f" define i32 @caller{k}(i32 %x) #0 {{ %y = call i32 @needs{k}(i32 %x) ret i32 %y }}"
        f' attributes #{k + 1} = {{ "target-features"="+{name}" }}'
    )
module = llvm.parse_assembly(text)
machine = llvm.Target.from_default_triple().create_target_machine()
options = llvm.create_pipeline_tuning_options(speed_level=2)
passes = llvm.create_pass_builder(machine, options)
passes.getModulePassManager().run(module, passes)
for k, name in enumerate(names):
    (block,) = module.get_function(f"caller{k}").blocks
    print(name, int(all(i.opcode != "call" for i in block.instructions)))
"""


def host_features(cpuinfo: Path = _CPUINFO) -> str:
    """LLVM's features, and on ARM those that Linux reports for all cores: `+avx2,+fma,-sse4a`."""
    import llvmlite.binding as llvm

    found = {str(name): bool(there) for name, there in llvm.get_host_cpu_features().items()}
    found |= dict.fromkeys(_of_arm(cpuinfo), True)
    return _listed(found.items())


@lru_cache(maxsize=32)
def features_of(cpu: str) -> str | None:
    """The features of the CPU that LLVM calls `cpu`, as `host_features` lists them.

    None where LLVM knows no such CPU of this machine's architecture, or makes no 64-bit code for
    it. A process is started to find out.
    """
    if not re.fullmatch(r"[\w.+-]+", cpu):
        return None
    words = [sys.executable, "-P", "-c", _PROBE, cpu, *_OF_ARM.values()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    unknown = UNKNOWN.findall(done.stderr)
    if done.returncode != 0 or cpu in unknown:
        return None
    pairs = (line.split() for line in done.stdout.splitlines())
    return _listed((name, there == "1") for name, there in pairs if f"+{name}" not in unknown)


def vector_bytes_of(cpu: str) -> int:
    """The width of the vector registers of the CPU that LLVM calls `cpu`.

    16 for all that are not listed: old ones of x86-64, those of ARM, and unknown ones.
    """
    return _VECTOR_BYTES.get(cpu, 16)


def enabled(features: str) -> frozenset[str]:
    """The features that are there: of `+avx2,-sse4a` avx2."""
    return frozenset(word[1:] for word in features.split(",") if word.startswith("+"))


def _listed(found: Iterable[tuple[str, bool]]) -> str:
    return ",".join(f"{'+' if there else '-'}{name}" for name, there in sorted(found))


def _of_arm(cpuinfo: Path) -> set[str]:
    """LLVM's names of the features in every "Features" line; only ARM has such lines."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return set()
    cores = [
        {_OF_ARM[word] for word in words.split() if word in _OF_ARM}
        for name, _, words in (line.partition(":") for line in lines)
        if name.strip() == "Features"
    ]
    return set.intersection(*cores) if cores else set()
