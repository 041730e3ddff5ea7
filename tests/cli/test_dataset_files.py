"""`autosched dataset export` replaces datasets only, and never what it reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
