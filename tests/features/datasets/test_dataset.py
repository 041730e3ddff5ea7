"""Datasets: what is written comes back, failures included; splits do not leak."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from autosched.errors import ConfigError
from autosched.features.ansor.names import FEATURE_NAMES, NUM_FEATURES
from autosched.features.datasets import dataset, dataset_info
from autosched.features.datasets.dataset import FORMATS
from autosched.features.datasets.dataset_info import describe
from autosched.features.datasets.sample import ORIGIN, Sample
from autosched.features.sets import DEFAULT, Rows, feature_set
from kit.packages import broken, missing


def sample(op: str, size: int, seconds: float, rows: int = 2, failure: str = "") -> Sample:
    task = {"workload": {"op": op, "args": {"M": size}}, "key": f"{op}{size}"}
    values = np.full((rows, NUM_FEATURES), seconds, np.float32)
    block = Rows(values, ("T", "C", "D")[:rows]) if rows else None
    return Sample(
        task,
        lambda: block,
        seconds,
        failure,
        source=f"{op}.jsonl",
        record=size,
        steps=lambda: f'[["SP",{size}]]',
    )


SAMPLES = [
    sample("a", 1, 2.0),
    sample("a", 1, 1.0, rows=3),
    sample("a", 2, 4.0),
    sample("b", 1, float("nan"), rows=0, failure="lower illegal"),
    sample("b", 1, 8.0, rows=1),
    sample("c", 1, 16.0),
]


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    dataset.export(SAMPLES, str(path), None, "workload", 0)
    data = np.load(path, allow_pickle=False)
    assert data["features"].shape == (11, NUM_FEATURES)
    assert data["features"].dtype == np.float32
    assert data["row_candidate"].tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 5]
    assert tuple(data["feature_names"]) == FEATURE_NAMES
    np.testing.assert_array_equal(data["seconds"], [2, 1, 4, np.nan, 8, 16])
    np.testing.assert_allclose(data["throughput"], [0.5, 1, 1, 0, 1, 1])
    assert data["valid"].tolist() == [True, True, True, False, True, True]
    assert data["task"].tolist() == [0, 0, 1, 2, 2, 3]
    assert [json.loads(t)["workload"]["op"] for t in data["tasks"]] == ["a", "a", "b", "c"]
    assert not data["features"][7].any()


def test_candidates_without_features_are_counted(tmp_path: Path) -> None:
    """Also those that have a time: their rows would teach a model that zeros are fast."""
    path = tmp_path / "d.npz"
    unlowered = sample("b", 1, 8.0, rows=0)
    told = dataset.export(SAMPLES, path)
    assert told.endswith("/1; 1 candidate cannot be lowered and has one row of zeros")
    told = dataset.export([*SAMPLES, unlowered], path, (0.5, 0.5), "shape")
    assert told.endswith("/1; 2 candidates cannot be lowered and have one row of zeros each")
    assert "2 candidates cannot be lowered and have" in path.with_suffix(".npz.md").read_text()
    told = dataset.export(SAMPLES[:3], path)
    assert "lowered" not in told and "be lowered and" not in (tmp_path / "d.npz.md").read_text()


def test_throughput_is_relative_to_what_was_timed_alike(tmp_path: Path) -> None:
    """Another machine, or one with empty caches, is faster or slower at all candidates."""
    path = tmp_path / "d.npz"
    places = [(2.0, "here"), (1.0, "here"), (0.02, "there"), (0.01, "there"), (8.0, "flushed")]
    samples = [replace(sample("a", 1, s), timed_among=place) for s, place in places]
    dataset.export(samples, path, None, "workload", 0)
    data = np.load(path, allow_pickle=False)
    np.testing.assert_allclose(data["throughput"], [0.5, 1, 0.5, 1, 1])
    assert data["task"].tolist() == [0] * 5


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"d{suffix}"
    dataset.export(SAMPLES, path, None, "workload", 0)
    frame = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    assert len(frame) == 11
    assert list(frame.columns)[-NUM_FEATURES:] == list(FEATURE_NAMES)
    assert frame["candidate"].nunique() == 6
    assert frame.loc[frame["candidate"] == 3, "failure"].tolist() == ["lower illegal"]
    assert frame["num_loops"].tolist()[:2] == [2.0, 2.0]


def test_the_formats_hold_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    blocks = rng.standard_normal((6, 2, NUM_FEATURES)).astype(np.float32)
    rows = [Rows(block, ("T", "C")) for block in blocks]
    samples = [replace(s, rows=partial(replace, r)) for s, r in zip(SAMPLES, rows, strict=True)]
    for suffix in FORMATS:
        dataset.export(samples, tmp_path / f"d{suffix}", (0.5, 0.5), "shape", 1)
    data = np.load(tmp_path / "d.npz")
    of_row = data["row_candidate"]
    for frame in (pd.read_csv(tmp_path / "d.csv"), pd.read_parquet(tmp_path / "d.parquet")):
        features = frame[list(data["feature_names"])].to_numpy(np.float32)
        np.testing.assert_array_equal(features, data["features"])
        np.testing.assert_array_equal(frame["candidate"], of_row)
        for name in ("seconds", "task", "valid", "split"):
            np.testing.assert_array_equal(frame[name].to_numpy(), data[name][of_row])
        np.testing.assert_array_equal(
            frame["throughput"].to_numpy(np.float32), data["throughput"][of_row]
        )
        failure = frame["failure"].astype("object").fillna("")
        np.testing.assert_array_equal(failure, data["failure"][of_row])


def test_parquet_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset.export(SAMPLES, tmp_path / "d.parquet")
    missing(monkeypatch, "pyarrow")
    _refused(
        tmp_path, r"^pyarrow is not installed; a .parquet .*: pip install 'autosched\[data\]'$"
    )
    broken(monkeypatch, tmp_path / "other", "pyarrow")
    _refused(tmp_path, r"^pyarrow is installed and .*cannot open\); .*--force-reinstall pyarrow$")
    assert {path.name for path in tmp_path.iterdir()} == {"d.parquet", "d.parquet.md", "other"}


def _refused(folder: Path, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataset.export(SAMPLES, folder / "e.parquet")
    with pytest.raises(ConfigError, match=message):
        describe(folder / "d.parquet")


@pytest.mark.parametrize(("by", "groups"), [("workload", "op"), ("shape", "key")])
def test_splits_keep_groups_together(tmp_path: Path, by: str, groups: str) -> None:
    samples = [sample(op, size, 1.0, rows=1) for op in "abcdefghij" for size in (1, 2, 3)]
    path = tmp_path / "d.npz"
    dataset.export(samples, path, (0.6, 0.2, 0.2), by, 3)
    splits = np.load(path)["split"].tolist()
    of_group: dict[str, str] = {}
    for s, name in zip(samples, splits, strict=True):
        group = s.task["workload"]["op"] if groups == "op" else s.task["key"]
        assert of_group.setdefault(group, name) == name
    counts = {name: splits.count(name) for name in set(splits)}
    assert counts == {"train": 18, "valid": 6, "test": 6}


def test_a_program_is_in_one_split_however_often_it_was_measured(tmp_path: Path) -> None:
    """As by a second run of one seed, or a file that is given twice."""
    programs = [sample("a", 1, 1.0, rows=1) for _ in range(40)]
    programs = [replace(s, steps=partial(str, k % 20)) for k, s in enumerate(programs)]
    dataset.export(programs, tmp_path / "d.npz", (0.5, 0.5), "random", 0)
    splits = np.load(tmp_path / "d.npz")["split"].tolist()
    assert splits[:20] == splits[20:]
    dataset.export(programs[:20], tmp_path / "once.npz", (0.5, 0.5), "random", 0)
    assert np.load(tmp_path / "once.npz")["split"].tolist() == splits[:20]
    assert splits[:20].count("train") == 10


def test_inputs_that_may_be_stored_otherwise_are_no_other_shape(tmp_path: Path) -> None:
    expression = {"expr": "C[i, j] = sum(k, A[i, k] * B[k, j])"}
    samples = [
        replace(s, task={"workload": {**expression, "shapes": {"A": [size, 8]}, **free}})
        for size in range(8)
        for free in ({}, {"layout_free": ["B"]})
        for s in SAMPLES[:1]
    ]
    dataset.export(samples, tmp_path / "d.npz", (0.5, 0.5), "shape", 0)
    splits = np.load(tmp_path / "d.npz")["split"].tolist()
    assert splits[::2] == splits[1::2] and len(set(splits)) == 2


def test_the_datasheet_is_replaced_in_one_go(tmp_path: Path) -> None:
    dataset.export(SAMPLES[:1], tmp_path / "d.npz")
    page = tmp_path / "d.npz.md"
    (tmp_path / "before.md").hardlink_to(page)
    before = page.read_text()
    dataset.export(SAMPLES, tmp_path / "d.npz")
    assert (tmp_path / "before.md").read_text() == before != page.read_text()


def test_a_split_that_was_not_asked_for_is_not_missed(tmp_path: Path) -> None:
    said = dataset.export(SAMPLES[:1], tmp_path / "d.npz", (1.0, 0.0, 0.0))
    assert "too few" not in said
    said = dataset.export(SAMPLES[:1], tmp_path / "d.npz", (0.5, 0.0, 0.5))
    assert said.endswith("too few to split by workload: nothing in test")


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ending in \.npz, \.csv, \.parquet"):
        dataset.export(SAMPLES, tmp_path / "d.pickle", None, "workload", 0)
    with pytest.raises(ConfigError, match="no records"):
        dataset.export([], tmp_path / "d.npz", None, "workload", 0)
    with pytest.raises(ConfigError, match="does not exist"):
        describe(tmp_path / "none.npz")
    (tmp_path / "bad.npz").write_bytes(b"not a dataset")
    with pytest.raises(ConfigError, match="is not an autosched dataset"):
        describe(tmp_path / "bad.npz")
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(ConfigError, match="it names no feature set"):
        describe(tmp_path / "other.parquet")
    (tmp_path / "other.csv").write_text("a\n1\n")
    with pytest.raises(ConfigError, match="its columns do not begin with candidate, task"):
        describe(tmp_path / "other.csv")
    dataset.export(SAMPLES, tmp_path / "d.csv")
    with (tmp_path / "d.csv").open("a") as file:
        file.write("7,1\n")
    with pytest.raises(ConfigError, match="row 12 has 2 columns"):
        describe(tmp_path / "d.csv")
    dataset.export(SAMPLES, tmp_path / "e.csv")
    whole = (tmp_path / "e.csv").read_bytes()
    (tmp_path / "e.csv").write_bytes(whole[: whole.index(b"\n") + 2000])
    with pytest.raises(ConfigError, match=r"row \d+ has \d+ columns, expected \d+: .* cut short"):
        describe(tmp_path / "e.csv")


def test_a_line_too_long_to_be_a_row_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset.export(SAMPLES, tmp_path / "d.csv")
    with (tmp_path / "d.csv").open("a") as file:
        file.write("7," * 40_000)
    monkeypatch.setattr(dataset_info, "_MOST_LETTERS", 1 << 16)
    with pytest.raises(ConfigError, match="line 13 has 65,536 letters or more"):
        describe(tmp_path / "d.csv")


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_cannot_be_read_twice_is_refused(tmp_path: Path, suffix: str) -> None:
    """A pipe, which made a dataset without rows."""
    with pytest.raises(ConfigError, match=r"expected the 6 candidates .* found 0: .* a pipe"):
        dataset.export(iter(SAMPLES), tmp_path / f"d{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_info(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"d{suffix}"
    dataset.export(SAMPLES, path, None, "workload", 0)
    text = describe(path)
    assert "11 rows, 6 candidates, 1 failed, 4 tasks" in text
    assert "splits: train 6" in text
    assert '3 candidates of {"args": {"M": 1}, "op": "a"}' not in text
    assert '2 candidates of {"args": {"M": 1}, "op": "a"}' in text
    assert "failures: lower illegal 1" in text
    assert "max): 0.500, 1.000, 1.000, 1.000, 1.000" in text
    assert feature_set(DEFAULT).schema in text


def test_every_row_says_where_it_comes_from(tmp_path: Path) -> None:
    """Buffer, record file, number of the record and steps: the same in all formats."""
    for suffix in FORMATS:
        dataset.export(SAMPLES, tmp_path / f"d{suffix}", None, "workload", 0)
    buffers = ["T", "C", "T", "C", "D", "T", "C", "", "T", "T", "C"]
    sources = ["a.jsonl"] * 7 + ["b.jsonl"] * 2 + ["c.jsonl"] * 2
    steps = ['[["SP",1]]'] * 5 + ['[["SP",2]]'] * 2 + ['[["SP",1]]'] * 4
    for frame in (pd.read_csv(tmp_path / "d.csv"), pd.read_parquet(tmp_path / "d.parquet")):
        assert frame["buffer"].astype("object").fillna("").tolist() == buffers
        assert frame["source"].tolist() == sources
        assert frame["record"].tolist() == [int(text[7]) for text in steps]
        assert frame["steps"].tolist() == steps
    data = np.load(tmp_path / "d.npz", allow_pickle=False)
    of_row = data["row_candidate"]
    assert data["buffers"][data["row_buffer"]].tolist() == buffers
    assert data["sources"][data["source"]][of_row].tolist() == sources
    assert data["record"].tolist() == [1, 1, 2, 1, 1, 1]
    lines = data["steps.jsonl"].decode().splitlines()
    assert [lines[k] for k in of_row] == steps


def test_a_table_without_origins_is_still_described(tmp_path: Path) -> None:
    """Those that were written before rows told where they come from."""
    path = tmp_path / "d.csv"
    dataset.export(SAMPLES, path)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame.drop(columns=list(ORIGIN)).to_csv(tmp_path / "old.csv", index=False)
    assert describe(tmp_path / "old.csv").partition(":")[2] == describe(path).partition(":")[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shares": (0.5, 0.6)}, r"shares: expected two or three .* add up to 1, .* \(0.5, 0.6\)"),
        ({"shares": [1]}, "shares: expected two or three numbers"),
        ({"shares": 0.5}, "shares: expected two or three numbers"),
        ({"shares": "11"}, "shares: expected two or three numbers"),
        ({"shares": (float("nan"), 1.0)}, "shares: expected a finite number"),
        ({"by": "operator", "shares": (0.5, 0.5)}, "by: expected one of workload, shape, random"),
        ({"seed": -1, "shares": (0.5, 0.5)}, "seed: expected at least 0, found -1"),
    ],
)
def test_a_split_that_makes_no_sense_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        dataset.export(SAMPLES, tmp_path / "d.csv", **options)
    assert list(tmp_path.iterdir()) == []
