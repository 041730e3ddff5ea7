"""Files of the user's: what they may import."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from autosched.errors import ConfigError
from autosched.user_file import load_object, require_trusted, spec_of

USING = """
import json

def late():
    import {name}
    return {name}.__file__
"""


@pytest.fixture(autouse=True)
def _path_and_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def loaded(folder: Path, name: str, source: str = USING) -> object:
    (folder / "mine.py").write_text(source.format(name=name))
    _, found = load_object(f"{folder / 'mine.py'}:late", "x", "function")
    return found


def test_a_function_may_import_a_file_beside_its_own(tmp_path: Path) -> None:
    (tmp_path / "beside_mine.py").write_text("")
    for _ in range(2):
        late = loaded(tmp_path, "beside_mine")
        assert callable(late) and late() == str(tmp_path / "beside_mine.py")
    assert sys.path.count(str(tmp_path)) == 1 and sys.path[-1] == str(tmp_path)


def test_a_file_beside_it_stands_in_front_only_while_it_runs(tmp_path: Path) -> None:
    """A file that has the name of a library is not what autosched imports later."""
    (tmp_path / "wave.py").write_text("mine = True\n")
    sys.modules.pop("wave", None)
    late = loaded(tmp_path, "wave")
    assert callable(late) and late() != str(tmp_path / "wave.py")
    del sys.modules["wave"]
    source = "import wave\n\ndef late():\n    return wave.mine\n"
    late = loaded(tmp_path, "wave", source)
    assert callable(late) and late()


def test_a_path_that_has_the_folder_stays_as_it_is(tmp_path: Path) -> None:
    sys.path.insert(3, str(tmp_path))
    before = list(sys.path)
    loaded(tmp_path, "json")
    assert sys.path == before
    (tmp_path / "mine.py").write_text("1 / 0\n")
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        load_object(f"{tmp_path / 'mine.py'}:late", "x", "function")
    assert sys.path == before


@pytest.mark.parametrize("package", [False, True])
def test_of_two_files_of_one_name_in_two_folders_none_stands_for_the_other(
    tmp_path: Path, package: bool
) -> None:
    """The second would get what stands beside the first."""
    one, other = tmp_path / "a", tmp_path / "b"
    for folder in (one, other):
        (folder / "shared_name").mkdir(parents=True)
        place = "shared_name/__init__.py" if package else "shared_name.py"
        (folder / place).write_text(f"where = {folder.name!r}\n")
    source = "from shared_name import where\n\ndef late():\n    return where\n"
    late = loaded(one, "", source)
    assert callable(late) and late() == "a"
    for text in (source, "def late():\n    import shared_name.x as y\n"):
        with pytest.raises(
            ConfigError, match=r"^x: .*b/mine\.py imports shared_name, which .*a/sha"
        ):
            loaded(other, "", text)
    assert callable(late := loaded(one, "", source)) and late() == "a"


def test_a_folder_whose_name_is_no_utf8(tmp_path: Path) -> None:
    """As of an older system: it was a UnicodeEncodeError."""
    folder = tmp_path / os.fsdecode(b"d\xefr")
    folder.mkdir()
    (folder / "beside_mine.py").write_text("")
    late = loaded(folder, "beside_mine")
    assert callable(late) and late() == str(folder / "beside_mine.py")


def test_in_a_folder_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error was `[Errno 2] No such file or directory`, of no file."""
    late = loaded(tmp_path, "json")
    (tmp_path / "bad.py").write_text("import json\njson.loads('{')\n")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    says = (
        r"^x: \S*mine\.py leads nowhere: the current folder was deleted; .* give an absolute path$"
    )
    for name in ("mine.py", "../mine.py"):
        with pytest.raises(ConfigError, match=says):
            load_object(f"{name}:late", "x", "function")
        with pytest.raises(ConfigError, match=says):
            require_trusted(f"{name}:late", "x")
    assert spec_of(late, "x") == f"{tmp_path}/mine.py:late"
    with pytest.raises(ConfigError, match=r"^x: \S*/bad\.py:2: the file failed: JSONDecodeError: "):
        load_object(f"{tmp_path}/bad.py:late", "x", "function")
    assert loaded(tmp_path, "json") is not None


def test_an_error_of_many_lines_is_told_on_one(tmp_path: Path) -> None:
    """Of a failed candidate's message one line is shown, which was the last of the user's."""
    (tmp_path / "bad.py").write_text("raise ValueError('no rows:\\n  expected 4\\n')\n")
    with pytest.raises(ConfigError, match=r"bad\.py:1: .* ValueError: no rows: expected 4$"):
        load_object(f"{tmp_path}/bad.py:late", "x", "function")
