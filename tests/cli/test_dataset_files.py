"""`autosched dataset export` replaces datasets only, and never what it reads."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autosched.output_file import FileKind, kind_of

Cli = Callable[..., Any]


def test_a_dataset_is_replaced_and_another_file_is_not(cli: Cli, log: Path) -> None:
    output = log.parent / "d.csv"
    assert cli("dataset", "export", log, "-o", "d.csv").status == 0
    assert cli("dataset", "export", log, "-o", "d.csv").status == 0
    output.write_text("my,own\n1,2\n")
    done = cli("dataset", "export", log, "-o", "d.csv")
    assert done.status == 2
    assert done.err == (
        "error: cannot write the dataset d.csv: the file there is no dataset; give another file "
        "with -o, or --force to replace it\n"
    )
    assert output.read_text() == "my,own\n1,2\n"
    assert cli("dataset", "export", log, "-o", "d.csv", "--force").status == 0
    assert kind_of(output) is FileKind.DATASET


def test_the_records_are_not_replaced_even_with_force(cli: Cli, log: Path) -> None:
    records = log.rename(log.with_suffix(".csv"))
    before = records.read_bytes()
    done = cli("dataset", "export", records, "-o", records)
    assert (done.status, "is a record file of the dataset" in done.err) == (2, True)
    done = cli("dataset", "export", records, "-o", records, "--force")
    assert (done.status, "is a record file of the dataset" in done.err) == (2, True)
    assert records.read_bytes() == before


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_names_that_are_no_text(cli: Cli, log: Path, suffix: str) -> None:
    """Bytes of another encoding, as old archives have them."""
    source, made = (os.fsdecode(name) for name in (b"\xff.jsonl", b"\xfe" + suffix.encode()))
    log.rename(source)
    done = cli("dataset", "export", source, "-o", made)
    assert (done.status, cli("dataset", "info", made).status) == (0, 0), done.err
    assert "`\\udcff.jsonl`" in Path(f"{made}.md").read_text()


@pytest.mark.parametrize("columns", [40, 100])
def test_what_is_said_of_a_dataset_fits_the_terminal(
    cli: Cli, log: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("dataset", "export", log, "-o", "d.csv")
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = cli("dataset", "info", "d.csv").out.splitlines()
    assert max(map(len, lines)) <= columns
    assert "throughput (min, quartiles, max): 0" in " ".join(" ".join(lines).split())


def test_options_of_a_split_want_one(cli: Cli, log: Path) -> None:
    for option in (("--by", "shape"), ("--seed", "1")):
        done = cli("dataset", "export", log, "-o", "d.csv", *option)
        assert done.status == 2
        assert done.err.startswith(
            f"error: {option[0]} is only for --split SHARES; add that option"
        )
        assert not (log.parent / "d.csv").exists()


def test_a_folder_and_links_in_a_circle(cli: Cli, log: Path) -> None:
    done = cli("dataset", "export", log, "-o", ".")
    assert (done.status, "cannot write the dataset .: it is a folder" in done.err) == (2, True)
    Path("circle.csv").symlink_to("circle.csv")
    done = cli("dataset", "export", log, "-o", "circle.csv")
    assert (done.status, "circle.csv" in done.err, "Traceback" in done.err) == (2, True, False)
