"""Runs of files: who is with whom, races, what is not believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autosched.errors import ConfigError
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.measure.standing import best_of, candidate_hash
from autosched.report.curve import curve, curves
from autosched.report.facts import environment, remarks
from autosched.report.runs import read_runs
from autosched.report.sections import row, section
from autosched.session import this_gpu
from autosched.task import Task
from kit.records import write


def test_machines_and_ways_of_timing_are_runs_of_their_own(
    log: Path, old_log: Path, records: Sequence[Record], tmp_path: Path
) -> None:
    """Failures do not say how caches were emptied, and are of the run that was timed."""
    both = tmp_path / "both.jsonl"
    both.write_text(log.read_text() + old_log.read_text())
    cold = [replace(r, result=replace(r.result, cache_flush=4096)) for r in records[:4]]
    RecordLog(both).append(cold)
    runs, skipped = read_runs([both], pytest.fail)
    assert [(run.here, run.flush, len(run.trials)) for run in runs] == [
        (True, 0, 65),  # the last of the four failed
        (False, 0, 64),
        (True, 4096, 3),
    ]
    assert skipped == 0
    assert [trial.index for trial in runs[0].trials] == [*range(64), 131]


def test_nothing_believed_is_nothing_to_report(records: Sequence[Record], tmp_path: Path) -> None:
    """A file of which nothing is left is passed over where another has runs."""
    forged, fair = tmp_path / "forged.jsonl", tmp_path / "fair.jsonl"
    RecordLog(forged).append([replace(records[0], result=MeasureResult((1e-12,)))])
    RecordLog(fair).append(records[:1])
    told: list[str] = []
    with pytest.raises(ConfigError, match=r"forged\.jsonl: every recorded time is impossible"):
        read_runs([forged], told.append)
    runs, _ = read_runs([forged, fair], told.append)
    assert [run.source for run in runs] == [fair]
    assert len(told) == 2


def test_times_of_a_gpu_are_this_machines_where_it_is_here(
    records: Sequence[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task.from_workload("matmul", M=32, N=32, K=32, target="cuda").to_json()
    path = write(
        tmp_path / "gpu.jsonl",
        [replace(r, task=task, environment="e") for r in records[:2]],
        {"e": {"cpu": "any", "gpus": [{"name": "H200"}]}},
    )
    for name, here in ((None, False), ("A100", False), ("H200", True)):
        monkeypatch.setattr(this_gpu, "gpu_name", lambda found=name: found)
        ((run,), _) = read_runs([path], pytest.fail)
        assert run.here is here
        shown = "H200, this machine" if here else "H200"
        assert environment(run, None)[0] == ("Measured on", shown)


def test_runs_of_files_of_one_name_and_of_one_file_are_told_apart(
    records: Sequence[Record], tmp_path: Path
) -> None:
    paths = [tmp_path / folder / "mm.jsonl" for folder in ("before", "after")]
    for path in paths:
        path.parent.mkdir()
        RecordLog(path).append(records[:2])
    cold = [replace(r, result=replace(r.result, cache_flush=4096)) for r in records[:2]]
    RecordLog(paths[1]).append(cold)
    runs, _ = read_runs(paths, pytest.fail)
    assert [run.file for run in runs] == [str(paths[0]), str(paths[1]), str(paths[1])]
    assert [row(run).source for run in runs] == [run.file for run in runs]
    assert [row(run).device for run in runs] == [m := runs[1].machine, m, f"{m}, empty caches"]
    assert section(runs[2], None).subtitle == f"{m}, empty caches · {paths[1]}"
    one, two, three = (trace["name"] for trace in curves(runs).traces)
    assert one.startswith("…") and one.endswith("/before/mm.jsonl")
    machine = runs[1].machine[:23]
    assert f"/after/mm.jsonl · {machine}" in two and "empty caches" not in two
    assert f"/after/mm.jsonl · {machine}" in three and three.endswith(", empty caches")
    assert read_runs(paths[:1], pytest.fail)[0][0].file == "mm.jsonl"


def test_a_run_has_the_caches_of_its_machine(records: Sequence[Record], tmp_path: Path) -> None:
    """They belong to no task's key."""
    both = tmp_path / "both.jsonl"
    sizes = {"one": (64, 128, 256), "two": (1 << 20, 1 << 22, 1 << 24)}
    for cpu, caches in sizes.items():
        target = {**records[0].task["target"], "cpu": cpu, "caches": list(caches)}
        own = {**records[0].task, "target": target}
        RecordLog(both).append([replace(r, task=own) for r in records[:4]])
    runs, _ = read_runs([both], pytest.fail)
    found = [run.task.target.caches for run in runs if run.task is not None]
    assert found == list(sizes.values())


