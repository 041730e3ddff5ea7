"""The measured bandwidths: every vector is read, levels in their order, memory only if it fits."""

from pathlib import Path

import pytest

from autosched.codegen.llvm_compile import assembly
from autosched.control_groups import GroupMemory
from autosched.measure import bandwidth
from autosched.measure.bandwidth import bandwidths, read_ir
from autosched.target import cpu_target

KIB = 2**10
WIDEST = cpu_target(1).vector_bytes


@pytest.mark.parametrize("width", sorted({16, min(32, WIDEST), WIDEST}))
def test_nothing_is_optimised_away(width: int) -> None:
    code = assembly(read_ir(width), cpu_target(1), "light")
    reads = [line for line in code.splitlines() if "xor" in line and "(%r" in line]
    loads = [line for line in code.splitlines() if "ldr" in line or "ldp" in line]
    assert len(reads) == 16 or loads
    assert "(%rsp" not in code  # the accumulators are in registers


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


def test_a_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = tmp_path / "meminfo"
    system.write_text("MemTotal: 900 kB\nMemAvailable:  500 kB\nCached: 3 kB\n")
    for groups, free in (
        ([], 500 * KIB),
        ([GroupMemory(1 << 40, 1000)], 500 * KIB),
        ([GroupMemory(9000, 1000), GroupMemory(20_000, 13_000)], 7000),
        ([GroupMemory(9000, 9500)], 0),
    ):
        monkeypatch.setattr(bandwidth, "group_memory", lambda: groups)
        assert bandwidth.free_bytes(system) == free
