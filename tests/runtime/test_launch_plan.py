"""Artifacts on a device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.errors import MeasureError
from autosched.runtime.cuda_artifact import CudaArtifact, Launch
from autosched.runtime.fake_device import FACTS, FakeDevice
from autosched.runtime.launch_plan import LoadedPlan, cubin_for
from autosched.runtime.slab import Slab
from kit.device import artifact, fake

NAMES = ("A", "B", "C")


def loaded(device: FakeDevice, found: CudaArtifact) -> tuple[LoadedPlan, Slab]:
    slab = Slab(device, dict.fromkeys(NAMES, 256))
    return LoadedPlan(device, FACTS, found, slab.address), slab


def test_a_call_launches_the_plan_in_order() -> None:
    device = fake()
    plan, slab = loaded(device, artifact(workspace=64))
    assert plan.launches == 2
    device.answers[slab.address["C"]] = np.arange(64, dtype=np.float32).tobytes()
    plan.call()
    device.synchronize()
    found = device.download(slab.address["C"], 256).view(np.float32)
    assert found.tolist() == list(range(64))
    assert device.calls.count("launch") == 2


def test_unloading_gives_all_memory_back() -> None:
    device = fake()
    plan, _ = loaded(device, artifact(workspace=64))
    plan.unload()
    plan.unload()
    assert device.calls.count("alloc") == device.calls.count("free") + 1  # the arguments' slab
    assert device.calls.count("unload") == 1


def test_resources_have_the_occupancy() -> None:
    plan, _ = loaded(fake(), artifact(facts=(128, 16, 1024, 1024), block=(256, 1, 1)))
    assert plan.resources["main_kernel"] == {
        "registers": 128,
        "local_bytes": 16,
        "shared_bytes": 1024,
        "occupancy": {"blocks": 2, "share": 0.25, "limit": "registers"},
    }


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (artifact(block=(1024, 2, 1)), "2048 threads a block, .* at most 1024"),
        (artifact(facts=(255, 0, 0, 256), block=(512, 1, 1)), "512 threads .* at most 256"),
        (artifact(shared=233_000), "233000 bytes of shared memory, .* at most 232448"),
        (artifact(shared=200_000, facts=(32, 0, 40_000, 1024)), "240000 bytes of shared"),
    ],
)
def test_what_cannot_be_launched_is_illegal(found: CudaArtifact, says: str) -> None:
    device = fake()
    with pytest.raises(MeasureError, match=says) as caught:
        loaded(device, found)
    assert caught.value.kind == "illegal"
    assert device.calls.count("load") == device.calls.count("unload")


def test_the_limit_itself_can_be_launched() -> None:
    device = fake()
    loaded(device, artifact(shared=227 << 10, block=(1024, 1, 1)))
    assert device.calls.count("load") == 1 and "unload" not in device.calls


def test_a_workspace_without_room_leaves_nothing_behind() -> None:
    device = fake()
    with pytest.raises(MeasureError, match="no room for") as caught:
        loaded(device, artifact(workspace=1 << 31))
    assert caught.value.kind == "memory"
    assert device.calls.count("load") == device.calls.count("unload") == 1


def test_numbers_are_not_passed() -> None:
    found = replace(artifact(), plan=(Launch("main_kernel", ("A", 3)),))
    with pytest.raises(MeasureError, match=r"main_kernel: only arrays can be passed .* found 3"):
        loaded(fake(), found)


def test_code_of_an_older_gpu_of_the_generation_is_taken() -> None:
    found = replace(artifact(), cubins={"sm_80": b"80", "sm_86": b"86", "sm_90": b"90"})
    assert cubin_for(found, "sm_89") == b"86"
    assert cubin_for(found, "sm_80") == b"80"
    with pytest.raises(MeasureError, match=r"sm_120.*has sm_80, sm_86, sm_90; build it for sm_120"):
        cubin_for(found, "sm_120")
