"""The measured bandwidths: every vector is read, levels in their order, memory only if it fits."""

import pytest

from autosched.codegen.llvm_compile import assembly
from autosched.measure import bandwidth
from autosched.measure.bandwidth import bandwidths, read_ir
from autosched.target import cpu_target

KIB = 2**10


@pytest.mark.parametrize("width", [16, cpu_target(1).vector_bytes])
def test_nothing_is_optimised_away(width: int) -> None:
    code = assembly(read_ir(width), cpu_target(1), "full")
    reads = [line for line in code.splitlines() if "xor" in line and "(%r" in line]
    loads = [line for line in code.splitlines() if "ldr" in line or "ldp" in line]
    assert len(reads) >= 8 or loads


def test_levels_that_this_machine_does_not_have_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bandwidth, "cache_sizes", lambda: (16 * KIB, 64 * KIB, 64 * KIB))
    found = bandwidths(cpu_target(1))
    assert [b.level for b in found] == ["L1", "L2", "memory"]
    assert [b.bytes_each for b in found] == [8 * KIB, 32 * KIB, 128 * KIB]
    assert all(b.bytes_per_second > 1e7 for b in found)
    monkeypatch.setattr(bandwidth, "free_bytes", lambda: 400 * KIB)
    assert [b.level for b in bandwidths(cpu_target(1))] == ["L1", "L2"]
