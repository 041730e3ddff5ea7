"""The datasheet of a dataset: contents, how and where it was measured, meaning of columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autosched.features.datasets.sample import SPLIT_NAMES, Index
from autosched.features.sets import FeatureSet
from autosched.words import count

_MEASURED = """\
`seconds` is the time of one call of the compiled kernel: the lower quartile of the repeats in its
record (each the mean of many calls), nan for a candidate that failed; `failure` then says at which
stage and how. `throughput` is the least time among the candidates of the same task in this file
that were timed in the same way on the same machine, divided by the candidate's own: 1 for the
fastest, 0 for a failure. Failed candidates are included; the second record of a candidate that was
raced at the end of a run is not, nor is a time that no kernel can have. A candidate that cannot be
lowered has one row of zeros.
"""

_ASKED = ("layout_rewrite", "inputs", "lowering")
"""Keys of a task entry that distinguish tasks of one workload, besides the target; no feature holds
them."""

_LEADING = {
    "candidate": "index of the candidate, in input order; its rows are consecutive",
    "task": "index of the task: workload, target and hardware limits",
    "workload": "operator and arguments, as JSON",
    "split": "train, valid or test",
    "seconds": "time of one call in seconds; nan when failed",
    "throughput": "relative to the fastest of the same task on the same machine, 0 to 1",
    "valid": "whether a time was measured",
    "failure": "stage and kind of the failure; empty when valid",
    "source": "record file of the candidate",
    "record": "number of its record in that file, from 0, as `autosched show --index` takes it",
    "steps": "its transform steps, as JSON",
    "buffer": "stored buffer that the row is about; empty for a candidate that cannot be lowered",
}


def datasheet(
    name: str,
    index: Index,
    rows: int,
    features: FeatureSet,
    environments: Mapping[str, Mapping[str, Any]],
    sources: Sequence[str],
    split_by: str | None,
    unlowered: int,
) -> str:
    """The datasheet as Markdown; `unlowered` is the number of candidates without features."""
    failed = int((~index.valid).sum())
    told = without_features(unlowered)
    lines = [
        f"# {name}",
        "",
        f"{count(rows, 'row')} of {count(len(index.task), 'candidate')} ({failed} failed) of "
        f"{count(len(index.tasks), 'task')}. A row describes one stored buffer of one candidate "
        "schedule; a candidate has as many rows as it stores buffers. Features: "
        f"`{features.schema}`, {len(features.columns)} columns, log-scaled as log2(x + 1) except "
        "one-hots and shares.",
        *(["", f"{told}."] if told else []),
    ]
    if sources:
        lines += ["", f"Made from: {', '.join(f'`{source}`' for source in sources)}."]
    lines += ["", "## Tasks", "", "| task | candidates | failed | best [s] | workload | target |"]
    lines += ["|---|---|---|---|---|---|", *_tasks(index)]
    lines += ["", "## Splits", "", _splits(index, split_by)]
    lines += ["", "## How it was measured", "", _MEASURED.rstrip(), "", "## Where", ""]
    lines += _where(index, environments)
    lines += ["", "## Columns", "", "| column | group | meaning |", "|---|---|---|"]
    if not name.endswith(".npz"):
        lines += [f"| `{column}` | | {text} |" for column, text in _LEADING.items()]
    for group, columns in features.groups.items():
        lines += [f"| `{column}` | {group} | {features.meaning(column)} |" for column in columns]
    if name.endswith(".npz"):
        lines += ["", *_arrays()]
    return "\n".join(lines) + "\n"


def without_features(unlowered: int) -> str:
    """`2 candidates cannot be lowered and have one row of zeros each`; empty for none."""
    if not unlowered:
        return ""
    verb, each = ("has", "") if unlowered == 1 else ("have", " each")
    return f"{count(unlowered, 'candidate')} cannot be lowered and {verb} one row of zeros{each}"


def _tasks(index: Index) -> list[str]:
    lines = []
    for k, text in enumerate(index.tasks):
        mine = index.task == k
        times = index.seconds[mine]
        best = f"{np.nanmin(times):.4g}" if np.isfinite(times).any() else "none"
        failed = int((~np.isfinite(times)).sum())
        entry = json.loads(text)
        target = entry.get("target", {})
        kind = target.get("kind", "") if isinstance(target, Mapping) else target
        asked = {key: entry[key] for key in _ASKED if key in entry}
        texts = [index.workload(k), *([json.dumps(asked, sort_keys=True)] if asked else [])]
        workload = ", ".join(texts).replace("|", r"\|")  # a bar ends a cell, inside code as well
        lines.append(f"| {k} | {int(mine.sum())} | {failed} | {best} | `{workload}` | {kind} |")
    return lines


def _splits(index: Index, by: str | None) -> str:
    if by is None:
        return "None were asked for: every candidate is in `train`."
    counts = np.bincount(index.split, minlength=len(SPLIT_NAMES))
    text = ", ".join(f"{name} {n}" for name, n in zip(SPLIT_NAMES, counts, strict=True))
    if by == "random":
        rule = "At random: candidates of one task are in several splits."
    else:
        rule = f"By {by}: no {by} is in two splits."
    return f"{rule} Candidates: {text}."


def _where(index: Index, environments: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = []
    for key, number in index.environments.items():
        those = count(number, "candidate")
        known = environments.get(key)
        if known is None:
            lines.append(f"- {those}: the records do not say where")
            continue
        listed, memory = known.get("packages"), known.get("memory_bytes")
        packages = ", ".join(
            f"{k} {v}" for k, v in (listed.items() if isinstance(listed, Mapping) else ())
        )
        size = f"{memory / 2**30:.0f}" if type(memory) is int and 0 <= memory < 2**60 else "?"
        lines.append(
            f"- {those}: {known.get('cpu', 'unknown CPU')}, {known.get('cores', '?')} "
            f"cores, {size} GiB, {known.get('system', '')}, "
            f"Python {known.get('python', '')}; {packages} (`{key}`)"
        )
    return lines


def _arrays() -> list[str]:
    return [
        "Arrays of the archive: `features` float32 (rows, columns), `row_candidate` int32 (rows), "
        "`feature_names`; per candidate `seconds`, `throughput`, `task`, `valid`, `failure`, "
        "`split`, `source` (a number in `sources`, the record files), `record` (its number in that "
        "file, from 0); per row `row_buffer` (a number in `buffers`, the names of what is stored); "
        "`tasks` (JSON texts) and `schema`. `steps.jsonl` is text: a line with the transform steps "
        'of each candidate, `archive["steps.jsonl"].decode().splitlines()`.',
    ]
