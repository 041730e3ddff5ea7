"""Whatever writes a file replaces its own kind only: every writer on every kind of file."""

import errno
import gzip
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.features.ansor.names import NUM_FEATURES
from autosched.features.datasets import dataset
from autosched.features.datasets.sample import Sample
from autosched.features.sets import Rows
from autosched.measure import ansor_log
from autosched.measure.journal import RunLog
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, read_log
from autosched.measure.result import MeasureResult
from autosched.output_file import (
    FileKind,
    kind_of,
    real_path,
    replacing,
    require_apart,
    require_replaceable,
)
from autosched.search.cost_model import XGBoostModel
from autosched.task import Task

Write = Callable[[Path, bool], None]


def record() -> Record:
    task = Task.from_workload("matmul", M=8, N=8, K=8)
    return Record(task.to_json(), (), MeasureResult((1e-3,)))


def write_records(path: Path, overwrite: bool = False) -> None:
    RecordLog(path, overwrite=overwrite).append([record()])


def write_copies(path: Path, overwrite: bool = False) -> None:
    source = path.with_name("source-of-copies")
    write_records(source)
    RecordLog(path, overwrite=overwrite).copy(read_log(source))


def ansor_line() -> str:
    found = record()
    return ansor_log.format_line(found.task, (), found.result, 0)


def write_ansor_log(path: Path) -> None:
    path.write_text(f"{ansor_line()}\n")


def write_model(path: Path, overwrite: bool = False) -> None:
    model = XGBoostModel(rounds=2)
    model.fit([np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)], [1.0, 0.5])
    model.save(path, "test/1", overwrite=overwrite)


def write_dataset(path: Path, overwrite: bool = False) -> None:
    task = {"workload": {"op": "a", "args": {}}, "key": "a"}
    rows = Rows(np.ones((2, NUM_FEATURES), np.float32), ("T", "C"))
    dataset.export([Sample(task, lambda: rows, 1.0)], path, overwrite=overwrite)


def write_datasheet(path: Path) -> None:
    made = path.with_name("made.npz")
    write_dataset(made)
    made.with_name("made.npz.md").rename(path)


def write_text(text: str) -> Callable[[Path], None]:
    return write_bytes(text.encode())


def write_bytes(data: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


def write_npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, features=np.ones(3))


def write_parquet(path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"mine": [1, 2]}), path)


def of_suffix(suffix: str, write: Callable[[Path], None]) -> Callable[[Path], None]:
    """Written under a name with `suffix`, which chooses the format, then renamed."""

    def make(path: Path) -> None:
        other = path.with_name(f"other{suffix}")
        write(other)
        other.rename(path)

    return make


FILES: dict[str, tuple[Callable[[Path], None], FileKind | None]] = {
    "records": (write_records, FileKind.RECORDS),
    "Ansor's log": (write_ansor_log, FileKind.RECORDS),
    "records after a torn line": (
        lambda path: write_text(f'{{"environment":{{"c\n{ansor_line()}\n')(path),
        FileKind.RECORDS,
    ),
    "model": (write_model, FileKind.MODEL),
    "compressed model": (of_suffix(".json.gz", write_model), FileKind.MODEL),
    "npz dataset": (of_suffix(".npz", write_dataset), FileKind.DATASET),
    "csv dataset": (of_suffix(".csv", write_dataset), FileKind.DATASET),
    "parquet dataset": (of_suffix(".parquet", write_dataset), FileKind.DATASET),
    "datasheet": (write_datasheet, FileKind.DATASHEET),
    "configuration": (write_text("workload: {op: matmul, args: {M: 8, N: 8, K: 8}}\n"), None),
    "Python file": (write_text("def records():\n    return {'schema': 1}\n"), None),
    "page": (write_text("# Notes\n\nwhat I found\n"), None),
    "csv": (write_text("time,task\n1,2\n"), None),
    "JSON": (write_text('{"learner": "mine"}\n'), None),
    "arrays": (write_npz, None),
    "table": (write_parquet, None),
    "compressed text": (write_bytes(gzip.compress(b"text")), None),
    "damaged gzip": (write_bytes(b"\x1f\x8b\x08what"), None),
    "damaged zip": (write_bytes(b"PK\x03\x04what"), None),
    "bytes": (write_bytes(bytes(range(256))), None),
}

WRITERS: dict[str, tuple[Write, FileKind, str]] = {
    "RecordLog.append": (write_records, FileKind.RECORDS, "x.jsonl"),
    "RecordLog.copy": (write_copies, FileKind.RECORDS, "x.jsonl"),
    "XGBoostModel.save": (write_model, FileKind.MODEL, "x.json"),
    "export .npz": (write_dataset, FileKind.DATASET, "x.npz"),
    "export .csv": (write_dataset, FileKind.DATASET, "x.csv"),
    "export .parquet": (write_dataset, FileKind.DATASET, "x.parquet"),
}


