"""What is no compiled kernel, or not all of one, is refused in words."""

import random
import struct

import pytest

from autosched.driver import build_steps
from autosched.errors import MeasureError
from autosched.runtime.artifact import CpuArtifact
from autosched.task import Task


@pytest.fixture(scope="module")
def data() -> bytes:
    task = Task.from_workload("matmul", M=4, N=4, K=4)
    return build_steps(task.dag, (), task.target).to_bytes()


def refusal(data: bytes) -> str:
    with pytest.raises(MeasureError) as caught:
        CpuArtifact.from_bytes(data)
    assert caught.value.stage == "load"
    message = str(caught.value)
    assert message.startswith("not a compiled CPU kernel: ")
    assert "\n" not in message
    return message.partition(": ")[2]


def test_every_beginning_is_refused(data: bytes) -> None:
    assert CpuArtifact.from_bytes(data).to_bytes() == data
    assert CpuArtifact.from_bytes(bytearray(data)).to_bytes() == data
    for length in {*range(200), *range(200, len(data), 97), len(data) - 1}:
        refusal(data[:length])
    assert refusal(data[:5]) == "it ends after 5 bytes"
    assert refusal(data[:-1]) == f"expected {len(data)} bytes, found {len(data) - 1}"
    assert refusal(data + b"!") == f"expected {len(data)} bytes, found {len(data) + 1}"


def test_every_changed_byte_is_noticed(data: bytes) -> None:
    rng = random.Random(0)
    for position in {*range(150), *rng.sample(range(len(data)), 150)}:
        changed = bytearray(data)
        changed[position] ^= 1 << rng.randrange(8)
        refusal(bytes(changed))
    assert "some of its bytes were changed" in refusal(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (b"", "the first bytes differ"),
        (b"\x7fELF" + bytes(100), "the first bytes differ"),
        (b"ASCPU001" + struct.pack("<Q", 2) + b"{}" + bytes(9), "made by another version of auto"),
        (b"ASCPU002" + struct.pack("<LQL", 1 << 30, 2, 0) + b"{}", "its checksum is wrong"),
        ("ASCPU002", "expected bytes, found 'ASCPU002' (str)"),
        (None, "expected bytes, found None"),
    ],
)
def test_other_bytes(other: bytes, why: str) -> None:
    assert why in refusal(other)
