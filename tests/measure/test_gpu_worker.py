"""The process of a GPU: late answers, hangs, and its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import MeasureError
from autosched.measure.gpu_environment import shared_by_mps
from autosched.measure.gpu_runner import GpuRunner
from autosched.measure.gpu_worker import GpuWorker
from autosched.measure.interrupt import RunLostError
from autosched.measure.run_options import RunOptions
from autosched.target import cuda_target
from autosched.task import Task
from kit.device import artifact

TASK = Task.from_workload("matmul", M=8, N=8, K=8, target=cuda_target("sm_90"))
LONG = 60.0


@contextmanager
def worker(grace: float) -> Iterator[GpuWorker]:
    found = GpuWorker("kit.fake_gpu:make_handler", grace_seconds=grace)
    try:
        yield found
    finally:
        found.stop()


def load(found: GpuWorker, **behaviour: Any) -> int:
    """The number of the process, which has a kernel that behaves so."""
    found.call(("task", TASK.to_json(), False), LONG, "load")
    found.call(("load", 0, artifact(**behaviour).to_bytes()), LONG, "load")
    assert found._process is not None
    return found._process.pid


@pytest.mark.parametrize(
    ("behaviour", "grace", "kept"),
    [
        ({"slow": 0.6}, LONG, True),
        ({"slow": 0.6, "run": 700}, LONG, False),  # after this it ends by itself
        ({"hang": True}, 0.1, False),
    ],
)
def test_one_that_answers_late_is_kept_without_its_kernels(
    behaviour: dict[str, Any], grace: float, kept: bool
) -> None:
    with worker(grace) as found:
        before = load(found, **behaviour)
        says = "no answer within 0.2 s; " + ("it came later" if kept else "the process was ended")
        with pytest.raises(MeasureError, match=says) as caught:
            found.call(("first", 0), 0.2, "run")
        assert caught.value.kind == "timeout"
        found.call(("facts",), LONG, "load")  # nothing of the late answer is left
        found.call(("probe",), LONG, "load")
        with pytest.raises(MeasureError, match="KeyError: 0"):
            found.call(("uses", 0), LONG, "run")
        assert found._process is not None and (found._process.pid == before) == kept
        process = found._process
        if not kept:
            found.call(("task", TASK.to_json(), False), LONG, "load")
            found.call(("load", 0, artifact(hang=True).to_bytes()), LONG, "load")
            found.send(("first", 0))
            found._grace_seconds = 0.1
    assert process.returncode == (0 if kept else -9)  # idle it ends by itself, busy it is killed


@pytest.mark.parametrize(
    "data", [b"\0\0\0\4junk", b"\0\0\0\2N.", b"\0\0\0\4\x89N\x86.", b"\x20" * 40]
)
def test_a_late_answer_that_is_none_costs_the_process(data: bytes) -> None:
    found = GpuWorker("kit.handlers:make_handler", grace_seconds=LONG)
    try:
        before = found.call(("pid",), LONG, "run")
        with pytest.raises(MeasureError, match="no answer within") as caught:
            found.call(("garbage", data, 0.3), 0.1, "run")
        assert caught.value.kind == "timeout"
        assert found.call(("pid",), LONG, "run") != before
    finally:
        found.stop()


def test_a_client_of_mps_is_never_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert not shared_by_mps()
    (tmp_path / "control").touch()
    found = GpuRunner(
        RunOptions(timeout=LONG),
        factory="kit.fake_gpu:make_handler",
        kill_seconds=0.2,
        grace_seconds=0.1,
    )
    found.start(TASK)
    worker = found._worker
    assert worker is not None
    with pytest.raises(RunLostError, match=r"did not end within 0\.2 s") as caught:
        found.run(TASK, [artifact(hang=True).to_bytes()], 1e-9)  # and so has a second
    ((_, failure),) = caught.value.results
    assert failure is not None and failure.kind == "timeout"
    assert worker.stuck[0].poll() is None
    for process in worker.stuck:  # its successor may not have begun to listen
        process.kill()
        process.wait()
