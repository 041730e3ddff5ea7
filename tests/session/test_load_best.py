"""`autosched.load_best`: the best recorded kernel, built for the CPU it is to run on."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest

import autosched
from autosched.codegen.nvrtc import Nvrtc
from autosched.errors import ConfigError, MeasureError
from autosched.measure.environment import cpu_model
from autosched.measure.record_log import RecordLog
from autosched.measure.records import LogContents, Record
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.standing import candidate_hash
from autosched.runtime import cuda_kernel
from autosched.runtime.cpu import CpuArtifact, CpuKernel
from autosched.runtime.cuda_loader import GpuKernel
from autosched.runtime.origin import Origin
from autosched.session import tuned
from autosched.state.steps import Step, steps_from_json
from autosched.target import Target, cpu_target, cuda_target
from autosched.task import Task
from kit.cuda_driver import FakeDriver

TILED = steps_from_json([["SP", 2, 0, 16, [4], 1], ["AN", 2, 0, 3]])
ELSEWHERE = replace(cpu_target(), cpu="another-cpu", features="+sse2", vector_bytes=16)


def matmul(k: int = 16, target: Target | str = "cpu") -> Task:
    return Task.from_workload("matmul", M=16, N=16, K=k, target=target)


def record(
    task: Task,
    seconds: float = 1e-3,
    steps: tuple[Step, ...] = (),
    *,
    checked: bool = True,
    failure: Failure | None = None,
) -> Record:
    times = () if failure else (seconds,)
    return Record(task.to_json(), steps, MeasureResult(times, failure, checked=checked))


Built = list[tuple[Target, tuple[Step, ...]]]


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., Path]:
    """(*records) -> a file that holds them."""

    def write(*records: Record) -> Path:
        path = tmp_path / "r.jsonl"
        RecordLog(path).append(records)
        return path

    return write


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Built:
    """What kernels were built of: (target, steps)."""
    seen: Built = []
    build = tuned.build_candidate  # type: ignore[attr-defined]  # what that module calls

    def note(task: Task, steps: tuple[Step, ...]) -> CpuArtifact:
        seen.append((task.target, steps))
        artifact: CpuArtifact = build(task, steps)
        return artifact

    monkeypatch.setattr(tuned, "build_candidate", note)
    return seen


def assert_multiplies(kernel: CpuKernel | GpuKernel, k: int = 16) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((16, k), (k, 16)))
    c = np.empty((16, 16), np.float32)
    kernel(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_the_best_record_is_built_and_nothing_is_measured(
    log: Callable[..., Path], built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.measure.measurer.Measurer.measure", None)
    broken = record(matmul(), failure=Failure("run", "crash", "signal 11"))
    path = log(record(matmul(), 2e-3), record(matmul(), 1e-3, TILED), broken)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = autosched.load_best(path)
        assert_multiplies(autosched.load_best(str(path), matmul()))
    assert_multiplies(kernel)
    assert [steps for _, steps in built] == [TILED, TILED]


def test_a_record_of_another_cpu_is_rebuilt_for_this_one(
    log: Callable[..., Path], built: Built
) -> None:
    path = log(record(matmul(target=ELSEWHERE), 1e-3, TILED))
    message = r"measured on cpu \(another-cpu.*built for this machine's cpu \(.*tune again"
    with pytest.warns(UserWarning, match=message):
        assert_multiplies(autosched.load_best(path))
    ((target, steps),) = built
    here = cpu_target()
    assert (target.cpu, target.features) == (here.cpu, here.features)
    assert steps == TILED


def test_a_cpu_with_other_features_is_another_cpu(log: Callable[..., Path]) -> None:
    task = matmul(target=replace(cpu_target(), features=cpu_target().features + ",+imaginary"))
    with pytest.warns(UserWarning, match="built for this machine's"):
        assert_multiplies(autosched.load_best(log(record(task))))


def test_records_of_this_cpu_come_first(log: Callable[..., Path], built: Built) -> None:
    path = log(record(matmul(target=ELSEWHERE), 1e-6), record(matmul(), 1e-3, TILED))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        autosched.load_best(path)
    assert [steps for _, steps in built] == [TILED]


def test_a_record_that_names_no_cpu(log: Callable[..., Path]) -> None:
    path = log(record(matmul(target=replace(cpu_target(), cpu="", features="", triple=""))))
    with pytest.warns(UserWarning, match="measured on an unknown CPU"):
        assert_multiplies(autosched.load_best(path))


def test_a_record_that_was_never_compared_is_said(log: Callable[..., Path]) -> None:
    path = log(record(matmul(), checked=False))
    with pytest.warns(UserWarning, match="never compared with NumPy; `autosched replay"):
        autosched.load_best(path)


def test_the_task_chooses_among_several(log: Callable[..., Path]) -> None:
    path = log(record(matmul(16), 1e-3), record(matmul(32), 1e-6))
    with pytest.raises(ConfigError, match=r"2 tasks: matmul\(.*K=16\).*K=32.*load_best\(records, "):
        autosched.load_best(path)
    assert_multiplies(autosched.load_best(path, matmul(32)), 32)
    with pytest.raises(ConfigError, match=r"no valid record of matmul.*K=64.* it holds matmul"):
        autosched.load_best(path, matmul(64))


@pytest.mark.parametrize(
    ("records", "task", "message"),
    [
        (5, None, "records: expected the path of a record file, or a list of them, found 5"),
        ({"r.jsonl"}, None, "records: expected the path of a record file, or a list of them"),
        (".", None, "records: expected a file, found the folder"),
        ("none.jsonl", None, "none.jsonl does not exist"),
        ("empty.jsonl", None, "empty.jsonl holds no valid record"),
        ("empty.jsonl", "matmul", "task: expected a Task, e"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: Any, task: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ConfigError, match=message):
        autosched.load_best(records, task)


def test_a_file_of_failures_is_refused(log: Callable[..., Path]) -> None:
    path = log(record(matmul(), failure=Failure("run", "crash", "it died")))
    with pytest.raises(ConfigError, match="holds no valid record"):
        autosched.load_best(path)


BOUND = steps_from_json(
    [["FU", 2, [0, 1]], ["SP", 2, 0, 256, [64], 1], ["AN", 2, 0, 5], ["AN", 2, 1, 6]]
)


@pytest.mark.parametrize("kept", [True, False])
def test_a_record_for_cuda_is_built_for_the_gpu_that_is_there(
    log: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: bool
) -> None:
    """It is compiled once for all processes, where the user has a folder for that."""
    cache = tmp_path / "cache" if kept else Path("~nobody-of-that-name/cache")
    monkeypatch.setenv("AUTOSCHED_CACHE", str(cache))

    def multiply(*arrays: Any) -> None:
        a, b, c = (array[:256].reshape(16, 16) for array in arrays)
        c[:] = a @ b

    driver = FakeDriver({"matmul_kernel": multiply}, (8, 6))
    monkeypatch.setattr(tuned, "open_driver", lambda: driver)
    path = log(record(matmul(target=cuda_target("sm_90")), 1e-3, BOUND))
    autosched.load_best(path)
    assert len(list(cache.glob("cubins/*.cubin"))) == kept
    compile_ = create_autospec(Nvrtc.compile, side_effect=Nvrtc.compile)
    monkeypatch.setattr(Nvrtc, "compile", compile_)
    kernel = autosched.load_best(path)
    assert compile_.call_count == (not kept)
    assert repr(kernel).startswith("<CUDA kernel matmul(A: float32[16, 16], B: ")
    assert " for sm_86; matmul(M=16, N=16, K=16): 1 ms measured" in repr(kernel)
    assert_multiplies(kernel)
    with pytest.raises(MeasureError, match=r"matmul: argument 2 \(B\) must have shape \(16, 16\)"):
        kernel(np.zeros((16, 16), np.float32), np.zeros((16, 8), np.float32))


def test_a_record_for_cuda_without_a_driver(
    log: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_kernel, "driver_problem", lambda: "libcuda.so.1 not found")
    with pytest.raises(MeasureError, match=r"no CUDA driver \(libcuda.so.1 not found\)"):
        autosched.load_best(log(record(matmul(target=cuda_target()), 1e-3, BOUND)))


def origin_of(kernel: CpuKernel | GpuKernel) -> Origin:
    assert isinstance(kernel.origin, Origin)
    return kernel.origin


def test_several_files_count_as_one(tmp_path: Path, built: Built) -> None:
    """The best of each task, and a kernel says which file it is of."""
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    RecordLog(first).append([record(matmul(), 2e-3), record(matmul(32), 1e-3)])
    RecordLog(second).append([record(matmul(), 1e-3, TILED), record(matmul(32), 2e-3, TILED)])
    several: list[Sequence[Path | str]] = [[first, str(second)], (second, first)]
    for files in several:
        assert_multiplies(found := autosched.load_best(files, matmul()))
        assert_multiplies(other := autosched.load_best(files, matmul(32)), 32)
        assert (origin_of(found).file, origin_of(other).file) == (second, first)
    assert [steps for _, steps in built] == [TILED, ()] * 2
    with pytest.raises(ConfigError, match=r"a\.jsonl, .*b\.jsonl holds 2 tasks"):
        autosched.load_best([first, second])
    with pytest.warns(UserWarning, match="is given twice"):
        autosched.load_best([first, first], matmul())


def test_a_race_stays_behind_what_it_is_about_in_several_files(tmp_path: Path) -> None:
    """As in one file: the winner is the best, though a loser was faster once."""
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    lucky = record(matmul(), 1e-3)
    race = replace(
        record(matmul(), 2e-3, TILED), search={"race": {"against": [candidate_hash(())]}}
    )
    RecordLog(first).append([lucky])
    RecordLog(second).append([record(matmul(), 3e-3, TILED), race])
    found = origin_of(autosched.load_best([first, second]))
    assert (found.file, found.seconds) == (second, 2e-3)


def test_one_name_of_two_environments_in_two_files(tmp_path: Path) -> None:
    """Each record keeps the machine of its own file; it has none where its line is missing."""
    paths = [tmp_path / name for name in "abc"]
    for path, cpu in zip(paths, ("a Z80", cpu_model(), ""), strict=True):
        seconds = {"a Z80": 1e-3, "": 5e-3}.get(cpu, 2e-3)
        own = replace(record(matmul(), seconds), environment="e")
        log = RecordLog(path)
        log.copy(LogContents([own], {"e": {"cpu": cpu}} if cpu else {}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = origin_of(autosched.load_best(paths[:2]))
        assert (found.file, found.here) == (paths[1], True)
        found = origin_of(autosched.load_best([paths[0], paths[2]]))
        assert (found.file, found.here) == (paths[2], True)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^records: expected at least one record file, found none"
    ):
        autosched.load_best([])
    with pytest.raises(ConfigError, match=r"^records\[1\]: expected a file, found the folder "):
        autosched.load_best(["a.jsonl", tmp_path])
