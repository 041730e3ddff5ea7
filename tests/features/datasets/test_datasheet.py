"""The page beside a dataset says what, how, where, and what every column means."""

from pathlib import Path

import numpy as np

from autosched.features.ansor.names import FEATURE_NAMES, NUM_FEATURES
from autosched.features.datasets import dataset
from autosched.features.datasets.sample import Sample
from autosched.features.sets import Rows

TASK = {"workload": {"op": "matmul", "args": {"M": 4}}, "target": {"kind": "cpu"}, "key": "k"}


def test_the_sheet(tmp_path: Path) -> None:
    block = Rows(np.ones((2, NUM_FEATURES), np.float32), ("T", "C"))
    samples = [
        Sample(TASK, lambda: block, 0.5, environment="abc"),
        Sample(TASK, lambda: None, float("nan"), "lower illegal", "abc"),
        Sample(TASK, lambda: block, 0.25),
    ]
    environments = {"abc": {"cpu": "Fast CPU", "cores": 8, "packages": {"numpy": "2.0"}}}
    path = tmp_path / "d.csv"
    dataset.export(samples, path, environments=environments, sources=["log.jsonl"])
    text = (tmp_path / "d.csv.md").read_text()
    assert "5 rows of 3 candidates (1 failed) of 1 task." in text
    assert "1 candidate cannot be lowered and has one row of zeros.\n" in text
    assert "Made from: `log.jsonl`." in text
    assert '| 0 | 3 | 1 | 0.25 | `{"args": {"M": 4}, "op": "matmul"}` | cpu |' in text
    assert "- 2 candidates: Fast CPU, 8 cores" in text
    assert "- 1 candidate: the records do not say where" in text
    assert "`ansor-0.19/1`" in text
    for name in FEATURE_NAMES:
        assert f"| `{name}` |" in text


def test_tasks_of_one_workload_are_told_apart(tmp_path: Path) -> None:
    lowered = {**TASK, "lowering": {"disabled_pass": ["UnrollLoop"]}, "key": "l"}
    samples = [Sample(task, lambda: None, 0.5) for task in (TASK, lowered)]
    dataset.export(samples, tmp_path / "d.csv")
    text = (tmp_path / "d.csv.md").read_text()
    workload = '{"args": {"M": 4}, "op": "matmul"}'
    assert f"| 0 | 1 | 0 | 0.5 | `{workload}` | cpu |" in text
    asked = '{"lowering": {"disabled_pass": ["UnrollLoop"]}}'
    assert f"| 1 | 1 | 0 | 0.5 | `{workload}, {asked}` | cpu |" in text


def test_an_expression_does_not_break_the_table(tmp_path: Path) -> None:
    task = {"workload": {"expr": "C[i] = A[i] | B[i]", "shapes": {"A": [4]}}, "key": "k"}
    dataset.export([Sample(task, lambda: None, 0.5)], tmp_path / "d.csv")
    (row,) = (x for x in (tmp_path / "d.csv.md").read_text().splitlines() if x.startswith("| 0 |"))
    assert row.replace(r"\|", "").count("|") == 7
