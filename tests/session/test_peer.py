"""What the best kernel is compared with: NumPy, and the machine's peak."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from autosched.errors import MeasureError
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.session.peer import PLAIN_LOOPS, Peer, peer_of
from autosched.state.steps import Step
from autosched.task import Task
from autosched.words import rate_text
from kit.measurer import PATIENT

TASK = Task.from_workload("matmul", M=8, N=8, K=8)
Steps = tuple[Step, ...]
BEST = Record(TASK.to_json(), (), MeasureResult((1e-6,)))


def test_peers() -> None:
    peer = Peer("numpy.matmul", 2e-6, 1e-6)
    assert peer.share == 2.0
    assert peer.text.startswith("2.00 times the speed of numpy.matmul")
    assert peer.to_json()["share"] == 2.0
    assert "unreliable" not in peer.text
    steady, shaken = [1e-6, 1e-6, 1.1e-6, 1.1e-6], [1e-6, 1e-6, 9e-6, 9e-6]
    for theirs, ours in ((steady, shaken), (shaken, steady)):
        found = Peer.of("numpy.matmul", theirs, ours)
        assert found.disturbed and found.to_json()["disturbed"]
        assert found.text.endswith("unreliable: other programs use the cores")
    assert not Peer.of("numpy.matmul", steady, steady).disturbed
    assert Peer("NumPy", 1e-6, 1e-6).warning is None
    assert Peer("NumPy", 1e-6, 1.5e-6, scatter=2.0).warning is None
    assert "slower than NumPy; more trials" in (Peer("NumPy", 1e-6, 1.5e-6).warning or "")


@pytest.fixture(scope="module")
def measurer() -> Iterator[Measurer]:
    with Measurer.create(workers=1, build_timeout=PATIENT) as found:
        yield found


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ({"op": "matmul", "args": {"M": 4, "N": 4, "K": 4}}, "numpy.matmul (OpenBLAS)"),
        ({"op": "softmax", "args": {"M": 4, "N": 4}}, "NumPy"),
        ({"expr": "C[i, j] += A[i, k] * A[k, j]", "shapes": {"A": [4, 4]}}, PLAIN_LOOPS),
        ({"einsum": "ik,kj->ij", "shapes": {"A": [4, 4], "B": [4, 4]}}, "numpy.einsum"),
    ],
)
def test_every_task_has_one(
    workload: Mapping[str, str | Mapping[str, int | list[int]]], name: str, measurer: Measurer
) -> None:
    """Timed for real, in a runner process."""
    task = Task.from_json_workload(workload, "cpu")
    record = replace(BEST, steps=())
    found = peer_of(task, measurer, record)
    assert found.name == name
    assert found.share > 0


@pytest.mark.parametrize("share", [1.001, 1.03, 8.41])
def test_more_than_the_peak_is_never_printed_without_a_remark(share: float) -> None:
    remark = " of peak, measured too low, or the kernel saves operations)"
    assert rate_text(1e9, 1e9 / share).endswith(remark)
    assert rate_text(1e9, 1e9).endswith(" (100% of peak)")


def test_the_peak_is_measured_again_where_it_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([1e9, 3e9, 2e9])
    measurer = Measurer()
    monkeypatch.setattr(type(measurer.runner), "peak", lambda self, task: next(found))
    assert measurer.peak(TASK) == measurer.peak(TASK, 0.9e9) == 1e9
    assert measurer.peak(TASK, 2e9) == measurer.peak(TASK, 2.9e9) == 3e9
    assert measurer.peak(TASK, 4e9) == 3e9


def test_loops_that_do_not_compile_in_time_are_no_peer(
    measurer: Measurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were compiled by this process, for as long as it took."""
    built: list[Sequence[Steps]] = []

    def build(_: Measurer, task: Task, batch: Sequence[Steps]) -> list[bytes | None]:
        built.append(batch)
        return [b"the best", *[None] * (len(batch) - 1)]

    monkeypatch.setattr(Measurer, "build", build)
    task = Task.from_expression("C[i, j] += A[i, k] * A[k, j]", {"A": (4, 4)})
    with pytest.raises(MeasureError, match=f"{PLAIN_LOOPS}, could not be built"):
        peer_of(task, measurer, BEST)
    assert built == [[(), ()]]
