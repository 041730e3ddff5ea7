"""Wording that messages share."""

import shlex

import pytest

from autosched.words import escaped, in_shell


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
