"""The values of a feature set belong to its version.

`golden/features/SET.VERSION.npz` holds the rows of the candidates in candidates.jsonl: drawn over
all built-in workloads for two CPUs and three GPUs, and nine made by hand whose loops are annotated
in every position. Their targets are part of the file, so that the values are the same everywhere.

When values change on purpose: raise SCHEMA_VERSION in the set's names.py, then write the file of
the new version with

    python -m pytest tests/features/test_pinned_values.py --update-golden

Files that exist are never replaced. Delete one first if its version was never released.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.npyio import NpzFile

from autosched.features.lowering import features_of_steps
from autosched.features.sets import FEATURE_SETS
from autosched.state.steps import steps_from_json
from autosched.task import Task
from kit.types import Array

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "features"
ROUNDING = 4e-6  # log2 of float32 differs in the last places between processors
NEVER_VARIES = {
    "ansor-0.19": {
        # Quirks of Ansor: no multiply-adds are matched, an annotated position is always "mixed".
        *("float_mad", "int_mad"),
        *(
            f"{kind}_type.kPos{where}{what}"
            for kind in ("vec", "unroll", "parallel")
            for where in ("Inner", "Middle", "Outer")
            for what in ("Spatial", "Reduce")
        ),
        # No built-in workload has such operations, or stores to as many buffers at once.
        *("float_otherfunc", "int_mathfunc", "int_otherfunc", "select_op"),
        *("B3.acc_type.kReadWrite", "B4.acc_type.kReadWrite"),
    },
    "autosched-1": {
        *("float_otherfunc", "int_mad", "int_mathfunc", "int_otherfunc", "select_op"),
        # Reductions are neither vectorised nor run in parallel.
        *(f"vec_type.kPos{where}Reduce" for where in ("Inner", "Middle", "Outer")),
        "parallel_type.kPosMiddleReduce",
        # Slots are filled by cache lines moved: what is stored to or staged is among the first.
        *("B2.acc_type.kWrite", "B3.acc_type.kWrite", "B4.acc_type.kWrite"),
        *("B3.acc_type.kReadWrite", "B4.acc_type.kReadWrite"),
        *(f"B{k}.{what}" for k in (3, 4) for what in ("scope.shared", "scope.local")),
        *("B3.bank_conflicts", "B4.bank_conflicts"),
        *("B3.reuse_type.kSerialMultipleReadWrite", "B4.lanes.strided"),
    },
}


def pinned(name: str) -> Path:
    return GOLDEN / f"{name}.{FEATURE_SETS[name].version}.npz"


@cache
def candidates() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / "candidates.jsonl").read_text().splitlines()]


@cache
def rows_of_candidates(name: str) -> list[Array]:
    found = []
    for line in candidates():
        task = Task.from_json(line["task"])
        found.append(features_of_steps(task.dag, steps_from_json(line["steps"]), task.target, name))
    return found


def changes(
    name: str,
    columns: tuple[str, ...],
    found: Sequence[Array],
    expected: NpzFile | Mapping[str, Array],
) -> str:
    """What differs, for people: the columns with an example each."""
    if tuple(columns) != tuple(map(str, expected["columns"])):
        return "the columns or their order"
    counts = [len(rows) for rows in found]
    if counts != expected["counts"].tolist():
        return f"rows per candidate: found {counts}, expected {expected['counts'].tolist()}"
    values, pins = np.concatenate(found), expected["rows"]
    bad = np.abs(values - pins) > ROUNDING * np.maximum(1.0, np.abs(pins))
    bad |= ~np.isfinite(values)
    candidate = np.repeat(np.arange(len(counts)), counts)
    lines = []
    for k in np.flatnonzero(bad.any(axis=0)):
        row = int(np.flatnonzero(bad[:, k])[0])
        lines.append(
            f"{columns[k]}: {int(bad[:, k].sum())} of {len(bad)} rows; candidate {candidate[row]} "
            f"({candidates()[candidate[row]]['task']['workload']}) found {values[row, k]:.7g}, "
            f"expected {pins[row, k]:.7g}"
        )
    return "\n".join(lines)


@pytest.mark.parametrize("name", FEATURE_SETS)
def test_values_belong_to_their_version(name: str, update_golden: bool) -> None:
    chosen, path = FEATURE_SETS[name], pinned(name)
    found = rows_of_candidates(name)
    if not path.exists():
        assert update_golden, f"{path.name} is missing; run this test with --update-golden"
        counts = np.array([len(rows) for rows in found])
        np.savez_compressed(
            path, columns=np.array(chosen.columns), counts=counts, rows=np.concatenate(found)
        )
    with np.load(path) as expected:
        difference = changes(name, chosen.columns, found, expected)
    assert not difference, (
        f"features of {chosen.schema} changed, but not its version: raise SCHEMA_VERSION and run "
        f"this test with --update-golden, or mend the change.\n{difference}"
    )


@pytest.mark.parametrize("name", FEATURE_SETS)
def test_the_candidates_show_every_column(name: str) -> None:
    """A column that is the same everywhere would pin nothing."""
    values = np.concatenate(rows_of_candidates(name))
    columns = FEATURE_SETS[name].columns
    same = {columns[k] for k in np.flatnonzero((values == values[0]).all(axis=0))}
    assert same <= NEVER_VARIES[name]


def test_a_changed_column_is_named() -> None:
    name = "ansor-0.19"
    with np.load(pinned(name)) as file:
        expected = dict(file)
    found = [rows.copy() for rows in rows_of_candidates(name)]
    assert not changes(name, FEATURE_SETS[name].columns, found, expected)
    found[3][0, FEATURE_SETS[name].columns.index("num_loops")] += 1e-3
    text = changes(name, FEATURE_SETS[name].columns, found, expected)
    assert text.startswith("num_loops: 1 of ")
    assert "candidate 3" in text
    expected["counts"][0] += 1
    assert "rows per candidate" in changes(name, FEATURE_SETS[name].columns, found, expected)
