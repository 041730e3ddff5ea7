"""Lines of record files that are too long, and files without an end."""

import bz2
import codecs
import gzip
import lzma
import os
import threading
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from autosched.errors import ConfigError
from autosched.measure import log_lines
from autosched.measure.glance import glances
from autosched.measure.record_log import RecordLog
from autosched.measure.records import LogContents, Record, read_log, stream_log
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


def test_files_with_a_byte_order_mark_one_behind_the_other(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(0)])
    path.write_bytes((codecs.BOM_UTF8 + path.read_bytes()) * 2)
    contents = read_log(path)
    assert (len(contents.records), contents.problems) == (2, [])


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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gzip.compress(b"{}\n"), "is compressed with gzip, expected .*; unpack it with gunzip"),
        (lzma.compress(b"{}\n"), "is compressed with xz"),
        (bz2.compress(b"{}\n"), "is compressed with bzip2"),
        ("{}\n".encode("utf-16"), "is text in UTF-16, expected .*; convert it with iconv"),
        (codecs.BOM_UTF16_BE + "{}\n".encode("utf-16-be"), "is text in UTF-16"),
        (b"PK\3\4...", "is a ZIP archive"),
        (b"(\xb5/\xfd...", "is compressed with zstd"),
    ],
    ids=["gzip", "xz", "bzip2", "UTF-16", "UTF-16-BE", "ZIP", "zstd"],  # gzip writes the time too
)
def test_files_of_other_formats_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    (path := tmp_path / "r.jsonl").write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        list(log_lines.log_lines(path, []))


def test_a_mark_of_utf8_at_the_start_is_no_part_of_a_line(tmp_path: Path) -> None:
    """Editors of Windows write it; the environment was lost with the first line."""
    (path := tmp_path / "r.jsonl").write_bytes(codecs.BOM_UTF8 + b'{"a": 1}\n{"b": 2}\n')
    assert list(log_lines.log_lines(path, [])) == [(1, '{"a": 1}\n'), (2, '{"b": 2}\n')]
