"""The features of this machine's CPU, by LLVM's names."""

from __future__ import annotations

from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")

# 64-bit ARM features that Linux reports and LLVM does not detect (Linux, "ARM64 ELF hwcaps").
_OF_ARM = {"asimddp": "dotprod", "i8mm": "i8mm", "bf16": "bf16", "asimdhp": "fullfp16"}


def host_features(cpuinfo: Path = _CPUINFO) -> str:
    """LLVM's features, and on ARM those that Linux reports for all cores: `+avx2,+fma,-sse4a`."""
    import llvmlite.binding as llvm

    found = {str(name): bool(there) for name, there in llvm.get_host_cpu_features().items()}
    found |= dict.fromkeys(_of_arm(cpuinfo), True)
    return ",".join(f"{'+' if there else '-'}{name}" for name, there in sorted(found.items()))


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
