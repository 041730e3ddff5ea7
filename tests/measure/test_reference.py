"""The reference is computed once, before anything is measured, and cannot hold up a run."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure.build import Builder
from autosched.measure.cpu_runner import CpuRunner
from autosched.measure.measurer import Measurer
from autosched.measure.run import make_handler
from autosched.measure.run_options import RunOptions
from autosched.search.tuner import TuneOptions
from autosched.session import session as session_module
from autosched.session.session import Job, MeasureOptions, Session
from autosched.task import Task
from kit.forks import fresh
from kit.helper import StubHelper
from kit.measurer import PATIENT

FUNCTION = """
import os, signal, sys, time
import numpy as np
from autosched import te

def double(n, name):
    A = te.placeholder((n,), name="A")
    return [A, te.compute((n,), lambda i: A[i] * 2.0, name="B")]

def double_reference(inputs, n, name):
    with open("calls", "a") as file:
        file.write(f"{{n}}\\n")
    {body}
"""

BODIES = {
    "good": "return [inputs[0] * 2]",
    "changes its input": "inputs[0] *= 2; return [inputs[0]]",
    "hangs": "time.sleep(3600)",
    "raises": "raise KeyError('no such name')",
    "leaves": "sys.exit(3)",
    "ends the process": "os._exit(3)",
    "wrong shape": "return [inputs[0][1:] * 2]",
    "too many": "return [inputs[0] * 2] * 3",
    "no arrays": "return None",
    "interrupts": "os.kill(os.getppid(), signal.SIGINT); time.sleep(3600)",
}

WRONG = {
    "hangs": "than 2 s; give it more time (measure.reference_timeout_s), make it faster, or ",
    "raises": "'no such name'; correct it, or check",
    "leaves": "failed: ",
    "ends the process": "failed: the process died with exit status 3",
    "wrong shape": "double_reference: B: expected shape (8,), found (7,)",
    "too many": "returned 3 arrays",
    "no arrays": "failed: ",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which user files and the calls of references are in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def task_with(body: str, n: int = 8) -> Task:
    name = body.replace(" ", "_")
    Path(f"{name}.py").write_text(FUNCTION.format(body=BODIES[body]))
    return Task.from_json_workload(
        {"python": f"{name}.py:double", "args": {"n": n, "name": name}}, "cpu"
    )


def calls() -> list[str]:
    """The sizes for which a reference was called, in order."""
    return Path("calls").read_text().split() if Path("calls").exists() else []


@pytest.fixture
def measurer() -> Iterator[Measurer]:
    options = RunOptions(PATIENT, min_repeat_ms=1.0, visits=1, reference_timeout=PATIENT)
    with Measurer.create(workers=1, build_timeout=PATIENT, options=options, check="all") as found:
        yield found


def test_it_is_computed_once_for_each_task(measurer: Measurer) -> None:
    tasks = [task_with("good", n) for n in (8, 9)]
    for task in tasks:
        measurer.reference(task)
    for task in (*tasks, *tasks):
        (result,) = measurer.measure(task, [()])
        assert result.checked, result.failure
    assert calls() == ["8", "9"]


def test_it_may_change_its_inputs(measurer: Measurer) -> None:
    (result,) = measurer.measure(task_with("changes its input"), [()])
    assert result.checked, result.failure


@pytest.mark.parametrize("body", WRONG)
def test_a_wrong_one_is_known_before_anything_is_measured(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "Helper", StubHelper)
    monkeypatch.setattr(Builder, "start", lambda *_: None)  # nothing is ever built
    task = task_with(body)
    limit = 2.0 if body == "hangs" else 60.0
    session = Session(
        [Job(task, TuneOptions(trials=4, cost_model="random"))],
        records=Path("r.jsonl"),
        measure=MeasureOptions(RunOptions(reference_timeout=limit), workers=1),
    )
    with pytest.raises(ConfigError) as caught, session:
        session.run()
    message = str(caught.value)
    assert message.startswith(f"the reference {task.name.partition('(')[0]}_reference ")
    assert WRONG[body] in message
    assert message.endswith("or check no results (measure.check: none)")
    assert "Traceback" not in message
    assert calls() == ["8"]


def test_without_checks_it_is_not_called() -> None:
    with Measurer.create(check="none") as measurer:
        measurer.reference(task_with("hangs"))
    assert calls() == []


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_it(measurer: Measurer) -> None:
    with fresh(), pytest.raises(KeyboardInterrupt):
        measurer.reference(task_with("interrupts"))
    (result,) = measurer.measure(task_with("good"), [()])
    assert result.checked, result.failure


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = {n: task_with("good", n) for n in (8, 9, 10)}
    handle = make_handler()

    def ask(*sizes: int) -> list[str]:
        for n in sizes:
            handle(("task", tasks[n].to_json()))
            handle(("reference",))
        return calls()

    assert ask(8, 9, 10, 8, 9, 10) == ["8", "9", "10"]
    monkeypatch.setattr("autosched.measure.run.STORED_BYTES", 4 * 19)  # of two of them
    assert ask(10, 9, 10, 9) == ["8", "9", "10"]
    assert ask(8) == ["8", "9", "10", "8"]
    assert ask(9, 8) == ["8", "9", "10", "8"]
    assert ask(10) == ["8", "9", "10", "8", "10"]


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, 60.0),
        ({"timeout": 0.1}, 10.0),
        ({"timeout": 100.0}, 600.0),
        ({"timeout": 100.0, "reference_timeout": 2.5}, 2.5),
    ],
)
def test_its_limit(options: dict[str, Any], limit: float) -> None:
    assert RunOptions(**options).reference_limit == limit


def test_os_getppid_is_this_process(measurer: Measurer) -> None:
    """What `interrupts` above relies on."""
    with fresh():
        measurer.runner.start(task_with("good"))
    assert isinstance(measurer.runner, CpuRunner)
    worker = measurer.runner._worker
    assert worker is not None and worker._process is not None
    status = Path(f"/proc/{worker._process.pid}/stat").read_text()
    assert int(status.rpartition(")")[2].split()[1]) == os.getpid()
