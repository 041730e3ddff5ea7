"""Records whose steps do not apply are not the best of a run that continues from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
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


def test_a_session_continues_from_the_others(
    task: Task, known: list[Record], measurer: UseMeasurer, tmp_path: Path
) -> None:
    """The run ended with a best that could not be built."""
    path = tmp_path / "r.jsonl"
    RecordLog(path).append(known)
    said: list[str] = []
    measurer(bad=1)
    with Session([Job(task)], trials=1, records=path, messages=Messages(warning=said.append)) as s:
        best = s.run().tasks[0].best
    assert best is not None and best.steps == ()
    assert len(said) == 1 and PROBLEM in said[0]
