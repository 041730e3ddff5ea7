"""Lines that have no room: those that fit are whole, the others are elsewhere or told lost."""

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autosched.measure.whole_lines import kept_elsewhere, write_fitting, write_whole

Opened = Callable[[bytes], int]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Opens a file with these contents for lines to be appended."""
    files = []

    def make(contents: bytes) -> int:
        (tmp_path / "f").write_bytes(contents)
        files.append(os.open(tmp_path / "f", os.O_RDWR | os.O_APPEND))
        return files[-1]

    yield make
    for file in files:
        os.close(file)


def room(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """From now on a disk on which there is so much."""
    write, left = os.write, size

    def full(file: int, data: bytes) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(file, data[:left])
        left -= written
        return written

    monkeypatch.setattr(os, "write", full)


@pytest.mark.parametrize(
    ("before", "size", "after", "lines"),
    [
        (b"", 0, b"", 0),
        (b"", 3, b"", 0),
        (b"", 4, b"one\n", 1),
        (b"", 7, b"one\n", 1),
        (b"a\n", 11, b"a\none\ntwo\n", 2),
        (b"to", 1, b"to\n", 0),
        (b"to", 10, b"to\none\ntwo\n", 2),
    ],
)
def test_lines_that_fit_are_written_whole(
    opened: Opened,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: bytes,
    size: int,
    after: bytes,
    lines: int,
) -> None:
    file = opened(before)
    room(monkeypatch, size)
    found = write_fitting(file, ["one\n", "two\n", "three\n"])
    assert found == (lines, "No space left on device")
    assert (tmp_path / "f").read_bytes() == after


def test_with_room_all_are_written(opened: Opened, tmp_path: Path) -> None:
    assert write_fitting(opened(b"torn"), ["one\n", "two\n"]) == (2, "")
    assert (tmp_path / "f").read_bytes() == b"torn\none\ntwo\n"
    assert write_fitting(opened(b""), []) == (0, "")


def test_all_or_none(opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(b"to")
    room(monkeypatch, 6)
    with pytest.raises(OSError, match="No space left"):
        write_whole(file, "one\ntwo\n")
    assert (tmp_path / "f").read_bytes() == b"to"


def test_the_rest_is_kept_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    text, kept = kept_elsewhere(Path("a b.jsonl"), ["head\n"], ["one\n", "two\n"])
    (rest,) = tmp_path.iterdir()
    assert kept
    assert rest.read_text() == "head\none\ntwo\n"
    assert text == (
        f"2 results of the batch are in {rest}: once there is room, "
        f"`cat {rest} >> 'a b.jsonl'` adds what is there"
    )


@pytest.mark.parametrize(
    ("left", "what"),
    [([], "deleted is"), (["two\n"], "deleted and 1 result of the batch are")],
)
def test_what_a_deleted_file_held_is_kept_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: list[str], what: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    text, kept = kept_elsewhere(Path("a.jsonl"), ["head\n"], left, "head\none\nto")
    (rest,) = tmp_path.iterdir()
    assert kept and rest.read_text() == "".join(("head\none\nto\nhead\n", *left))
    assert text == (
        f"what the file held before it was {what} in {rest}, a record file that every command reads"
    )


def test_what_is_lost_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    room(monkeypatch, 6)
    text, kept = kept_elsewhere(Path("a.jsonl"), ["head\n"], ["one\n"])
    assert not kept
    assert text == (
        "1 result of the batch cannot be written to the folder of temporary files either "
        "(No space left on device) and is lost"
    )
    assert list(tmp_path.iterdir()) == []
