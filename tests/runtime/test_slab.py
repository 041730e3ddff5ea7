"""Buffers between guard bands."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import MeasureError
from autosched.runtime.slab import ALIGNMENT, BAND, Slab
from kit.device import fake

SIZES = {"A": 1000, "B": 256, "C": 3}


def test_buffers_are_aligned_and_apart() -> None:
    slab = Slab(fake(), SIZES)
    ends = 0
    for name, address in slab.address.items():
        assert address % ALIGNMENT == 0
        assert address - ends >= BAND
        ends = address + SIZES[name]


def test_poison_stays_inside_and_is_nan() -> None:
    device = fake()
    slab = Slab(device, SIZES)
    slab.poison(["A", "C"])
    assert np.isnan(device.download(slab.address["A"], 1000).view(np.float32)).all()
    assert not device.download(slab.address["B"], 256).any()
    assert slab.beside() is None


@pytest.mark.parametrize(
    ("name", "offset", "says"),
    [
        ("A", -1, "1 bytes before A"),
        ("A", -BAND, "1 bytes before A"),
        ("A", 1000, "1 bytes behind A, the first 0 bytes after its end"),
        ("B", -1, "1 bytes behind A, the first "),
        ("B", 300, "1 bytes behind B, the first 44 bytes after its end"),
        ("C", 3, "1 bytes behind C, the first 0 bytes after its end"),
        ("C", 2 + BAND, "1 bytes behind C, the first 4095 bytes after its end"),
    ],
)
def test_a_byte_written_beside_is_found_and_mended(name: str, offset: int, says: str) -> None:
    device = fake()
    slab = Slab(device, SIZES)
    device.fill(slab.address[name] + offset, 1, 0)
    found = slab.beside()
    assert found is not None and found.startswith(says)
    assert slab.beside() is None


def test_without_room_the_bytes_are_said() -> None:
    with pytest.raises(MeasureError, match=r"no room for 2,[0-9,]+ bytes \(A, B\)") as caught:
        Slab(fake(), {"A": 1 << 31, "B": 4})
    assert caught.value.kind == "memory"


def test_memory_is_given_back_once() -> None:
    device = fake()
    slab = Slab(device, SIZES)
    slab.free()
    slab.free()
    assert device.calls.count("free") == 1
