"""Worker processes answer, time out, crash and are replaced."""

import subprocess
from collections.abc import Iterator

import pytest

from autosched.errors import DeviceError, MeasureError
from autosched.process.worker import Worker


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    found = Worker("kit.handlers:make_handler")
    yield found
    found.stop()


def failure(worker: Worker, request: tuple[str | int, ...], timeout: float = 20.0) -> MeasureError:
    with pytest.raises(MeasureError) as caught:
        worker.call(request, timeout, "run")
    return caught.value


def test_it_answers(worker: Worker) -> None:
    assert worker.call(("echo", [1, 2]), 20, "run") == [1, 2]


def test_a_hanging_request_is_ended_and_the_worker_replaced(worker: Worker) -> None:
    error = failure(worker, ("sleep", 60), timeout=0.3)
    assert (error.stage, error.kind) == ("run", "timeout")
    assert worker.call(("echo", 3), 20, "run") == 3


@pytest.mark.parametrize(
    ("request_", "words"), [(("die", 7), "exit status 7"), (("kill",), "signal 11")]
)
def test_a_crash_is_reported_and_the_worker_replaced(
    worker: Worker, request_: tuple[str | int, ...], words: str
) -> None:
    error = failure(worker, request_)
    assert (error.stage, error.kind) == ("run", "crash")
    assert words in str(error)
    assert worker.call(("echo", 4), 20, "run") == 4


@pytest.mark.parametrize(
    ("request_", "stage", "kind", "words"),
    [
        (("illegal",), "lower", "illegal", "no such loop"),
        (("wrong",), "check", "wrong_answer", "not equal"),
        (("memory",), "run", "memory", "out of memory"),
        (("bug",), "run", "error", "ZeroDivisionError: a bug of ours"),
    ],
)
def test_errors_keep_their_kind(
    worker: Worker, request_: tuple[str], stage: str, kind: str, words: str
) -> None:
    error = failure(worker, request_)
    assert (error.stage, error.kind) == (stage, kind)
    assert words in str(error)


def test_memory_beyond_the_limit_is_refused() -> None:
    """A gigabyte of addresses is enough for Python, and not for four more."""
    limited = Worker("kit.handlers:make_handler", memory_limit=1 << 30)
    free = Worker("kit.handlers:make_handler")
    try:
        error = failure(limited, ("allocate", 4 << 30))
        assert (error.stage, error.kind) == ("run", "memory")
        assert limited.call(("allocate", 1 << 20), 20, "run") == 1 << 20
        assert free.call(("allocate", 4 << 30), 20, "run") == 4 << 30
    finally:
        limited.stop()
        free.stop()


@pytest.mark.parametrize("ends", [False, True])
def test_a_process_ends_after_an_error_that_it_cannot_outlive(worker: Worker, ends: bool) -> None:
    before = worker.call(("pid",), 20, "run")
    error = failure(worker, ("device", 700, ends))
    assert isinstance(error, DeviceError)
    assert (error.kind, error.code, error.worker_ends) == ("crash", 700, ends)
    assert (worker.call(("pid",), 20, "run") != before) == ends


def test_variables_of_the_environment() -> None:
    found = Worker("kit.handlers:make_handler", environment={"AUTOSCHED_TEST": "7"})
    try:
        assert found.call(("variable", "AUTOSCHED_TEST"), 20, "run") == "7"
    finally:
        found.stop()


class Unkillable(Worker):
    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        pass


def test_a_process_that_does_not_end_is_left_alone() -> None:
    found = Unkillable("kit.handlers:make_handler", kill_seconds=0.1)
    assert failure(found, ("sleep", 60), timeout=0.1).kind == "timeout"
    assert len(found.stuck) == 1
    assert found.call(("echo", 5), 20, "run") == 5  # a new one answers
    found.stop()  # this one ends: its connection is closed
    found.stuck[0].kill()
    for process in found.stuck:
        process.wait(20)
