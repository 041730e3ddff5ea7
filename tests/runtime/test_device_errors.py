"""What codes of the driver cost: a candidate, a process or the GPU."""

from __future__ import annotations

import pytest

from autosched.runtime.device_errors import CODES, device_error


@pytest.mark.parametrize(
    ("codes", "kind", "ends"),
    [
        ((1, 701, 720), "illegal", False),
        ((2,), "memory", False),
        ((200, 209, 218, 222), "error", False),
        ((700, 710, 714, 715, 716, 717, 718, 719), "crash", True),
        ((702,), "timeout", True),
        ((46, 100, 214, 226, 802, 803, 804, 805, 999), "lost", True),
        ((12345,), "error", True),
    ],
)
def test_the_table(codes: tuple[int, ...], kind: str, ends: bool) -> None:
    found = {(e.kind, e.worker_ends) for e in (device_error(c, "k", "run") for c in codes)}
    assert found == {(kind, ends)}
    assert all(f"in k (CUDA error {c})" in str(device_error(c, "k", "run")) for c in codes)


def test_an_invalid_value_outside_a_launch_is_no_property_of_the_candidate() -> None:
    error = device_error(1, "event", "load")
    assert (error.kind, error.worker_ends) == ("error", False)


def test_every_code_has_a_name() -> None:
    assert not any("not known" in str(device_error(code, "k", "run")) for code in CODES)
    assert "not known here" in str(device_error(12345, "k", "run"))
