"""Lines of record files that are too long, and files without an end."""

import os
import threading
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from autosched.errors import ConfigError
from autosched.measure import log_lines
from autosched.measure.glance import glances
from autosched.measure.records import LogContents, Record, RecordLog, read_log, stream_log
from kit.records import record

LETTERS = 4096


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "MOST_LETTERS", LETTERS)
    monkeypatch.setattr(log_lines, "MOST_SKIPPED", 1 << 24)
    monkeypatch.setattr(log_lines, "MOST_PROBLEMS", 50)


def test_a_long_line_is_left_out_and_what_follows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(0)])
    with path.open("a") as file:
        file.write("x" * 8 * LETTERS + "\n")
    RecordLog(path).append([record(1)])
    contents = read_log(path)
    assert len(contents.records) == 2
    said = f"{path}:4: a line of 32,769 letters, at most 4,096 are read; skipped"
    assert contents.problems == [said]
    again = LogContents()
    assert len(list(glances(path, again))) == 2 and again.problems == [said]


@pytest.mark.parametrize(("letters", "taken"), [(LETTERS, True), (LETTERS + 1, False)])
@pytest.mark.parametrize("end", ["", "\n"])
def test_the_longest_line_that_is_read(tmp_path: Path, letters: int, taken: bool, end: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("x" * letters + end)
    problems: list[str] = []
    assert len(list(log_lines.log_lines(path, problems))) == taken
    assert len(problems) == (not taken)


def test_a_line_without_an_end_is_refused_and_not_kept() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match=r"/dev/zero:1: a line of more than 16,777,216 let"):
            read_log("/dev/zero")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 20


def test_a_pipe_of_lines_without_an_end_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with suppress(BrokenPipeError), pipe.open("w") as file:
            while True:
                file.write("y\n")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with pytest.raises(ConfigError, match="pipe: more than 50 lines that hold no record; expected"):
        list(stream_log(pipe, LogContents()))
    writer.join(10)
    assert not writer.is_alive()


def test_a_file_of_records_may_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(0)])
    with path.open("a") as file:
        file.write("torn\n" * 50)
    contents = read_log(path)
    assert len(contents.records) == 1 and isinstance(contents.records[0], Record)
    assert len(contents.problems) == 50
