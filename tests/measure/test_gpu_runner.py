"""The measuring of batches on a GPU that is none: processes, deadlines, faults."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure import gpu_runner
from autosched.measure.clocks import Sampler
from autosched.measure.gpu_runner import GpuRunner
from autosched.measure.gpu_worker import GpuWorker
from autosched.measure.interrupt import RunLostError
from autosched.measure.nvml import Nvml
from autosched.measure.result import RunResult
from autosched.measure.run_options import RunOptions
from autosched.process.worker import NoProcessError, Worker
from autosched.target import cuda_target
from autosched.task import Task
from kit.device import artifact
from kit.fake_gpu import BROKEN, RUNS
from kit.forks import fresh
from kit.nvml import FakeNvml

TASK = Task.from_workload("matmul", M=8, N=8, K=8, target=cuda_target("sm_90"))
VISITS = 3
GOOD: dict[str, Any] = {"seconds": 1e-5}


@contextmanager
def runner(timeout: float = 60.0, **settings: Any) -> Iterator[GpuRunner]:
    found = GpuRunner(
        RunOptions(timeout=timeout, visits=VISITS, halving=False),
        **{"factory": "kit.fake_gpu:make_handler", "grace_seconds": 0.1, **settings},
    )
    try:
        yield found
    finally:
        found.close()


def run(found: GpuRunner, *behaviours: dict[str, Any]) -> list[RunResult]:
    return found.run(TASK, [artifact(**b).to_bytes() for b in behaviours])


def kinds(results: list[RunResult]) -> list[str]:
    return ["" if failure is None else failure.kind for _, failure in results]


def test_a_batch_with_one_of_each_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = tmp_path / "runs"
    monkeypatch.setenv(RUNS, str(notes))
    faults: list[tuple[dict[str, Any], str]] = [
        ({"launch": 1}, "illegal"),
        ({"launch": 701}, "illegal"),
        ({"load": 2}, "memory"),
        ({"load": 218}, "error"),
        ({"run": 700}, "crash"),
        ({"run": 716, "run_at": 2}, "crash"),
        ({"run": 702}, "timeout"),
        ({"run": 999}, "lost"),
        ({"hang": True}, "timeout"),
        ({"wrong": "value"}, "wrong_answer"),
        ({"wrong": "later"}, "wrong_answer"),
    ]
    batch = [part for fault, _ in faults for part in (GOOD, {**GOOD, **fault})] + [GOOD]
    with runner(timeout=3.0) as found:
        results = run(found, *batch)
        assert found._worker is not None
        process = found._worker._process
        device = [found.known_of(index)[1] for index in range(len(batch))]
    expected = [kind for _, fault in faults for kind in ("", fault)] + [""]
    assert kinds(results) == expected
    for (seconds, failure), uses in zip(results, device, strict=True):
        if failure is None:
            assert len(seconds) == VISITS  # kept when the process was replaced, none twice
            assert seconds == pytest.approx([1e-5] * VISITS)
            assert uses is not None and uses["kernels"]["main_kernel"]["registers"] == 32
    assert process is not None and process.poll() is not None
    loads = [int(line.split()[0]) for line in notes.read_text().splitlines()]
    ended = [i for i, kind in enumerate(expected) if kind in ("crash", "timeout", "lost")]
    assert all(loads.count(i) == 1 for i in ended if "run_at" not in batch[i])


def test_a_slow_start_is_waited_for_and_slow_calls_too() -> None:
    with runner() as found:
        assert kinds(run(found, {"slow": 0.5}, GOOD)) == ["", ""]


def test_without_checks_wrong_numbers_pass() -> None:
    with runner(checks=False) as found:
        assert kinds(run(found, {"wrong": "value"}, GOOD)) == ["", ""]
        assert found.known_of(0)[0] is None


def test_the_check_is_in_what_is_known() -> None:
    with runner() as found:
        run(found, GOOD)
        seen, _ = found.known_of(0)
    assert seen is not None and seen.telling == 1.0


def test_three_refused_cubins_in_a_row_end_the_run() -> None:
    refused = {"load": 222}
    with runner() as found:
        assert kinds(run(found, refused, refused, GOOD, refused)) == ["error", "error", "", "error"]
    message = r"refused 3 kernels in a row \(unsupported PTX version"
    with runner() as found, pytest.raises(RunLostError, match=message):
        run(found, GOOD, refused, refused, refused, GOOD)


def test_a_gpu_whose_new_process_does_not_work_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "broken"
    monkeypatch.setenv(BROKEN, str(flag))
    with runner() as found:
        found.start(TASK)
        flag.touch()
        with pytest.raises(RunLostError, match="a new process does not work either") as caught:
            run(found, GOOD, {"run": 700}, GOOD)
        assert kinds(list(caught.value.results)) == ["", "crash", ""]
        with pytest.raises(RunLostError, match="the GPU is lost"):  # at once
            run(found, GOOD)


def test_a_gpu_whose_process_is_not_replaced_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: Worker, queue: tuple[int, int]) -> None:
        raise NoProcessError(OSError(11, "Resource temporarily unavailable"))

    with runner() as found:
        found.start(TASK)
        monkeypatch.setattr(Worker, "_begin", none)
        with pytest.raises(RunLostError, match="lost: cannot start a process of") as caught:
            run(found, GOOD, {"run": 700}, GOOD)
        assert kinds(list(caught.value.results)) == ["", "crash", ""]


class Unkillable(GpuWorker):
    """A process that waits in the kernel driver: no signal reaches it."""

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        pass


def test_a_process_that_cannot_be_ended_does_not_hold_the_run_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers: list[GpuWorker] = []

    def unkillable(self: GpuRunner) -> GpuWorker:
        kill, grace = self.kill_seconds, self.grace_seconds
        workers.append(Unkillable(self.factory, kill_seconds=kill, grace_seconds=grace))
        return workers[0]

    monkeypatch.setattr(GpuRunner, "_new_worker", unkillable)
    hang = {**GOOD, "hang": True, "run_at": 10}
    with runner(timeout=2.0, kill_seconds=0.2) as found:
        with pytest.raises(
            RunLostError, match=r"did not end within 0.2 s of being killed"
        ) as caught:
            run(found, GOOD, hang)
        left = workers[0].stuck
        assert left
        for process in left:
            process.kill()
            process.wait()
    assert kinds(list(caught.value.results)) == ["", "timeout"]


def test_a_gpu_that_is_not_there_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "broken"
    flag.touch()
    monkeypatch.setenv(BROKEN, str(flag))
    with runner() as found, pytest.raises(ConfigError, match="device unavailable"):
        found.open()


def test_a_gpu_that_adds_wrongly_gets_no_work() -> None:
    with (
        runner(factory="kit.fake_gpu:make_wrong_adder") as found,
        pytest.raises(ConfigError, match="the GPU adds 1 of 256 numbers wrongly"),
    ):
        found.open()


@pytest.mark.parametrize(
    ("reasons", "pauses", "throttled"),
    [
        ([0x4, 0x40, 0x4], 1, None),  # a power cap is normal
        ([0x8], 2, VISITS),  # at most two pauses, then the visits are marked
    ],
)
def test_visits_with_clocks_held_down(
    monkeypatch: pytest.MonkeyPatch, reasons: list[int], pauses: int, throttled: int | None
) -> None:
    monkeypatch.setattr(gpu_runner, "Sampler", Stopped)
    module = FakeNvml(reasons=reasons)
    paused: list[float] = []
    with runner(nvml=Nvml(lambda: module), pause=paused.append) as found:
        ((seconds, failure),) = run(found, GOOD)
        device = found.known_of(0)[1]
        environment = found.environment()
    assert (len(seconds), failure, paused) == (VISITS, None, [2.0] * pauses)
    assert device is not None
    assert device["clocks"]["sm_mhz_min"] == [1980] * VISITS
    assert set(device["clocks"]["reasons"]) == {reasons[-1]}
    assert device.get("throttled") == throttled
    (gpu,) = environment["gpus"]
    assert gpu["id"] == device["gpu"] and "GPU-fake" not in str(environment)
    assert (gpu["name"], gpu["ecc"], gpu["power_limit_watts"]) == ("fake GPU", True, 700.0)
    assert environment["cuda"]["driver_release"] == "580.65.06"
    assert module.calls.count("nvmlInit") == module.calls.count("nvmlShutdown") == 1


class Stopped(Sampler):
    """Reads at the end of a visit only, so that states are told one by one."""

    def begin(self) -> float:
        return math.inf


def test_what_the_gpu_is() -> None:
    with runner() as found:
        facts = found.open()
    assert (facts["name"], facts["capability"]) == ("fake GPU", (9, 0))


def test_variables_of_the_process() -> None:
    with fresh(), runner(device="GPU-1") as found:
        found.open()  # has answered: before its exec a process has no variables yet
        assert found._worker is not None and found._worker._process is not None
        variables = Path(f"/proc/{found._worker._process.pid}/environ").read_bytes().split(b"\0")
    assert b"CUDA_VISIBLE_DEVICES=GPU-1" in variables
    assert b"CUDA_MODULE_LOADING=EAGER" in variables
