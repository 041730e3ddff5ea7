"""`autosched.kernel`: kept kernels, who tunes them and when, and what a damaged cache costs."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.cache_folder import cache_folder
from autosched.errors import ConfigError
from autosched.measure.record_log import RecordLog
from autosched.measure.records import SCHEMA, Record, read_log
from autosched.measure.result import MeasureResult
from autosched.runtime.cpu import CpuKernel
from autosched.search.options import SearchOptions
from autosched.session import api, kernel_cache
from autosched.session import kernel as kernel_module
from autosched.session.kernel_cache import KernelCache
from autosched.session.settings import TuneSettings
from autosched.target import cpu_target
from autosched.task import Task
from kit.measurer import StubMeasurer
from kit.types import UseMeasurer

WAIT = 300.0  # seconds, for what comes at once unless it never does
MM: dict[str, Any] = {"M": 8, "N": 8, "K": 8}
Ask = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache, empty; nothing is loaded."""
    monkeypatch.setenv("AUTOSCHED_CACHE", str(tmp_path / "cache"))
    forget(monkeypatch)
    return tmp_path / "cache"


@pytest.fixture
def ask(folder: Path, measurer: UseMeasurer, search: SearchOptions) -> Ask:
    """The kernel of an 8x8x8 matmul; four trials where it is tuned."""
    settings = TuneSettings(batch=4, search=search, cost_model="random")
    return lambda **options: autosched.kernel(
        "matmul", **{**MM, "trials": 4, "settings": settings, **options}
    )


def fresh(measurer: UseMeasurer, kind: type[StubMeasurer] = StubMeasurer) -> list[Any]:
    """What is measured with from now on: one entry for each run."""
    made = measurer(kind)
    made.clear()
    return made


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    for name in ("_records", "_kernels"):
        monkeypatch.setattr(kernel_module, name, kernel_module._Recent())


