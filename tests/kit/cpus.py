"""CPU targets for features and plans, which depend on the target alone, not on this machine."""

from __future__ import annotations

from autosched.target import HardwareParams, Target

_AVX2 = "+avx,+avx2,+fma"
CPUS = {
    cpu: Target(
        "cpu",
        HardwareParams.default("cpu", threads=2),
        2,
        cpu,
        features,
        "x86_64-unknown-linux-gnu",
        width,
        caches=(32 << 10, 512 << 10, 32 << 20),
    )
    for cpu, features, width in [
        ("haswell", _AVX2, 32),
        ("skylake-avx512", f"{_AVX2},+avx512f,+avx512vl,+avx512bw,+avx512dq", 64),
    ]
}
"""One CPU with registers of 32 bytes and one with 64."""
