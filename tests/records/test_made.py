"""`merge`, `trim` and `convert`: what is in the files that they make, and what they refuse."""

import json
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched import records
from autosched.errors import ConfigError
from autosched.measure.records import read_log
from autosched.measure.standing import best_of
from autosched.records.writing import RecordWriter
from autosched.state.steps import steps_to_json
from kit.records import FAST, SLOW, drawn, entry, failed, lines_of, record, write

Make = Callable[[Path, Path], object]
MAKERS: dict[str, Make] = {
    "merge": lambda source, output: records.merge([source], output),
    "trim": lambda source, output: records.trim(source, output, best=1),
    "convert": records.convert,
}
HOSTILE = ["\x00\n", "[1]\n", '{"schema": 0, "steps": [], "result": {}}\n', '{"i": 1, "r": 2}\n']


def later(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}+00:00"


def test_merging_keeps_races_behind_what_they_are_about(tmp_path: Path) -> None:
    """Whichever file comes first: one is a part of the other that went its own way."""
    lucky, other = record(0, 1e-3, time=later(0)), record(1, 2e-3, time=later(0))
    race = record(1, 2.1e-3, [0], time=later(0))  # in the same second
    new = record(2, 5e-3, time=later(7))
    first = write(tmp_path / "a", [other, race, new])
    second = write(tmp_path / "b", [lucky, other, race])
    for sources in ([first, second], [second, first]):
        done = records.merge(sources, tmp_path / "out", force=True)
        found = read_log(tmp_path / "out")
        assert (done.records, done.read, done.repeated, found.problems) == (4, 6, 2, [])
        assert best_of(found.records) == race
        assert found.records[-1] == new