def test_it_is_tuned_once_and_kept(
    ask: Ask, measurer: UseMeasurer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fresh(measurer)
    with pytest.raises(ConfigError, match=r'tuned kernel of matmul\(M=8.*tune="missing"\) tunes'):
        ask()
    assert not folder.exists()
    found = ask(tune="missing")
    assert (len(made), len(made[0][0].measured)) == (1, 4)
    a = b = np.ones((8, 8), np.float32)
    np.testing.assert_array_equal(found(a, b), np.full((8, 8), 8, np.float32))
    np.testing.assert_array_equal(found(B=b, A=a), found(a, b))
    with monkeypatch.context() as known:
        known.setattr(KernelCache, "find", pytest.fail)  # a file that did not change is not read
        assert ask() is ask(tune="missing") is found
    forget(monkeypatch)
    later = ask()
    assert later is not found and len(made) == 1
    assert later.origin == found.origin
    (file,) = KernelCache(folder).files()
    best = min(record.result.cost for record in read_log(file).records)
    origin = later.origin
    assert (origin.file, origin.seconds, origin.here, origin.checked) == (file, best, True, True)
    assert origin.version == autosched.__version__
    assert re.search(r"C: float32\[8, 8\].*; matmul\(M=8, N=8, K=8\): .* here on 20", repr(later))
    assert str(file) in repr(later)
    assert ask(dtype="float64", tune="missing").origin.file != file


def test_always_goes_on_from_the_records_there_are(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask(tune="always")
    again = ask(tune="always", settings=TuneSettings(batch=4, seed=1, cost_model="random"))
    assert again.origin.seconds <= first.origin.seconds
    (file,) = KernelCache(folder).files()
    steps = [record.steps for record in read_log(file).records]
    assert len(steps) == len(set(steps)) == 8


def test_a_task_and_another_folder(ask: Ask, folder: Path, tmp_path: Path) -> None:
    task = Task.from_expression("C[i] = A[i] + 1", {"A": (4,)})
    settings = TuneSettings(trials=2, batch=2, cost_model="random")
    there = {"cache": tmp_path / "other", "settings": settings}
    found = autosched.kernel(task, tune="missing", **there)  # type: ignore[arg-type]
    assert found.origin is not None and not folder.exists()
    assert found(np.zeros(4, np.float32)).tolist() == [1, 1, 1, 1]
    assert autosched.kernel(task, cache=tmp_path / "other") is found


@pytest.mark.parametrize(("size", "tuned"), [(8, 1), (16, 2)], ids=["the same", "another"])
def test_threads_that_ask_at_once_tune_once_and_measure_one_at_a_time(
    ask: Ask, measurer: UseMeasurer, monkeypatch: pytest.MonkeyPatch, size: int, tuned: int
) -> None:
    measuring, second = threading.Event(), threading.Event()
    said, busy = list[str](), threading.Lock()

    def tell(text: str) -> None:
        said.append(text)
        second.set()

    class Slow(StubMeasurer):
        def measure(self, *args: Any, **options: Any) -> Any:
            measuring.set()
            assert busy.acquire(blocking=False)
            assert second.wait(WAIT)
            busy.release()
            return super().measure(*args, **options)

    made = fresh(measurer, Slow)
    monkeypatch.setattr(kernel_module, "shows_progress", lambda settings: tell)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(ask, tune="missing")
        assert measuring.wait(WAIT)
        others = [pool.submit(ask, tune="missing", K=size) for _ in range(2)]
        kernels = {first.result(WAIT), *(other.result(WAIT) for other in others)}
    assert (len(kernels), len(made)) == (tuned, tuned)
    assert f"matmul(M=8, N=8, K={size}): waiting for another process or thread that tunes" in said


HOLDER = """
import sys
from pathlib import Path
from autosched.session.kernel_cache import KernelCache
from autosched.task import Task

cache, task = KernelCache(Path(sys.argv[1])), Task.from_workload("matmul", M=8, N=8, K=8)
with cache.tuning(task, lambda: None):
    print("held", flush=True)
    sys.stdin.read()
    Path(sys.argv[2]).replace(cache.file(task))
"""


@pytest.mark.parametrize("ending", ["publishes", "is killed"])
def test_processes_that_ask_at_once_tune_once(
    ask: Ask,
    measurer: UseMeasurer,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
) -> None:
    """Another one tunes; this waits and takes what it found, or tunes where it was killed."""
    ask(tune="missing")
    (file,) = KernelCache(folder).files()
    file.replace(tmp_path / "found.jsonl")
    forget(monkeypatch)
    made = fresh(measurer)
    words = [sys.executable, "-c", HOLDER, str(folder), str(tmp_path / "found.jsonl")]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"

        def waiting(text: str) -> None:
            if ending == "publishes":
                assert other.stdin is not None
                other.stdin.close()
            else:
                other.kill()

        monkeypatch.setattr(kernel_module, "shows_progress", lambda settings: waiting)
        assert isinstance(ask(tune="missing"), CpuKernel)
    assert len(made) == (0 if ending == "publishes" else 1)


def test_an_interrupted_run_is_not_taken_for_a_whole_one(
    ask: Ask, measurer: UseMeasurer, folder: Path
) -> None:
    measurer(interrupt_after=1)
    with pytest.raises(KeyboardInterrupt):
        ask(tune="missing", trials=8)
    assert KernelCache(folder).files() == []
    with pytest.raises(ConfigError, match="no tuned kernel"):
        ask()
    made = fresh(measurer)
    ask(tune="missing")
    assert len(made[0][0].measured) == 4
    (file,) = KernelCache(folder).files()
    assert len(read_log(file).records) == 8
    assert not list(folder.glob("*.part.jsonl*"))


def damage(file: Path, how: str) -> None:
    """Do to a record file what disks and people do."""
    lines = file.read_text().splitlines(keepends=True)
    if how == "garbage":
        file.write_bytes(bytes(range(256)) * 20)
    elif how == "folder":
        file.unlink()
        file.mkdir()
    elif how == "torn":
        file.write_text("".join(lines)[:-20])
    elif how == "lines":
        file.write_text("".join(line if k < 2 else f"x{line}" for k, line in enumerate(lines)))


@pytest.mark.parametrize("how", ["garbage", "folder", "torn", "lines"])
def test_a_damaged_cache_is_told_and_goes_on(
    ask: Ask, measurer: UseMeasurer, folder: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    ask(tune="missing")
    (file,) = KernelCache(folder).files()
    damage(file, how)
    forget(monkeypatch)
    made = fresh(measurer)
    with pytest.warns(UserWarning, match=re.escape(str(file))) as caught:
        found = ask(tune="missing")
    assert found.origin.file == file
    assert len(made) == (0 if how == "torn" else 1)  # of that the last record is lost only
    if how in ("garbage", "folder"):
        assert (folder / f"{file.name}.damaged").exists()
        assert any(
            "holds no records; it was renamed to" in str(warning.message) for warning in caught
        )
        forget(monkeypatch)
        assert ask().origin == found.origin


@pytest.mark.parametrize("broken", ["the best", "all"])
def test_what_cannot_be_built_is_told_and_left_out(
    ask: Ask, measurer: UseMeasurer, folder: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Records of another version, or edited."""
    ask(tune="missing")
    (file,) = KernelCache(folder).files()
    records = sorted(read_log(file).records, key=lambda record: record.result.cost)
    text = file.read_text()
    for record in records if broken == "all" else records[:1]:
        steps = json.dumps(record.to_json()["steps"], separators=(",", ":"))
        text = text.replace(steps, json.dumps([["SP", 9, 9, 9, [9], 1]]))
    file.write_text(text)
    forget(monkeypatch)
    made = fresh(measurer)
    with pytest.warns(UserWarning, match="cannot be built: there are only 3 stages; it is left"):
        found = ask(tune="missing")
    assert found.origin is not None and found.origin.here
    assert len(made) == (1 if broken == "all" else 0)
    if broken == "the best":
        assert found.origin.seconds == records[1].result.cost
    assert ask() is found  # and tells nothing


def make_of_another_cpu(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if "environment" in line and "hash" in line:
            line["environment"]["cpu"] = "Another CPU"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_records_of_another_cpu_are_not_taken_silently(
    ask: Ask, measurer: UseMeasurer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(tune="missing")
    (file,) = KernelCache(folder).files()
    make_of_another_cpu(file)
    forget(monkeypatch)
    made = fresh(measurer)
    with pytest.warns(UserWarning, match=r'measured on Another CPU; on this machine.*"missing"'):
        found = ask()
    assert (found.origin.here, found.origin.cpu, made) == (False, "Another CPU", [])
    assert "on another machine, Another CPU, on 20" in repr(found)
    forget(monkeypatch)
    assert ask(tune="missing").origin.here
    assert len(made) == 1
    assert ask().origin.here  # its own come first, however fast the others were


def test_what_a_cluster_measured_is_not_measured_at_every_call(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its nodes' records are not of this machine, which it never measures on."""
    runs: list[TuneSettings] = []
    tune = api.run

    def on_nodes(tasks: Sequence[Task], settings: TuneSettings) -> Any:
        runs.append(settings)
        result = tune(tasks, replace(settings, hosts=None))
        make_of_another_cpu(Path(str(settings.records)))
        return result

    monkeypatch.setattr(kernel_module, "run", on_nodes)
    settings = TuneSettings(batch=4, cost_model="random", hosts="ray://there:10001")
    for _ in range(2):
        forget(monkeypatch)
        with pytest.warns(UserWarning, match=r'"missing" without settings\.hosts finds out'):
            found = ask(tune="missing", settings=settings)
        assert found.origin.cpu == "Another CPU"
    assert [each.hosts for each in runs] == [settings.hosts]
    with pytest.warns(UserWarning, match='"missing" finds out'):  # of the nodes again
        ask(tune="missing", settings=replace(settings, hosts=None))
    assert len(runs) == 2


def test_a_task_of_another_cpu_is_tuned_for_this_one(
    measurer: UseMeasurer, folder: Path, search: SearchOptions
) -> None:
    """As it stands in the records of another machine."""
    other = replace(cpu_target(1), cpu="another", features="", vector_bytes=16)
    task = Task.from_workload("matmul", **MM, target=other)
    settings = TuneSettings(trials=2, batch=2, search=search, cost_model="random")
    made = fresh(measurer)
    for _ in range(2):
        found: Any = autosched.kernel(task, tune="missing", settings=settings)
        assert found.origin.here
    assert len(made) == 1
    (target,) = {Task.from_json(r.task).target for r in read_log(found.origin.file).records}
    assert target == replace(cpu_target(1), hardware=other.hardware)


@pytest.mark.parametrize(("here", "first"), [("A", 2e-3), ("B", 1e-3), (None, 1e-3)])
def test_records_of_the_gpu_that_is_here_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str | None, first: float
) -> None:
    task = Task.from_workload("matmul", M=8, N=8, K=8, target="cuda")
    cache = KernelCache(tmp_path)
    for gpu, seconds in (("A", 2e-3), ("C", 1e-3)):
        log = RecordLog(cache.file(task), beside={"gpus": [{"name": gpu}]})
        log.append([Record(task.to_json(), (), MeasureResult((seconds,), checked=True))])
    monkeypatch.setattr("autosched.session.this_gpu.gpu_name", lambda: here)
    found = cache.find(task, pytest.fail)
    assert found is not None
    assert (found.origin.seconds, found.origin.here) == (first, here != "B")
    assert found.origin.cpu == ("A" if here == "A" else "C")


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (["matmul"], {"tune": "yes"}, "tune: expected one of never, missing, always, found 'yes'"),
        (["matmul"], {"trials": 0}, "trials: expected at least 1, found 0"),
        (["matmul"], {"settings": {}}, r"settings: expected a TuneSettings, e\.g\. .*found {}"),
        (
            ["matmul"],
            {"settings": TuneSettings(records="a.jsonl")},
            r"settings: records: the cache has its own files, found a\.jsonl; leave it out",
        ),
        (
            ["matmul"],
            {"settings": TuneSettings(fresh=True)},
            "settings: fresh: the cache always continues from its records",
        ),
        (["matmul"], {"cache": 3}, r"cache: expected the path of a folder, found 3 \(int\)"),
        (["matmul"], {"cache": ""}, r"cache: expected the path of a folder, found ''"),
        (["matmul"], {"cache": "a\0b"}, "cache: expected the path of a folder, found"),
        (["matmull"], {}, "unknown workload 'matmull'; did you mean 'matmul'"),
        ([5], {}, "workload: expected the name of an operator or a Task, found 5"),
        ([Task.from_workload("softmax", M=4, N=4)], {}, "M: a Task already determines it"),
    ],
)
def test_wrong_arguments(
    folder: Path, words: Sequence[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        autosched.kernel(*words, **{**MM, **options})


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ask: Ask) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("AUTOSCHED_CACHE")
    assert cache_folder() == tmp_path / "autosched" / "kernels"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/to/nothing")
    assert cache_folder() == Path("/home/somebody/.cache/autosched/kernels")
    monkeypatch.setenv("AUTOSCHED_CACHE", "/proc/cache")
    with pytest.raises(ConfigError, match=r"cannot write to the cache .*set AUTOSCHED_CACHE to a"):
        ask(tune="missing")
    for given in ("/dev/null/cache", str(tmp_path / ("x" * 300))):
        monkeypatch.setenv("AUTOSCHED_CACHE", given)
        with pytest.raises(ConfigError, match=r"cannot read the cache .*set AUTOSCHED_CACHE to a"):
            ask(tune="missing")
    monkeypatch.setenv("AUTOSCHED_CACHE", "~nobody-of-that-name/x")
    with pytest.raises(ConfigError, match=r"AUTOSCHED_CACHE: ~nobody.*no user of that name has"):
        ask()
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("AUTOSCHED_CACHE", "here")
    with pytest.raises(ConfigError, match=r"^AUTOSCHED_CACHE: here leads nowhere: the current fol"):
        ask()


def test_records_that_were_added_meanwhile_are_not_lost(
    ask: Ask, measurer: UseMeasurer, folder: Path, tmp_path: Path
) -> None:
    """A run was killed, records came, and the run goes on."""
    task = Task.from_workload("matmul", M=8, N=8, K=8)
    measurer(interrupt_after=1)
    with pytest.raises(KeyboardInterrupt):
        ask(tune="missing", trials=8)
    measurer()
    other = autosched.tune(task, trials=4, batch=4, seed=5, cost_model="random")
    assert other.file is None
    RecordLog(tmp_path / "other.jsonl").append(other.records)
    cache = KernelCache(folder)
    assert cache.add(read_log(tmp_path / "other.jsonl"), task, pytest.fail) == 4
    ask(tune="always")
    steps = {record.steps for record in read_log(cache.file(task)).records}
    assert len(steps) >= 8 and steps >= {record.steps for record in other.records}


def test_a_lock_that_was_removed_locks_nobody_out_or_in(tmp_path: Path) -> None:
    """Who waited for a file that is gone holds the lock of the one that has its name now."""
    lock, waits, held = tmp_path / "a.lock", threading.Event(), threading.Event()
    done = threading.Event()

    def second() -> None:
        with kernel_cache._locked(lock, waits.set):
            held.set()
            assert done.wait(WAIT)

    with ThreadPoolExecutor() as pool:
        with kernel_cache._locked(lock, pytest.fail):
            waiting = pool.submit(second)
            assert waits.wait(WAIT)
            lock.unlink()
        assert held.wait(WAIT)
        with pytest.raises(BlockingIOError), kernel_cache._locked(lock, kernel_cache._busy):
            pass
        done.set()
        waiting.result(WAIT)


def test_what_is_tuned_just_now_is_not_removed(ask: Ask, folder: Path) -> None:
    ask(tune="missing")
    cache, task = KernelCache(folder), Task.from_workload("matmul", M=8, N=8, K=8)
    (file,) = cache.files()
    with cache.tuning(task, lambda: None):
        assert not cache.remove(file)
    assert cache.remove(file)
    assert cache.files() == []


def test_a_child_of_a_fork_does_not_hold_a_lock_for_ever(tmp_path: Path) -> None:
    lock, (reader, writer) = tmp_path / "a.lock", os.pipe()
    with kernel_cache._locked(lock, pytest.fail):
        child = os.fork()
        if not child:
            os.close(writer)
            os.read(reader, 1)  # until its parent lets it go
            os._exit(0)
    try:
        with kernel_cache._locked(lock, pytest.fail):
            assert os.waitpid(child, os.WNOHANG) == (0, 0)  # it lives, and has the file
    finally:
        os.close(writer)
        os.waitpid(child, 0)
        os.close(reader)


@pytest.mark.parametrize("how", ["add", "tune", "go on"])
def test_records_of_a_later_version_stay(
    ask: Ask, measurer: UseMeasurer, folder: Path, tmp_path: Path, how: str
) -> None:
    """Two versions of autosched share a cache."""
    ask(tune="missing")
    (file,) = KernelCache(folder).files()
    if how == "go on":
        measurer(interrupt_after=1)
        with pytest.raises(KeyboardInterrupt):
            ask(tune="always", trials=8)
        measurer()
    later = {"schema": SCHEMA + 1, "task": "0", "environment": "e", "outcome": 1}
    heads = [{"environment": {"cpu": "?"}, "hash": "e"}, {"task": {"key": "0"}, "hash": "0"}]
    known = len(read_log(file).records)
    with file.open("a") as end:
        end.writelines(f"{json.dumps(line)}\n" for line in (*heads, later, later))
    if how == "add":
        other = autosched.tune(
            Task.from_workload("matmul", **MM), trials=2, batch=2, seed=5, cost_model="random"
        )
        RecordLog(tmp_path / "other.jsonl").append(other.records)
        task = Task.from_workload("matmul", **MM)
        assert KernelCache(folder).add(read_log(tmp_path / "other.jsonl"), task, pytest.fail) == 2
    else:
        with pytest.warns(UserWarning, match="is newer than this program's"):
            ask(tune="always")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines.count(later) == 2
    assert [line for line in lines[: lines.index(later)] if line in heads][-2:] == heads
    assert len(read_log(file).records) > known


def test_what_a_killed_run_left_can_be_removed(
    ask: Ask, measurer: UseMeasurer, folder: Path
) -> None:
    measurer(interrupt_after=1)
    with pytest.raises(KeyboardInterrupt):
        ask(tune="missing", trials=8)
    cache = KernelCache(folder)
    (file,) = cache.files(begun=True)
    assert file == cache.file(Task.from_workload("matmul", **MM)) and cache.files() == []
    file.with_suffix(".part.jsonl.4711-0.measuring").touch()
    assert cache.remove(file)
    assert [path.name for path in folder.iterdir() if not path.name.startswith("measuring-")] == []
