"""The GPU worker's requests on a fake device, without processes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from autosched.errors import DeviceError, MeasureError
from autosched.measure import check, gpu_run
from autosched.measure.check import Seen
from autosched.measure.gpu_run import MOST_LAUNCHES
from autosched.target import cuda_target
from autosched.task import Task
from kit.device import artifact, fake
from kit.fake_gpu import FakeSession

TASK = Task.from_workload("matmul", M=8, N=8, K=8, target=cuda_target("sm_90"))


def session(cold: bool = False) -> FakeSession:
    found = FakeSession(fake())
    found.handle(("facts",))
    found.handle(("task", TASK.to_json(), cold))
    found.handle(("expected", found.handle(("reference",))))
    return found


def first(found: FakeSession, **fields: Any) -> float:
    found.handle(("load", 0, artifact(**fields).to_bytes()))
    seconds: float = found.handle(("first", 0))
    return seconds


def test_a_right_kernel() -> None:
    found = session()
    assert first(found, seconds=1e-4) == pytest.approx(1.05e-4)
    seen = Seen.from_json(found.handle(("check", 0)))
    assert (seen.telling, seen.error, seen.tolerance) == (1.0, 0.0, 2e-4)
    assert found.handle(("time", 0, 0.0125, 3)) == [pytest.approx(1e-4)]  # no launch is in it
    found.handle(("again", 0))
    assert found.handle(("uses", 0))["main_kernel"]["registers"] == 32


def test_what_is_the_same_for_every_candidate_is_worked_out_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def noted(module: ModuleType, name: str) -> Callable[..., Any]:
        function = getattr(module, name)

        def called(*arguments: Any) -> Any:
            asked.append(name)
            return function(*arguments)

        return called

    for module, name in (
        (check, "allowance"),
        (check, "telling_share"),
        (gpu_run, "tolerances"),
    ):
        monkeypatch.setattr(module, name, noted(module, name))
    found = session()
    assert sorted(asked) == ["allowance", "telling_share", "tolerances"]
    for _ in range(2):
        first(found)
        assert Seen.from_json(found.handle(("check", 0))).telling == 1.0
        found.handle(("again", 0))
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("value", r"wrong answer: 1 of 64 elements of C .* first at \(7, 7\): expected .*, found"),
        ("nothing", r"wrong answer: 64 of 64 elements of C .*\(0, 0\): expected .*, found nan"),
        ("guard", r"wrote beside its arrays: \d bytes behind C \(2\), the first 0 bytes after"),
        ("input", "changed its inputs: A, B"),
    ],
)
def test_wrong_kernels_are_found(wrong: str, says: str) -> None:
    found = session()
    first(found, wrong=wrong)
    with pytest.raises(MeasureError, match=says) as caught:
        found.handle(("check", 0))
    assert caught.value.kind == "wrong_answer"
    first(found)  # nothing of it is left for the next
    found.handle(("check", 0))


def test_right_the_first_time_only() -> None:
    found = session()
    first(found, wrong="later")
    found.handle(("check", 0))
    with pytest.raises(MeasureError, match="wrong answer"):
        found.handle(("again", 0))


def test_workspaces_are_poisoned_and_guarded() -> None:
    found = session()
    first(found, workspace=128)
    plan = found._plans[0]
    assert plan.workspaces is not None
    address = plan.workspaces.address["W"]
    assert (found.fake.download(address, 128) == 0xFF).all()
    found.fake.fill(address + 128, 1, 0)
    with pytest.raises(MeasureError, match="behind W"):
        found.handle(("check", 0))


@pytest.mark.parametrize("workspace", [0, 64])
@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("seconds", [1e-7, 1e-5, 1e-3, 1.0])
def test_no_more_is_queued_behind_the_gate_than_the_queue_holds(
    seconds: float, cold: bool, workspace: int
) -> None:
    found = session(cold)
    first(found, seconds=seconds, workspace=workspace)
    calls = found.fake.calls
    calls.clear()
    found.handle(("time", 0, 0.0125, 3))
    behind = calls[calls.index("close_gate") + 1 : calls.index("open_gate")]
    assert set(behind) <= {"launch", "record", "flush_l2"}  # nothing that waits or allocates
    assert len([c for c in behind if c != "record" or cold]) <= MOST_LAUNCHES
    assert behind.count("flush_l2") == (behind.count("record") // 2 if cold else 0)


def test_cold_times_have_no_flush_in_them() -> None:
    found = session(cold=True)
    first(found, seconds=1e-4)
    assert found.handle(("time", 0, 0.0125, 3)) == [pytest.approx(1e-4)]


def test_a_gate_that_gave_up_is_closed_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    found = session()
    first(found)
    opened = iter([False, False])
    monkeypatch.setattr(found.fake, "open_gate", lambda: next(opened))
    found.handle(("time", 0, 1e-4, 3))
    assert not list(opened)


def test_another_task_takes_the_place_of_the_first() -> None:
    found = session()
    first(found)
    other = Task.from_workload("matmul", M=16, N=8, K=8, target=cuda_target("sm_90"))
    calls = found.fake.calls
    found.handle(("task", other.to_json(), False))
    assert calls.count("alloc") == calls.count("free") + 1


def test_a_task_without_room_says_how_many_bytes() -> None:
    large = Task.from_workload("matmul", M=16384, N=16384, K=8, target=cuda_target("sm_90"))
    found = session()
    with pytest.raises(MeasureError, match=r"no room for 1,07\d,\d+,\d+ bytes"):
        found.handle(("task", large.to_json(), False))


def test_errors_of_the_driver_come_through() -> None:
    with pytest.raises(DeviceError, match="illegal address in main_kernel"):
        first(session(), run=700)
