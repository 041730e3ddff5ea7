"""Lines read at a glance: what is taken so is what reading in full takes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.cli.record_summary import Summary
from autosched.measure.check import Seen
from autosched.measure.glance import Glance, _glance, glances
from autosched.measure.log_lines import log_lines
from autosched.measure.record_log import RecordLog
from autosched.measure.records import LogContents, Record, record_of, stream_log
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.standing import is_race
from autosched.session.applying import Applying
from autosched.state.iterator import Annotation
from autosched.state.steps import AnnotationStep, PragmaStep, SplitStep
from autosched.task import Task

TASK = Task.from_workload("matmul", M=16, N=16, K=16).to_json()
STEPS = (
    SplitStep(2, 0, 16, (4, 2)),
    AnnotationStep(2, 0, Annotation.PARALLEL),
    PragmaStep(2, 0, "unroll$16"),
)
SECONDS = [
    *((0.001838784, 0.0030900000000000003, 0.00201), (5.25e-05, 5.3e-05, 5.125e-05)),
    *((9.75e-05, 0.000125), (2e-05, 2.5e-05), (1.5,), (12.0, 3.0, 7.0, 7.5), (1e-300, 0.5)),
]
DEVICE = {
    "kernels": {"main_kernel0": {"registers": 32, "occupancy": 0.5}},
    "gpu": "GPU-x",
    "clocks": {"sm": [1755, 1740], "reasons": [None, 4]},
    "throttled": 1,
}


def records() -> Iterator[Record]:
    """Of results with all that a line can have."""
    seen = Seen(0.98, 3e-07, 2e-4)
    search = {"seed": 0, "state": "36", "predicted": None, "quality": {"rank_accuracy": 0.5}}
    for number, seconds in enumerate(SECONDS):
        result = MeasureResult(seconds, None, 0.103454, 1.5, True, seen if number % 2 else None)
        yield Record(TASK, STEPS, result, search if number % 3 else {})
    yield Record(
        TASK,
        STEPS,
        replace(result, cache_flush=1 << 20, device=DEVICE, disturbed=3, host="node"),
        search,
    )


ODD = [
    *('"', "\\", "-", "0", "00", "1", "9" * 20, "e", "e-5", "E5", ".", ",", "[", "]", "{", "}"),
    *(" ", "_", "\n", "\x00", "\u0661", "null", "NaN", "true", ":", '"race":', "\\u0072", "1e400"),
    *('],["', '"a":1,', "\x7f", '"error":null,', '["FU",2,[0,1]],', "abc"),
]


def damaged(line: str, draw: random.Random) -> str:
    """A line with one or two places changed."""
    for _ in range(draw.choice((1, 1, 2))):
        start = draw.randrange(len(line))
        end = draw.choice((start, start + 1, start + 1, start + draw.randrange(12)))
        line = line[:start] + draw.choice((draw.choice(ODD), line[end : end + 9], "")) + line[end:]
    return line


def whole(line: str, contents: LogContents) -> Record | None:
    return record_of(Path("x"), 1, line, LogContents(tasks=dict(contents.tasks)), None)


def test_what_this_program_writes_is_read_at_a_glance(tmp_path: Path) -> None:
    RecordLog(tmp_path / "r.jsonl").append(list(records()))
    found = list(glances(tmp_path / "r.jsonl", LogContents()))
    assert [type(each) for each in found] == [Glance] * (len(SECONDS) + 1)
    for glance, record in zip(found, stream_log(tmp_path / "r.jsonl", LogContents()), strict=True):
        assert isinstance(glance, Glance)
        assert glance.whole() == record
        assert 0.8 * record.result.cost <= glance.least_cost <= record.result.cost
        assert glance.cache_flush == record.result.cache_flush


def test_a_line_that_is_taken_is_a_whole_record(tmp_path: Path) -> None:
    RecordLog(tmp_path / "r.jsonl").append(list(records()))
    contents = LogContents()
    list(stream_log(tmp_path / "r.jsonl", contents))
    lines = [line for _, line in log_lines(tmp_path / "r.jsonl", []) if '"steps"' in line]
    draw = random.Random(0)
    taken = 0
    for _ in range(4000):
        line = damaged(draw.choice(lines), draw)
        glance = _glance(line, contents, set())
        if glance is None:
            continue
        taken += 1
        record = whole(line, contents)
        assert record is not None and record.result.valid and not is_race(record), line
        assert glance.least_cost <= record.result.cost
        assert (glance.task, glance.environment) == (record.task, record.environment)
        assert glance.cache_flush == record.result.cache_flush
    assert 200 < taken < 3000


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x0c\n", "\x1f"])
def test_only_white_space_of_json_may_follow(tmp_path: Path, end: str) -> None:
    """Python's `\\s` is more than that."""
    RecordLog(tmp_path / "r.jsonl").append(list(records()))
    contents = LogContents()
    list(stream_log(tmp_path / "r.jsonl", contents))
    line = (tmp_path / "r.jsonl").read_text().splitlines()[-1]
    assert _glance(line + " \t\r\n", contents, set()) is not None
    assert _glance(line + end, contents, set()) is None
    assert whole(line + end, contents) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_summary_is_the_same_either_way(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    failed = MeasureResult((), Failure("run", "crash", 'it "died"'))
    some = [*records(), Record(TASK, STEPS, failed), Record(TASK, (), MeasureResult((1e-9,)))]
    race: dict[str, Any] = {"race": {"against": []}}
    some += [replace(r, search={**r.search, **race}) for r in draw.sample(some, 3)]
    draw.shuffle(some)
    path = tmp_path / "r.jsonl"
    RecordLog(path).append(some)
    lines = path.read_text().splitlines(keepends=True)
    for at in draw.sample(range(2, len(lines)), 3):
        lines[at] = damaged(lines[at], draw)
    path.write_text("".join(lines))
    found = []
    for read in (stream_log, glances):
        contents, summary = LogContents(), Summary(TASK, Applying())
        for number, record in enumerate(read(path, contents)):
            summary.add(number, record, contents.environments)
        found.append(json.dumps([summary.to_json(), contents.problems]))
    assert found[0] == found[1]
