"""Occupancy, against figures of NVIDIA's calculator for compute capability 9.0."""

from __future__ import annotations

import pytest

from autosched.runtime.device import KernelFacts
from autosched.runtime.fake_device import FACTS
from autosched.runtime.occupancy import occupancy


@pytest.mark.parametrize(
    ("threads", "registers", "static", "dynamic", "blocks", "limit"),
    [
        (256, 32, 0, 0, 8, "threads"),
        (256, 33, 0, 0, 6, "registers"),  # 40 registers are given: 12 warps a partition
        (256, 128, 0, 0, 2, "registers"),
        (1024, 64, 0, 0, 1, "registers"),
        (1024, 65, 0, 0, 0, "registers"),
        (32, 16, 0, 0, 32, "blocks"),
        (128, 32, 0, 100 << 10, 2, "shared"),
        (128, 32, 48 << 10, 0, 4, "shared"),
        (33, 16, 0, 0, 32, "blocks"),  # two warps
    ],
)
def test_occupancy(
    threads: int, registers: int, static: int, dynamic: int, blocks: int, limit: str
) -> None:
    uses = KernelFacts(registers, 0, static, 1024)
    found = occupancy(FACTS, uses, threads, dynamic)
    assert (found.blocks, found.limit) == (blocks, limit)
    warps = -(-threads // 32)
    assert found.share == blocks * warps * 32 / 2048
