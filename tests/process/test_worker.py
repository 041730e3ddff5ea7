"""Worker processes answer, time out, crash and are replaced."""

import contextlib
import errno
import itertools
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import DeviceError, MeasureError
from autosched.process import running_clock
from autosched.process.worker import NoProcessError, Worker

LONG = 300.0  # for what must succeed, however busy the machine is


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    found = Worker("kit.handlers:make_handler")
    yield found
    found.stop()


def failure(
    worker: Worker, request: tuple[str | int | bytes, ...], timeout: float = LONG
) -> MeasureError:
    with pytest.raises(MeasureError) as caught:
        worker.call(request, timeout, "run")
    return caught.value


def test_it_answers(worker: Worker) -> None:
    assert worker.call(("echo", [1, 2]), LONG, "run") == [1, 2]


def test_it_rarely_looks_for_garbage(worker: Worker) -> None:
    assert worker.call(("garbage threshold",), LONG, "run")[0] == 500_000


def test_a_hanging_request_is_ended_and_the_worker_replaced(worker: Worker) -> None:
    error = failure(worker, ("sleep", 3600), timeout=0.3)
    assert (error.stage, error.kind) == ("run", "timeout")
    assert worker.call(("echo", 3), LONG, "run") == 3


def test_time_in_which_this_process_was_stopped_does_not_count(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worker.call(("sleep", 0.01), LONG, "run") is None
    assert not worker.stood_still
    looks = itertools.count(0.0, 2 * LONG)
    monkeypatch.setattr(running_clock, "monotonic", lambda: next(looks))
    assert worker.call(("sleep", 0.6), LONG, "run") is None
    assert worker.stood_still


@pytest.mark.parametrize(
    ("request_", "words"), [(("die", 7), "exit status 7"), (("kill",), "signal 11")]
)
def test_a_crash_is_reported_and_the_worker_replaced(
    worker: Worker, request_: tuple[str | int, ...], words: str
) -> None:
    error = failure(worker, request_)
    assert (error.stage, error.kind) == ("run", "crash")
    assert words in str(error)
    assert worker.call(("echo", 4), LONG, "run") == 4


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


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\4junk",  # no pickle
        b"\0\0\0\2N.",  # a pickle, of no reply
        b"\0\0\0\x0b\x89(NNNK\1t\x86.---",  # of one without a code
        b"\0\0\0\x17\x80\x04\x89(K\1K\2K\3tt.aaaaaaaaaaaa",
        b"\0\0\0\0",  # nothing is no pickle either, and not the end of the connection
        b"\0\0\xff\xff half of a message that never goes on",
        b"printed text, whose first letters are taken for a length of 1.8 GB",
    ],
)
def test_an_unreadable_answer_is_a_crash_and_the_worker_replaced(
    worker: Worker, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.process.worker._SILENCE", struct.pack("ll", 0, 200_000))
    worker.start()
    before = worker.call(("pid",), LONG, "run")
    error = failure(worker, ("garbage", data))
    assert error.kind == "crash" and "unreadable answer" in str(error)  # it did not wait for an end
    assert worker.call(("pid",), LONG, "run") != before


@pytest.mark.parametrize(
    "request_", [("stray", "sleeps"), ("stray", "answers too"), ("stray", "leaves its group")]
)
def test_what_a_request_started_ends_with_its_worker(
    worker: Worker, request_: tuple[str, str]
) -> None:
    worker.start()
    stray = worker.call(request_, LONG, "run")
    process = os.pidfd_open(stray)
    try:
        assert worker.call(("echo", 6), LONG, "run") == 6  # not the answer of the other one
        worker.start()
        assert wait([process], LONG)  # it ended
    finally:
        os.close(process)


NO_ROOM = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


def refused(error: OSError) -> Callable[..., None]:
    def popen(*_: object, **__: object) -> None:
        raise error

    return popen


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (NO_ROOM, r"\(sys.executable\): Resource temporarily unavailable; see what limits"),
        (FileNotFoundError(errno.ENOENT, "No such file"), "No such file; set it to the path"),
    ],
)
def test_a_process_that_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    monkeypatch.setattr(subprocess, "Popen", refused(error))
    with pytest.raises(NoProcessError, match=message) as caught:
        Worker("kit.handlers:make_handler")
    assert caught.value.kind == "lost"


@pytest.mark.parametrize(
    ("request_", "timeout", "kind"),
    [
        (("sleep", 3600), 0.3, "timeout"),
        (("die", 7), LONG, "crash"),
        (("device", 7, True), LONG, "crash"),
        (("garbage", b"\0\0\0\4junk"), LONG, "crash"),
    ],
)
def test_a_failure_stays_known_where_no_process_takes_the_place(
    monkeypatch: pytest.MonkeyPatch, request_: tuple[Any, ...], timeout: float, kind: str
) -> None:
    worker = Worker("kit.handlers:make_handler")
    try:
        assert worker.call(("echo", 1), LONG, "run") == 1
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", refused(NO_ROOM))
            with pytest.raises(NoProcessError) as caught:
                worker.call(request_, timeout, "run")
        assert isinstance(caught.value.__cause__, MeasureError)
        assert caught.value.__cause__.kind == kind
    finally:
        worker.stop()


def test_no_file_may_be_opened_to_look_for_strays(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "glob", none_left)
    worker.start()
    assert worker.call(("echo", 1), LONG, "run") == 1


def test_a_stray_process_costs_its_worker(worker: Worker) -> None:
    before = worker.call(("pid",), LONG, "run")
    error = failure(worker, ("leaves a stray",))
    assert (error.stage, error.kind) == ("run", "crash")
    assert "it started a process" in str(error)
    assert worker.call(("pid",), LONG, "run") != before


