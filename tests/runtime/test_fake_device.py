"""The fake GPU keeps to what we believe of real ones."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from autosched.errors import DeviceError
from autosched.runtime.device_errors import CODES, device_error
from autosched.runtime.fake_device import QUEUE, FakeDevice, difference
from kit.device import cubin, fake

ONE = (1, 1, 1)


def launch(device: FakeDevice, data: bytes, *pointers: int) -> None:
    kernel, _ = device.kernel(device.load(data), "k", 0)
    device.launch(kernel, ONE, ONE, 0, pointers)


@pytest.mark.parametrize("code", CODES)
def test_each_code_surfaces_when_waiting_and_stays_where_the_context_is_dead(code: int) -> None:
    device = fake()
    launch(device, cubin(run=code))
    with pytest.raises(DeviceError, match="in k ") as caught:
        device.synchronize()
    assert caught.value.code == code
    if device_error(code, "k", "run").worker_ends:
        with pytest.raises(DeviceError) as again:
            device.alloc(4)
        assert again.value.code == code
    else:
        device.alloc(4)
        device.synchronize()


@pytest.mark.parametrize("stage", ["load", "launch"])
def test_codes_of_loading_and_launching(stage: str) -> None:
    with pytest.raises(DeviceError) as caught:
        launch(fake(), cubin(**{stage: 701}))
    assert caught.value.code == 701


def test_pieces_of_memory_are_apart() -> None:
    device = fake()
    sizes = (1, 256, 257, 1024, 4)
    addresses = [device.alloc(size) for size in sizes]
    for number, (address, size) in enumerate(zip(addresses, sizes, strict=True)):
        device.fill(address, size, number)
    for number, (address, size) in enumerate(zip(addresses, sizes, strict=True)):
        assert (device.download(address, size) == number).all()


def test_a_later_launch_may_fail() -> None:
    device = fake()
    kernel, _ = device.kernel(device.load(cubin(run=700, run_at=2)), "k", 0)
    device.launch(kernel, ONE, ONE, 0, ())
    device.synchronize()
    device.launch(kernel, ONE, ONE, 0, ())
    with pytest.raises(DeviceError, match="illegal address"):
        device.synchronize()


def test_events_are_of_the_clock_and_the_gate_hides_launches() -> None:
    device = fake()
    kernel, _ = device.kernel(device.load(cubin(seconds=1e-4)), "k", 0)

    def timed() -> float:
        first, second = device.event(), device.event()
        device.record(first)
        for _ in range(10):
            device.launch(kernel, ONE, ONE, 0, ())
        device.record(second)
        return device.elapsed(first, second)

    open_ = timed()
    device.close_gate()
    behind = timed()
    assert device.open_gate()
    assert behind == pytest.approx(1e-3)
    assert open_ > behind


def test_a_full_queue_behind_a_gate_is_a_deadlock() -> None:
    device = fake()
    kernel, _ = device.kernel(device.load(cubin()), "k", 0)
    device.close_gate()
    with pytest.raises(AssertionError, match="deadlock"):
        for _ in range(QUEUE + 1):
            device.launch(kernel, ONE, ONE, 0, ())


def test_memory_that_was_not_allocated() -> None:
    device = fake()
    address = device.alloc(16)
    with pytest.raises(DeviceError, match="illegal address"):
        device.fill(address + 8, 16, 0)
    device.free(address)
    with pytest.raises(DeviceError):
        device.free(address)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.bool_])
def test_comparing(dtype: type) -> None:
    want: npt.NDArray[Any] = np.array([0, 1, 1, 0, 1], dtype)
    got = want.copy()
    same = difference(got, want, (0.0, 0.0, 0.0))
    assert (same.bad, same.first, same.error) == (0, -1, 0.0)
    got[3] = 1
    found = difference(got, want, (0.0, 0.0, 0.0))
    assert (found.bad, found.first) == (1, 3)
    assert difference(got, want, (0.5, 1.0, 0.0)).bad == 0


def test_nan_agrees_with_nan_only_and_infinities_with_their_sign() -> None:
    want = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert difference(want, want, (1e-4, 1e-4, 0.0)).bad == 0
    for index, other in ((0, 1.0), (1, -np.inf), (2, 0.0), (3, np.nan)):
        got = want.copy()
        got[index] = other
        assert difference(got, want, (1e-4, 1e-4, 0.0)).first == index


def test_allocations_do_not_overlap() -> None:
    device = fake()
    sizes = (1, 96, 256, 257, 512, 1000)
    starts = [device.alloc(size) for size in sizes]
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    assert all(end < after for end, after in zip(ends, starts[1:], strict=False))
    assert not any(start % 256 for start in starts)