def test_the_winner_of_a_race_is_the_best_and_no_candidate_more(
    log: Path, records: Sequence[Record], tmp_path: Path
) -> None:
    best = best_of(records)
    assert best is not None
    slower = next(r for r in records if r.result.valid and r.steps != best.steps)
    race = {
        "against": [candidate_hash(best.steps)],
        "ties": [],
        "found_seconds": 0.5 * best.result.cost,
    }
    result = MeasureResult((1.5 * best.result.cost,), checked=True)
    raced = tmp_path / "raced.jsonl"
    raced.write_text(log.read_text())
    search = {**slower.search, "race": race, "spent": {"race": 2.5}}
    RecordLog(raced).append([replace(slower, result=result, search=search)])
    ((run,), _) = read_runs([raced], pytest.fail)
    assert (len(run.trials), run.races, run.spent["race"]) == (64, 1, 2.5)
    assert run.best is not None and run.best.steps == slower.steps
    star = curve(run).traces[-1]
    assert star["name"] == "won the race"
    assert star["x"] == [list(records).index(slower) + 1]
    assert star["y"][0] == pytest.approx(run.flops / (1.5 * best.result.cost) / 1e9)
    assert remarks(run)[1:] == [
        "The winner of a race against 1 other.",
        "It took 3 times as long in the race as when it was found: times of this run are "
        "unreliable.",
    ]


def test_the_record_of_a_race_stands_for_a_first_one_that_is_gone(
    log: Path, records: Sequence[Record], tmp_path: Path
) -> None:
    """Its line was deleted, or is damaged; a run without trials ended in an IndexError."""
    best = best_of(records)
    assert best is not None
    alone = tmp_path / "alone.jsonl"
    raced = replace(best, search={"race": {"against": [], "ties": []}})
    RecordLog(alone).append([raced, raced])
    runs, _ = read_runs([alone, log], pytest.fail)
    assert [len(run.trials) for run in runs] == [1, 64]
    for chart in (curve(runs[0]), curves(runs)):
        assert chart.traces[0]["x"][-1] == 1
    assert remarks(runs[0])


def test_times_that_no_kernel_has_are_left_out(records: Sequence[Record], tmp_path: Path) -> None:
    path = tmp_path / "forged.jsonl"
    forged = replace(records[0], result=MeasureResult((1e-10,)))
    RecordLog(path).append([forged, *records[1:4]])
    told: list[str] = []
    ((run,), _) = read_runs([path], told.append)
    assert len(run.trials) == 3
    assert "1 record of task" in told[0] and "not believed" in told[0]


@pytest.mark.parametrize("value", [10**300, float("nan"), -1, True, "1", None])
def test_odd_numbers_are_no_predictions_and_no_seconds(
    records: Sequence[Record], tmp_path: Path, value: object
) -> None:
    path = tmp_path / "odd.jsonl"
    search = {**records[0].search, "predicted": value, "spent": {"search": value}}
    RecordLog(path, beside={"memory_bytes": value}).append([replace(records[0], search=search)])
    ((run,), _) = read_runs([path], pytest.fail)
    assert run.trials[0].predicted is None and run.spent == {}
    assert dict(environment(run, None))["Memory"] == str(value)
