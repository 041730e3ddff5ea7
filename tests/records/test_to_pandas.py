"""The records of files as a data frame."""

import math
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from autosched import records
from autosched.errors import ConfigError
from autosched.measure.flush import all_caches
from autosched.records.to_pandas import COLUMNS
from kit.packages import missing
from kit.records import FAST, SLOW, entry, failed, record, write


def test_a_row_for_each_record_of_all_files(tmp_path: Path) -> None:
    flush = all_caches()
    raced = record(1, [2e-3, 2.1e-3, 2.2e-3, 2.3e-3], [0], flush=flush, environment="e")
    first = write(tmp_path / "a", [record(0, environment="e"), raced], {"e": {"cpu": "a Z80"}})
    second = write(tmp_path / "b", [failed(2, task=entry(32, SLOW)), record(3, 1e-13)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = records.to_pandas([first, str(second)])
    assert tuple(frame.columns) == COLUMNS
    assert list(frame.file) == [str(first)] * 2 + [str(second)] * 2
    assert list(frame.record) == [0, 1, 0, 1]
    assert list(frame.cpu) == ["a Z80", "a Z80", SLOW, FAST]
    assert not frame.here.any()
    assert list(frame.task) == [f"matmul(M={m}, N=16, K=16)" for m in (16, 16, 32, 16)]
    assert list(frame.race) == [False, True, False, False]
    assert list(frame.cache_flush) == [0, flush, 0, 0]
    assert list(frame.valid) == [True, True, False, True]
    assert list(frame.believed) == [True, True, False, False]
    assert list(frame.stage.astype(object)[2:3]) == ["run"] and frame.message[2] == "too long"
    assert frame.seconds[0] == 1e-3 and math.isnan(frame.seconds[2])
    assert frame.flops_per_second[0] == pytest.approx(2 * 16**3 / 1e-3)
    assert frame.low[1] < frame.seconds[1] < frame.high[1]
    assert list(frame.steps) == [1, 1, 1, 1]
    assert list(records.to_pandas(second).record) == [0, 1]


def test_what_cannot_be_read_is_told_and_what_cannot_be_rebuilt_has_its_key(tmp_path: Path) -> None:
    odd = {**entry(), "workload": {"op": "nobody's"}}
    path = write(tmp_path / "a", [record(0, task=odd)], also=["{}\n"])
    told: list[str] = []
    frame = records.to_pandas(path, warning=told.append)
    assert len(told) == 1 and "a:" in told[0] and "skipped" in told[0]
    assert list(frame.task) == [f"task {entry()['key']}"]
    assert math.isnan(frame.flops_per_second[0]) and frame.valid[0]


def test_no_record_is_an_empty_frame(tmp_path: Path) -> None:
    frame = records.to_pandas(write(tmp_path / "a", []))
    assert (tuple(frame.columns), len(frame)) == (COLUMNS, 0)
    assert frame[frame.believed].groupby("task").seconds.min().empty


def test_numbers_that_records_do_not_tell_are_nan(tmp_path: Path) -> None:
    """Records of a search of one's own say nothing of rounds and scores; lines may say anything."""
    odd: list[object] = [None, "fast", [1], True, 10**400, {}, 2, 0.5]
    lines = [replace(record(0), search={"round": value, "predicted": value}) for value in odd]
    frame = records.to_pandas(write(tmp_path / "a", [replace(lines[0], search={}), *lines]))
    for column in (frame["round"], frame.predicted):
        assert column.dtype == float
        assert column.isna().tolist() == [True] * 7 + [False] * 2
        assert column.tolist()[-2:] == [2.0, 0.5]
    flush = replace(lines[0], result=replace(lines[0].result, cache_flush=10**30))
    assert records.to_pandas(write(tmp_path / "c", [flush])).cache_flush[0] == 2**63 - 1
    alone = records.to_pandas(write(tmp_path / "b", [replace(lines[0], search={})]))
    assert alone.predicted.dtype == float and math.isnan(alone["round"].mean())


def test_the_search_of_the_users_own_is_named(tmp_path: Path) -> None:
    given: list[dict[str, object]] = [{"policy": "annealing"}, {}, {"policy": 7}]
    lines = [replace(record(0), search=search) for search in given]
    assert records.to_pandas(write(tmp_path / "a", lines)).policy.tolist() == ["annealing", "", ""]


def test_without_pandas_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    missing(monkeypatch, "pandas")
    with pytest.raises(ConfigError, match=r"^pandas is not installed; .* needs it: pip install"):
        records.to_pandas("none.jsonl")
