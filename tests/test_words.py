"""Wording that messages share."""

import shlex
import sys
import unicodedata

import pytest

from autosched.words import aligned, escaped, in_shell, last_line, told, visible


@pytest.mark.parametrize(
    "name", ["mm.jsonl", "my runs/it's.jsonl", "$HOME;rm.jsonl", "a\nb", "-x.jsonl", "--fresh", "*"]
)
def test_a_path_survives_the_shell(name: str) -> None:
    """It is one word, not an option, and the same file."""
    (word,) = shlex.split(in_shell(name))
    assert word.removeprefix("./") == name
    assert not word.startswith("-")


def test_a_name_becomes_text() -> None:
    assert [escaped(name) for name in ("é.jsonl", "\udcff")] == ["é.jsonl", "\\udcff"]
    assert escaped("é", "ascii") == "\\xe9"


def test_what_a_terminal_obeys_becomes_visible() -> None:
    assert visible("a\x1b[2K\r\n\tb\0\x9b") == "a\\x1b[2K\\r\\n\\tb\\x00\\x9b"
    assert visible("ab\u202ecd\u2066", keep="\n") == "ab\\u202ecd\\u2066"
    assert visible("a\n\tb", keep="\n\t") == "a\n\tb"
    plain = "naïve Gemüse, 日本語, \U0001f469\u200d\U0001f52c"
    assert visible(plain) == plain


def test_characters_of_control_and_format_are_visible() -> None:
    """But for the joiners, and signs of scripts that are shown."""
    kinds = {chr(c): unicodedata.category(chr(c)) for c in range(sys.maxunicode + 1)}
    special = {c: kind for c, kind in kinds.items() if kind in ("Cc", "Cf", "Zl", "Zp")}
    shown = {c for c in special if visible(c) == c}
    formats = {c for c in shown if special[c] == "Cf"}
    assert shown == formats
    assert {"\u200c", "\u200d"} <= formats
    others = formats - {"\u200c", "\u200d"}
    names = {unicodedata.name(c).partition(" ")[0] for c in others}
    assert names <= {"ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN", "SHORTHAND", "MUSICAL"}


def test_errors_are_told_with_what_they_say() -> None:
    assert told(KeyError("n")) == "KeyError: 'n'"
    assert told(MemoryError()) == "MemoryError"


def test_columns_are_as_wide_as_their_widest_cells() -> None:
    assert aligned([("task", "best"), ("matmul", "3 ms"), ("add", "")]) == [
        "task    best",
        "matmul  3 ms",
        "add",
    ]
    assert aligned([]) == []


def test_the_last_line_of_a_message_that_has_none() -> None:
    assert last_line("Traceback:\nValueError: no\n") == "ValueError: no"
    assert last_line("\n") == "no message"
