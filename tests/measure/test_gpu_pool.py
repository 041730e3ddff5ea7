"""Several GPUs that are none: who measures what, and what a lost one leaves."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure.gpu_pool import GpuPool, gpu_runner, require_alike, visible
from autosched.measure.gpu_runner import GpuRunner
from autosched.measure.interrupt import RunInterrupted, RunLostError
from autosched.measure.nvml import Nvml
from autosched.measure.process_runner import Batch
from autosched.measure.result import RunResult
from autosched.measure.run_options import RunOptions
from autosched.target import cuda_target
from autosched.task import Task
from kit.device import artifact
from kit.fake_gpu import BROKEN, RUNS
from kit.nvml import FakeNvml

TASK = Task.from_workload("matmul", M=8, N=8, K=8, target=cuda_target("sm_90"))
VISITS = 2
GOOD: dict[str, Any] = {"seconds": 1e-5}
LONG = 60.0


@contextmanager
def pool(
    devices: Sequence[int | str] | str = (0, 1),
    module: FakeNvml | None = None,
    warning: Callable[[str], None] = print,
    **settings: Any,
) -> Iterator[GpuPool]:
    nvml = Nvml(lambda: module or FakeNvml(["nvmlInit"]))
    options = RunOptions(timeout=LONG, visits=VISITS, halving=False)

    def make(name: str) -> GpuRunner:
        return GpuRunner(
            options,
            device=name,
            nvml=nvml,
            owns_nvml=False,
            **{"factory": "kit.fake_gpu:make_numbered", "grace_seconds": 0.1, **settings},
        )

    found = GpuPool(options, devices, make, nvml, warning)
    try:
        yield found
    finally:
        found.close()


def run(found: GpuPool, *behaviours: dict[str, Any] | None) -> list[RunResult]:
    artifacts = [None if b is None else artifact(**b).to_bytes() for b in behaviours]
    return found.run(TASK, artifacts, float("inf"), None)


def kinds(results: Sequence[RunResult]) -> list[str]:
    return [failure.kind if failure else "ok" if seconds else "" for seconds, failure in results]


def test_a_batch_is_dealt_out_and_each_part_stays_on_its_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUNS, str(tmp_path / "runs"))
    busy = FakeNvml(pids=[7], uuids=("GPU-0", "GPU-1"))
    with pool(module=busy, share=True) as found:
        results = run(found, GOOD, {**GOOD, "wrong": "value"}, None, GOOD, {**GOOD, "run": 700})
        assert kinds(results) == ["ok", "wrong_answer", "", "ok", "crash"]
        assert all(len(seconds) == VISITS for seconds, failure in results[::3] if not failure)
        devices = [found.known_of(index)[1] for index in range(5)]
        assert [None if d is None else d["gpu"] for d in devices].count(None) == 2
        gpus = {d["gpu"] for d in devices if d is not None}
        assert {g["id"] for g in found.environment()["gpus"]} == gpus and len(gpus) == 2
        threads = [member.thread for member in found._members]
    assert all(thread._shutdown for thread in threads)
    loads = [len((tmp_path / f"runs.{n}").read_text().splitlines()) for n in (0, 1)]
    assert sum(loads) == 4


def test_a_gpu_that_is_lost_leaves_and_its_candidates_go_to_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, said = tmp_path / "broken", list[str]()
    monkeypatch.setenv(BROKEN, str(broken))
    with pool(warning=said.append) as found:
        found.reference(TASK)
        broken.write_text("1")
        # candidates 1, 3 and 5 are GPU 1's
        results = run(found, GOOD, GOOD, GOOD, {**GOOD, "run": 999}, GOOD, GOOD)
        assert kinds(results) == ["ok", "ok", "ok", "lost", "ok", "ok"]
        assert all(len(seconds) == VISITS for seconds, failure in results if not failure)
        assert re.match("GPU 1 is lost: a new process does not work", said[0]) and len(said) == 1
        assert kinds(run(found, GOOD, GOOD)) == ["ok", "ok"]  # all on GPU 0
        broken.write_text("0 1")
        with pytest.raises(RunLostError, match="GPU 0 is lost") as caught:
            run(found, GOOD, {**GOOD, "run": 999}, GOOD)
    # the first had been run, not timed; nobody is left to do it again
    assert kinds(caught.value.results) == ["", "lost", ""]
    assert len(said) == 2


def test_a_race_is_run_on_one_gpu_and_none_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A candidate that is a hundred times slower is visited as often; settings come back."""
    broken = tmp_path / "broken"
    monkeypatch.setenv(BROKEN, str(broken))
    with pool() as found:
        artifacts = [artifact(seconds=s).to_bytes() for s in (1e-5, 1e-3, 1e-5)]
        found.reference(TASK)
        results = found.together(TASK, artifacts, 5, 1e-3)
        assert [len(seconds) for seconds, _ in results] == [5, 5, 5]
        devices = [found.known_of(index)[1] for index in range(3)]
        assert len({d["gpu"] for d in devices if d is not None}) == 1
        assert len(run(found, GOOD)[0][0]) == VISITS
        broken.write_text("0")
        lost = artifact(**GOOD, run=999).to_bytes()
        with pytest.raises(RunLostError, match="GPU 0 is lost"):
            found.together(TASK, [artifacts[0], lost], 5, 1e-3)
        assert kinds(run(found, GOOD, GOOD)) == ["ok", "ok"]  # on GPU 1


