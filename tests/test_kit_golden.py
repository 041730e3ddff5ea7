"""The golden files' own test: other text fails, `--update-golden` rewrites it, long lines break."""

from pathlib import Path
from typing import Never

import pytest

from kit import golden as kit
from kit.golden import Example, Golden, broken, examples_in, joined

SOURCE = '''
"""Doubles.

before twice:
    one
after:
    two
unchanged:
"""
'''


def doubled(example: Example) -> None:
    for block in example.outcomes:
        block.found = "" if block.kind == "unchanged" else example.before.text * 2


def test_an_example_with_other_text_fails_and_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "source.py"
    path.write_text(SOURCE)
    with pytest.raises(AssertionError, match=r"source.py:6\n(.|\n)*-two\n\+oneone"):
        Golden(update=False).check_examples(path, doubled)
    assert path.read_text() == SOURCE
    assert Golden(update=True).check_examples(path, doubled) == 1
    assert path.read_text() == SOURCE.replace("two", "oneone")
    assert Golden(update=False).check_examples(path, doubled) == 1


def test_a_file_with_other_text_fails_and_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kit, "FOLDER", tmp_path)
    with pytest.raises(AssertionError, match=r"x.tir holds another text(.|\n)*\+new"):
        Golden(update=False).check("x.tir", "new")
    Golden(update=True).check("x.tir", "new")
    Golden(update=False).check("x.tir", "new\n")


def test_labels_and_lines() -> None:
    (example,) = examples_in(SOURCE.split("\n"))
    assert (example.before.label, example.before.text, example.line) == ("twice", "one", 4)
    assert [block.kind for block in example.outcomes] == ["after", "unchanged"]


def test_long_lines_break_inside_brackets_and_join_again() -> None:
    line = "    total = first(alpha, beta) + second(gamma, delta)"
    parts = broken(line, 47)
    assert parts == ["    total = first(alpha, beta) + second(gamma,", "            delta)"]
    assert joined("\n".join(parts)) == line


def test_an_error_names_the_example(tmp_path: Path) -> None:
    path = tmp_path / "source.py"
    path.write_text(SOURCE)

    def fails(example: Example) -> Never:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        Golden(update=False).check_examples(path, fails)
    assert caught.value.__notes__ == [f"{path}:4"]
