"""Records whose steps do not apply are not the best of a run that continues from them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import autosched
from autosched.errors import ConfigError
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.report.runs import read_runs
from autosched.runtime.origin import Origin
from autosched.session.applying import applying
from autosched.session.session import Job, Messages, Session
from autosched.state.steps import steps_from_json
from autosched.task import Task
from kit.types import UseMeasurer

WRONG = steps_from_json([["PR", 99, 0, "auto_unroll_max_step$16"]])
PROBLEM = "step 0 PragmaStep on stage 99: there are only 3 stages"


@pytest.fixture
def known(task: Task) -> list[Record]:
    """A right record, and a faster one whose steps do not apply."""
    right = Record(task.to_json(), (), MeasureResult((2e-3,)))
    return [right, replace(right, steps=WRONG, result=MeasureResult((1e-3,)))]


def test_they_are_left_out_and_told(task: Task, known: list[Record]) -> None:
    said: list[str] = []
    assert applying(task, known, said.append) == known[:1]
    assert said == [
        f"{task.name}: 1 record left out whose steps do not apply to it, the best among them "
        f"({PROBLEM}); delete the lines"
    ]


def test_those_that_are_not_the_best_stay(task: Task, known: list[Record]) -> None:
    slow = replace(known[1], result=MeasureResult((3e-3,)))
    assert applying(task, [known[0], slow], pytest.fail) == [known[0], slow]
    assert applying(task, [], pytest.fail) == []


def test_the_next_best_is_taken_for_the_best(known: list[Record], tmp_path: Path) -> None:
    """`best_of` and all that choose as it does pass over records, and say so once."""
    slow = replace(known[1], result=MeasureResult((3e-3,)))
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([*known, slow])
    (found,) = autosched.records.best(path, warning=_said(path))
    assert found.index == 0
    (run,), _ = read_runs([path], _said(path))
    assert run.best is not None and run.best.steps == ()
    with pytest.warns(UserWarning, match=re.escape(PROBLEM)):
        kernel = autosched.load_best(path)
    assert isinstance(kernel.origin, Origin) and kernel.origin.seconds == 2e-3


def _said(path: Path) -> Callable[[str], None]:
    """A function to which the only warning about the file is given."""
    name = "matmul(M=8, N=8, K=8)"
    rest = f"steps do not apply to it ({PROBLEM}); delete the lines"
    expected = iter([f"{path}: 1 record of {name} passed over whose {rest}"])

    def say(text: str) -> None:
        assert text == next(expected)

    return say


def test_there_is_no_kernel_where_none_apply(known: list[Record], tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append(known[1:])
    assert autosched.records.best(path, warning=lambda text: None) == []
    with (
        pytest.warns(UserWarning, match=re.escape(PROBLEM)),
        pytest.raises(ConfigError, match="holds no valid record"),
    ):
        autosched.load_best(path)


def test_a_session_continues_from_the_others(
    task: Task, known: list[Record], measurer: UseMeasurer, tmp_path: Path
) -> None:
    """The run ended with a best that could not be built."""
    path = tmp_path / "r.jsonl"
    RecordLog(path).append(known)
    said: list[str] = []
    measurer(bad=1)
    with Session([Job(task)], trials=1, records=path, messages=Messages(warning=said.append)) as s:
        assert s.known == 1
        best = s.run().tasks[0].best
    assert best is not None and best.steps == ()
    assert len(said) == 1 and PROBLEM in said[0]