@pytest.mark.parametrize("file", FILES)
def test_kinds_are_told_from_the_contents(tmp_path: Path, file: str) -> None:
    write, kind = FILES[file]
    write(tmp_path / "x")
    assert kind_of(tmp_path / "x") is kind


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("file", FILES)
def test_only_its_own_kind_is_replaced(tmp_path: Path, file: str, writer: str) -> None:
    write, own, name = WRITERS[writer]
    make, kind = FILES[file]
    path = tmp_path / name
    make(path)
    before = path.read_bytes()
    if kind is own:
        write(path, False)
    else:
        with pytest.raises(ConfigError, match=f"cannot write the {own} .*{name}: .*give another"):
            write(path, False)
        assert path.read_bytes() == before
        write(path, True)
    assert kind_of(path) is own
    if own is FileKind.RECORDS:
        assert path.read_bytes().startswith(before) == (kind is own)
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_model_that_is_cut_short_is_kept(tmp_path: Path, suffix: str) -> None:
    """The rest of it may be elsewhere."""
    path = tmp_path / f"m{suffix}"
    write_model(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ConfigError, match=r"cost model there is cut short or damaged; give anoth"):
        write_model(path)
    write_model(path, overwrite=True)
    write_model(path)


@pytest.mark.parametrize("writer", WRITERS)
def test_an_empty_file_may_be_written(tmp_path: Path, writer: str) -> None:
    write, own, name = WRITERS[writer]
    (tmp_path / name).touch()
    write(tmp_path / name, False)
    assert kind_of(tmp_path / name) is own


def test_a_page_beside_the_dataset_is_kept(tmp_path: Path) -> None:
    page = tmp_path / "x.csv.md"
    page.write_text("# My notes\n")
    with pytest.raises(ConfigError, match=r"cannot write the datasheet .*x\.csv\.md: "):
        write_dataset(tmp_path / "x.csv")
    assert page.read_text() == "# My notes\n"
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("kind", FileKind)
def test_folders_and_devices_are_never_replaced(tmp_path: Path, kind: FileKind) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="it is a folder; give another file"):
        require_replaceable(tmp_path, kind, overwrite=True)
    if kind is FileKind.RECORDS:  # they are appended
        require_replaceable(tmp_path / "pipe", kind)
    else:
        with pytest.raises(ConfigError, match="it is a device or pipe"):
            require_replaceable(tmp_path / "pipe", kind, overwrite=True)


def test_two_outputs_or_an_output_and_an_input_are_never_one_file(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b" / ".." / "a"
    (tmp_path / "b").mkdir()
    require_apart([("one", path), ("two", tmp_path / "c"), ("three", None)])
    with pytest.raises(ConfigError, match=r"two: .*a is one; give another file"):
        require_apart([("one", path), ("two", other)])
    with pytest.raises(ConfigError, match=r"one: .*a is the input; give another file"):
        require_apart([("one", path)], [("the input", other)])


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(ConfigError, match="link is a link that leads to itself; give another"):
        require_apart([("the output", link)], [("an input", tmp_path / "a")])
    with pytest.raises(ConfigError, match="leads to itself"), replacing(link):
        pytest.fail("nothing is written")
    assert link.is_symlink()


def test_a_pipe_that_a_link_of_the_system_leads_to_is_written_to(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    (tmp_path / "stdout").symlink_to(f"/proc/self/fd/{writer}")
    with replacing(tmp_path / "stdout") as partial:
        partial.write_text("text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    os.close(writer)


def test_a_link_stays_and_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with pytest.raises(RuntimeError), replacing(link) as partial:
        partial.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    with replacing(link) as partial:
        partial.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "target"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664])
@pytest.mark.parametrize("linked", [False, True])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int, linked: bool) -> None:
    """0600 became 0644."""
    path = target = tmp_path / "file"
    target.write_text("old")
    target.chmod(mode)
    if linked:
        path = tmp_path / "link"
        path.symlink_to(target)
    with replacing(path) as partial:
        partial.write_text("new")
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("new", mode)


def test_a_new_file_has_the_mode_of_new_files(tmp_path: Path) -> None:
    with replacing(tmp_path / "file") as partial:
        partial.write_text("new")
    (tmp_path / "other").write_text("new")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_in_a_folder_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error was `[Errno 2] No such file or directory`, of no file."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    says = r"[ab]\.jsonl leads nowhere: the current folder was deleted; change into"
    with pytest.raises(ConfigError, match=says):
        RunLog("a.jsonl")
    with pytest.raises(ConfigError, match=says):
        require_apart([("the page", Path("a.jsonl")), ("the log", Path("b.jsonl"))])
    assert real_path(tmp_path / "a.jsonl") == (tmp_path / "a.jsonl").resolve()


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_came_meanwhile_stays(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two commands with one new file the later one took its place without a word."""
    if not links:

        def hardlink_to(self: Path, target: Path) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
    path = tmp_path / "file"
    with replacing(path, only_new=True) as partial:
        partial.write_text("first")
    assert path.read_text() == "first"
    path.unlink()
    with pytest.raises(FileExistsError), replacing(path, only_new=True) as partial:
        partial.write_text("second")
        path.write_text("another's")
    assert path.read_text() == "another's"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
