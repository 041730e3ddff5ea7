"""No run appends to a file that is not its own, or leaves the folder by a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.cli.read_config import load_config
from autosched.errors import ConfigError
from autosched.output_file import FileKind, kind_of
from kit.cli import Cli

FOREIGN = {
    "notes.txt": "dear diary\n",
    "empty-lines.txt": "\n\n",
    "other.jsonl": '{"task": "buy milk", "done": false}\n' * 3,
    "i.jsonl": '{"i": 1, "name": "x"}\n{"r": 2}\n',
    "schema.json": '{"schema": "http://json-schema.org"}\n',
    "quoting.md": 'A line of a record file:\n{"schema": 2, ...\n',
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_not_appended_to(
    cli: Cli, config: Path, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_text(FOREIGN[name])
    done = cli("tune", config, "--trials", 1, "--records", path)
    assert done.status == 2
    assert f"cannot write the record file {path}: the file there is no record file" in done.err
    assert path.read_text() == FOREIGN[name]


def test_a_torn_first_line_is_still_a_record_file(log: Path) -> None:
    lines = log.read_text().splitlines(keepends=True)
    log.write_text(lines[0][:50])
    assert kind_of(log) is FileKind.RECORDS
    for part in (lines, [lines[0][:50] + "\n", *lines[1:]], lines[:1], lines[2:]):
        log.write_text("".join(part))
        assert kind_of(log) is FileKind.RECORDS


@pytest.mark.parametrize("name", ["../esc", "/tmp/esc", "..", ".", "a\\nb", "x" * 300])
def test_a_name_stays_in_the_folder(config: Path, name: str) -> None:
    config.write_text(f'name: "{name}"\n{config.read_text()}')
    said = r"mm\.yaml:1: name: expected at most 200 printable .* --set name=NAME gives another"
    with pytest.raises(ConfigError, match=said):
        load_config(config)
