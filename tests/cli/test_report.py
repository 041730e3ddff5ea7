"""`autosched report`: a page is written, nothing else is written over."""

from pathlib import Path

import pytest

from kit.cli import Cli


def test_it_writes_a_page_and_replaces_its_own(cli: Cli, log: Path) -> None:
    for _ in range(2):
        done = cli("report", log, "--no-measure")
        assert done.status == 0, done.err
        assert done.out.startswith("report.html: 1 task in 1 file, 3 candidates, ")
    assert (log.parent / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mm.jsonl", "-o", "mm.jsonl"), "mm.jsonl is a record file; give another file"),
        (("mm.jsonl", "-o", "mm.yaml"), "cannot write the report mm.yaml: it is a YAML file"),
        (("mm.yaml",), "mm.yaml holds no records; expected a file that"),
        (("none.jsonl",), "none.jsonl does not exist"),
        (("mm.jsonl", "-o", "no/x.html"), "cannot write the report no/x.html: No such file"),
    ],
)
def test_what_cannot_be_is_said(
    cli: Cli, log: Path, config: Path, words: tuple[str, ...], message: str
) -> None:
    done = cli("report", *words, "--no-measure")
    assert done.status == 2
    assert message in done.err
    assert done.out == ""