def test_one_that_dies_is_not_waited_for_though_what_it_started_lives(
    worker: Worker, tmp_path: Path
) -> None:
    """The other one has its connection, and is in a session of its own."""
    error = failure(worker, ("forks and dies", str(tmp_path / "child")))
    assert error.kind == "crash" and str(error) == "the process died with signal 11"
    child = int((tmp_path / "child").read_text())
    with contextlib.suppress(ProcessLookupError):
        assert wait([os.pidfd_open(child)], LONG)


def test_what_is_printed_to_standard_error_is_told_when_the_process_dies(
    worker: Worker, capfd: pytest.CaptureFixture[str]
) -> None:
    much = b"\x1b[31m\xff" * 100_000  # more than a pipe holds
    assert worker.call(("says", much, None), LONG, "run") is None
    error = failure(worker, ("says", much + b"\nfree(): bad \x07 pointer\n\n", 6))
    assert str(error) == "the process died with exit status 6: free(): bad ? pointer"
    assert worker.call(("says", b"a warning", None), LONG, "run") is None
    assert str(failure(worker, ("die", 3))) == "the process died with exit status 3"
    assert capfd.readouterr() == ("", "")


def test_where_memory_runs_out_the_worker_is_ended_first(worker: Worker) -> None:
    assert int(worker.call(("score",), LONG, "run")) == 500


def test_a_copy_that_a_request_made_does_not_answer_too(worker: Worker) -> None:
    """Its answer would be taken for that to the next request."""
    for number in range(3):
        assert worker.call(("copy", number), 20, "run") == number
    assert worker.call(("echo", "last"), 60, "run") == "last"


def test_the_smaller_limit_of_memory_holds() -> None:
    """The user's `ulimit -v`, and ours."""
    hard = resource.getrlimit(resource.RLIMIT_AS)
    for given, expected in ((2 << 30, 1 << 30), (1 << 29, 1 << 29)):
        script = (
            "import resource; from autosched.process.worker import Worker\n"
            f"resource.setrlimit(resource.RLIMIT_AS, ({given}, {given}))\n"
            "found = Worker('kit.handlers:make_handler', memory_limit=1 << 30)\n"
            "print(*found.call(('address limit',), 60, 'run')); found.stop()"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )
        assert done.stdout.split() == [str(expected)] * 2, (done.stderr, hard)


def test_memory_beyond_the_limit_is_refused() -> None:
    """A gigabyte of addresses is enough for Python, and not for four more."""
    limited = Worker("kit.handlers:make_handler", memory_limit=1 << 30)
    free = Worker("kit.handlers:make_handler")
    try:
        error = failure(limited, ("allocate", 4 << 30))
        assert (error.stage, error.kind) == ("run", "memory")
        assert limited.call(("allocate", 1 << 20), LONG, "run") == 1 << 20
        assert free.call(("allocate", 4 << 30), LONG, "run") == 4 << 30
    finally:
        limited.stop()
        free.stop()


@pytest.mark.parametrize("ends", [False, True])
def test_a_process_ends_after_an_error_that_it_cannot_outlive(worker: Worker, ends: bool) -> None:
    before = worker.call(("pid",), LONG, "run")
    error = failure(worker, ("device", 700, ends))
    assert isinstance(error, DeviceError)
    assert (error.kind, error.code, error.worker_ends) == ("crash", 700, ends)
    assert (worker.call(("pid",), LONG, "run") != before) == ends


def test_variables_of_the_environment() -> None:
    found = Worker("kit.handlers:make_handler", environment={"AUTOSCHED_TEST": "7"})
    try:
        assert found.call(("variable", "AUTOSCHED_TEST"), LONG, "run") == "7"
    finally:
        found.stop()


def test_a_process_has_docstrings_where_this_one_has() -> None:
    """`python -OO -m autosched doctor` found nothing wrong with what `tune` could not import."""
    program = (
        "from autosched.process.worker import Worker; found = Worker('kit.handlers:make_handler')\n"
        "print(found.call(('optimize',), 300.0, 'run')); found.stop()"
    )
    paths = os.pathsep.join(p for p in sys.path if p)
    for flags in ([], ["-O"], ["-OO"]):
        done = subprocess.run(
            [sys.executable, "-B", *flags, "-c", program],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )
        assert done.stdout == f"{len(''.join(flags)[1:])}\n", done.stderr


class Unkillable(Worker):
    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        pass


def test_a_process_that_does_not_end_is_left_alone() -> None:
    found = Unkillable("kit.handlers:make_handler", kill_seconds=0.1)
    assert found.call(("echo", 4), LONG, "run") == 4  # one that still imports would end by itself
    assert failure(found, ("sleep", 3600), timeout=0.1).kind == "timeout"
    assert len(found.stuck) == 1
    assert found.call(("echo", 5), LONG, "run") == 5  # a new one answers
    found.stop()  # this one ends: its connection is closed
    found.stuck[0].kill()
    for process in found.stuck:
        process.wait(LONG)


CLOSED = """
import os, sys
for stream in range(3):
    os.close(stream)
from autosched.process.worker import Worker
places = []
for _ in range(2):
    worker = Worker("kit.handlers:make_handler", queue=(os.open(sys.argv[1], os.O_RDWR), 0))
    places.append(worker.call(("echo", 5), 300.0, "run"))
    worker.stop()
with open(sys.argv[1], "w") as file:
    print(*places, file=file)
"""


def test_a_program_without_standard_streams(tmp_path: Path) -> None:
    """The process had /dev/null at the place where its connection was, and ended at once."""
    said = tmp_path / "said"
    said.touch()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # of tests/kit, too
    subprocess.run([sys.executable, "-c", CLOSED, str(said)], check=True, env=environment)
    assert said.read_text() == "5 5\n"