def test_files_are_merged_alike_however_many_are_open_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system allows few hundred; a night on a cluster makes thousands of files."""
    draw = random.Random(0)
    sources = []
    for number in range(30):
        made = [record(k, (k + 1) * 1e-3, time=later(draw.randrange(4))) for k in range(3)]
        made.append(record(1, 2e-3, [0], time=draw.choice(("", later(2), later(3)))))
        named = [replace(each, environment=f"e{number % 2}") for each in made]
        environments = {f"e{number % 2}": {"cpu": f"model {number % 3}"}}
        sources.append(write(tmp_path / str(number), named, environments))
    at_once = records.merge(sources, tmp_path / "at once")
    assert (at_once.read, at_once.files) == (120, 30)
    for most in (2, 3, 29):
        monkeypatch.setattr(sys.modules["autosched.records.merge"], "_AT_ONCE", most)
        assert records.merge(sources, tmp_path / str(-most)) == at_once
        assert (tmp_path / str(-most)).read_text() == (tmp_path / "at once").read_text()


def test_merged_records_keep_their_own_task_and_environment(tmp_path: Path) -> None:
    """Also where two files give one name to two things."""
    made = [
        write(
            tmp_path / name,
            [record(0, task=entry(size, cpu), environment="e")],
            {"e": {"cpu": f"model of {cpu}"}},
        )
        for name, size, cpu in (("a", 16, FAST), ("b", 32, SLOW), ("c", 16, SLOW))
    ]
    records.merge(made, tmp_path / "out")
    found = read_log(tmp_path / "out")
    environments = [found.environments[each.environment]["cpu"] for each in found.records]
    assert environments == [f"model of {each.task['target']['cpu']}" for each in found.records]
    assert [each.task["target"]["cpu"] for each in found.records] == [FAST, SLOW, SLOW]
    assert len(found.tasks) == 3 and found.problems == []


def test_a_trimmed_file_has_the_same_best_whatever_was_raced(tmp_path: Path) -> None:
    for seed in range(30):
        made = drawn(seed)
        source = write(tmp_path / "a", made)
        for most in (1, 3):
            records.trim(source, tmp_path / "out", best=most, force=True)
            found = read_log(tmp_path / "out").records
            assert best_of(found) == best_of(made), seed
            assert 1 <= len({each.steps for each in found}) <= most


def test_trimming_keeps_the_best_of_each_task_machine_and_way_of_timing(tmp_path: Path) -> None:
    made = [
        *(
            record(k, (9 - k) * 1e-3, task=entry(size, cpu))
            for size in (16, 32)
            for cpu in (FAST, SLOW)
            for k in range(4)
        ),
        *(record(k, 2e-2 * (1 + k), flush=1 << 20) for k in range(3)),
        failed(4),
        record(4, 1e-9),  # impossible
    ]
    source = write(tmp_path / "a", made)
    with pytest.warns(UserWarning, match="1 record of matmul.* not believed"):
        done = records.trim(source, tmp_path / "out", best=2)
    found = read_log(tmp_path / "out").records
    assert (done.records, done.read) == (len(found), len(made)) == (10, 21)
    assert found == [each for each in made if each in found]  # in their order
    best = {(e.task["key"], e.task["target"]["cpu"], e.result.cache_flush) for e in found}
    assert len(best) == 5
    assert {each.result.cost for each in found if not each.result.cache_flush} == {6e-3, 7e-3}


def test_the_records_of_a_winner_stay_two(tmp_path: Path) -> None:
    made = [record(0, 1e-3), record(1, 2e-3), record(2, 3e-3), record(1, 2.1e-3, [0])]
    records.trim(write(tmp_path / "a", made), tmp_path / "out", best=1)
    assert read_log(tmp_path / "out").records == [made[1], made[3]]


def test_records_of_schema_1_are_migrated_and_files_can_hold_both(tmp_path: Path) -> None:
    old = record(0, 1e-4, time=later(1))
    data = {**old.to_json(), "schema": 1, "task": old.task}
    source = write(tmp_path / "a", [record(1)], also=[json.dumps(data) + "\n"])
    for number, make in enumerate(MAKERS.values()):
        make(source, tmp_path / f"out{number}")
        lines = [json.loads(line) for line in (tmp_path / f"out{number}").read_text().splitlines()]
        assert {line["schema"] for line in lines if "steps" in line} == {2}
        assert steps_to_json(old.steps) in [line.get("steps") for line in lines]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_newer_records_are_refused_in_words_and_nothing_is_written(
    tmp_path: Path, make: Make
) -> None:
    newer = json.dumps({**record(1).to_json(), "schema": 3}) + "\n"
    source = write(tmp_path / "a", [record(0)], also=[newer])
    with (
        pytest.warns(UserWarning, match="schema 3 is newer"),
        pytest.raises(ConfigError, match=r"a:3: record schema 3 is newer than .*nothing was writ"),
    ):
        make(source, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_cannot_be_read_is_left_out_with_the_reason(tmp_path: Path, make: Make) -> None:
    torn = lines_of([record(1)])[-1][:-20]
    source = write(tmp_path / "a", [record(0)], also=[*HOSTILE, torn])
    with pytest.warns(UserWarning) as told:
        make(source, tmp_path / "out")
    texts = [str(each.message) for each in told]
    assert len(texts) == 4 and "2 more lines of" in texts[-1]
    assert "record schema: expected 1 to 2, found 0" in texts[2]
    found = read_log(tmp_path / "out")
    assert (found.records, found.problems) == ([record(0)], [])


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_is_read_and_what_is_there_are_never_written_over(tmp_path: Path, make: Make) -> None:
    source = write(tmp_path / "a", [record(0)])
    (tmp_path / "link").symlink_to(source)
    (tmp_path / "there").write_text("mine")
    before = source.read_bytes()
    for output, message in (
        ("a", "is a file that is read"),
        ("link", "is a file that is read"),
        ("there", "exists; give another name"),
    ):
        with pytest.raises(ConfigError, match=message):
            make(source, tmp_path / output)
    (tmp_path / "none").touch()
    with pytest.raises(ConfigError, match="none: no records; expected a file that"):
        make(tmp_path / "none", tmp_path / "out")
    assert source.read_bytes() == before
    assert (tmp_path / "there").read_text() == "mine"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_of_two_at_once_the_later_one_is_told(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write(tmp_path / "a", [record(0)]), tmp_path / "out"

    begin = RecordWriter.__init__

    def interrupted(self: RecordWriter, *args: Any, **named: Any) -> None:
        begin(self, *args, **named)
        out.write_text("another's")

    monkeypatch.setattr(RecordWriter, "__init__", interrupted)
    with pytest.raises(ConfigError, match="out exists; give another name with -o, or --force"):
        make(source, out)
    assert out.read_text() == "another's"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "out"]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([], "sources: expected at least one record file, found none"),
        (b"r.jsonl", "sources: expected the path of a record file, or a list of them, found b'r"),
        (7, "sources: expected"),
        ([7], r"sources\[0\]"),
    ],
)
def test_arguments_of_other_types(tmp_path: Path, sources: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        records.merge(sources, tmp_path / "out")