def test_all_gpus_of_which_one_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken").write_text("1")
    monkeypatch.setenv(BROKEN, str(tmp_path / "broken"))
    message = "measure.devices: GPU 1: device unavailable"
    with pool("all") as found, pytest.raises(ConfigError, match=message):
        found.open()


def test_only_equal_gpus_share_a_task() -> None:
    known = {"name": "A", "memory": 80, "capability": (9, 0)}
    first, same, other = {**known, "uuid": "1"}, {**known, "uuid": "2"}, {**known, "name": "B"}
    require_alike([("0", first), ("1", same)])
    message = r"devices: 0 and 2 differ \(name: A and B\); only equal GPUs share"
    with pytest.raises(ConfigError, match=message):
        require_alike([("0", first), ("1", same), ("2", other)])
    with pytest.raises(ConfigError, match="1 is a GPU that was named before"):
        require_alike([("0", first), ("1", first)])


def test_a_gpu_on_which_others_compute_is_refused() -> None:
    module = FakeNvml(pids=[7, os.getpid(), 9], uuids=("GPU-0",))
    message = r"GPU 0: other processes compute on fake GPU \(process 7, 9\).*--share"
    with pool([0], module=module) as found, pytest.raises(ConfigError, match=message):
        found.open()
    assert module.calls.count("nvmlInit") == module.calls.count("nvmlShutdown") == 1


def test_an_interrupt_ends_the_request_under_way_or_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_work = threading.Event()
    after_first = GpuRunner._after_first

    def after(runner: GpuRunner, batch: Batch, index: int) -> None:
        after_first(runner, batch, index)
        at_work.set()

    def interrupted(*_: object) -> None:
        at_work.wait(LONG)
        raise KeyboardInterrupt

    monkeypatch.setattr(GpuRunner, "_after_first", after)
    monkeypatch.setattr(GpuPool, "_wait", interrupted)
    with pool() as found:
        with pytest.raises(RunInterrupted) as caught:
            run(found, GOOD, GOOD, GOOD, {**GOOD, "hang": True})
        assert [member.runner.lost for member in found._members] == ["", ""]
    assert set(kinds(caught.value.results)) <= {"", "ok"}


def test_numbers_are_those_of_the_gpus_that_are_left() -> None:
    left = {"CUDA_VISIBLE_DEVICES": "GPU-a, 3"}
    assert [visible(d, left) for d in (0, 1, "GPU-b")] == ["GPU-a", "3", "GPU-b"]
    assert visible(2, {}) == "2"
    with pytest.raises(ConfigError, match="there is no GPU 2: CUDA_VISIBLE_DEVICES leaves 2"):
        visible(2, left)


def test_one_gpu_needs_no_pool() -> None:
    one = gpu_runner(RunOptions(), checks=True, devices=["GPU-b"])
    assert isinstance(one, GpuRunner) and one.device == "GPU-b"
    assert isinstance(gpu_runner(RunOptions(), checks=True, devices="all"), GpuPool)
