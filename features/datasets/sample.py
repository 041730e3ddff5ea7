"""Samples, and the index of a dataset: what is known of its candidates before any feature."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import ConfigError
from autosched.features.sets import Rows

LEADING = ("candidate", "task", "workload", "split", "seconds", "throughput", "valid", "failure")
"""The first columns of a flat table."""
ORIGIN = ("source", "record", "steps", "buffer")
"""The columns that follow them and say where a row comes from; the features come last."""
SPLIT_BY = ("workload", "shape", "random")
SPLIT_NAMES = ("train", "valid", "test")


@dataclass(frozen=True, slots=True)
class Sample:
    """One candidate: its task entry, its feature rows (computed when called for), and its time.

    `rows` returns None for a candidate that cannot be lowered. `seconds` is nan for a failed
    candidate, whose `failure` says "stage kind". `environment` is the hash of the environment it
    was measured in. The candidate is record number `record` (from 0) of the file `source`; `steps`
    gives its steps as JSON text. `timed_among` names the machine and its way of timing: only times
    with the same name are compared.
    """

    task: dict[str, Any]
    rows: Callable[[], Rows | None]
    seconds: float
    failure: str = ""
    environment: str = ""
    source: str = ""
    record: int = -1
    steps: Callable[[], str] = str
    timed_among: str = ""


@dataclass(slots=True)
class Index:
    """What is known of every candidate before any feature: arrays with one value per candidate.

    `task` indexes `tasks` (JSON texts), `failure` indexes `failures` (names), and `split` indexes
    SPLIT_NAMES. `environments` has the number of candidates of each environment.
    """

    seconds: npt.NDArray[np.float64]
    throughput: npt.NDArray[np.float32]
    task: npt.NDArray[np.int32]
    failure: npt.NDArray[np.int32]
    split: npt.NDArray[np.int8]
    tasks: list[str]
    failures: list[str]
    environments: dict[str, int] = field(default_factory=dict)

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """Whether each candidate has a time."""
        return np.isfinite(self.seconds)

    def workload(self, task: int) -> str:
        """The workload of `tasks[task]` as JSON text."""
        return json.dumps(json.loads(self.tasks[task])["workload"], sort_keys=True)


def index_of(
    samples: Iterable[Sample], shares: Sequence[float] | None, by: str, seed: int
) -> Index:
    """Build the index of the samples without computing their rows.

    The throughput of a candidate is relative to the fastest one of its task that was timed in the
    same way on the same machine. Raises ConfigError when there are no samples.
    """
    seconds, owners, reasons, places = array("d"), array("i"), array("i"), array("i")
    programs = array("q")
    tasks: dict[str, int] = {}
    failures: dict[str, int] = {"": 0}
    environments: dict[str, int] = {}
    groups: dict[tuple[int, str], int] = {}
    for sample in samples:
        seconds.append(sample.seconds)
        text = json.dumps(sample.task, sort_keys=True)
        owners.append(tasks.setdefault(text, len(tasks)))
        reasons.append(failures.setdefault(sample.failure, len(failures)))
        places.append(groups.setdefault((owners[-1], sample.timed_among), len(groups)))
        if shares is not None and by == "random":
            programs.append(hash((_group(text, "shape"), sample.steps())))
        environments[sample.environment] = environments.get(sample.environment, 0) + 1
    if not seconds:
        raise ConfigError("there is nothing to export: the files hold no records")
    times, task = np.array(seconds), np.array(owners, np.int32)
    best, place = np.full(len(groups), np.inf), np.array(places, np.int32)
    np.fmin.at(best, place, times)
    throughput = np.nan_to_num(best[place] / times, nan=0.0, posinf=0.0).astype(np.float32)
    names = list(tasks)
    split = split_of(task, names, shares, by, seed, np.array(programs, np.int64))
    reason = np.array(reasons, np.int32)
    return Index(times, throughput, task, reason, split, names, list(failures), environments)


def are_shares(shares: Sequence[float]) -> bool:
    """Whether they are the shares of two or three splits: none negative, together 1."""
    fit = all(share >= 0 for share in shares) and abs(sum(shares) - 1) <= 1e-6  # false for NaN
    return fit and len(shares) in (2, 3)


def split_of(
    task: npt.NDArray[np.int32],
    tasks: Sequence[str],
    shares: Sequence[float] | None,
    by: str,
    seed: int,
    programs: npt.NDArray[np.int64],
) -> npt.NDArray[np.int8]:
    """The split of each candidate, an index into SPLIT_NAMES; two shares are train and test.

    By workload (operator) or shape (operator and arguments), all candidates of one group fall into
    the same split, so that nothing leaks from one split into another. At random, candidates of one
    task may be in several splits; but a program that was measured several times, with the same
    number in `programs` each time, is in one split.
    """
    if shares is None:
        return np.zeros(len(task), np.int8)
    ends = np.cumsum(shares)
    target = np.array([0, 1, 2] if len(shares) == 3 else [0, 2], np.int8)
    rng = np.random.default_rng(seed)
    if by == "random":
        of_candidate = _in_order(programs)
        groups = np.arange(of_candidate.max() + 1)
    else:
        texts = [_group(text, by) for text in tasks]
        order = {text: k for k, text in enumerate(sorted(set(texts)))}
        groups = np.arange(len(order))
        of_candidate = np.array([order[text] for text in texts])[task]
    rank = np.empty(len(groups), np.int64)
    rank[rng.permutation(len(groups))] = groups
    at = np.searchsorted(ends, (rank + 0.5) / len(groups))
    split: npt.NDArray[np.int8] = target[np.minimum(at, len(target) - 1)][of_candidate]
    return split


def _in_order(values: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """The number of each value; distinct values are numbered from 0 in order of appearance."""
    _, first, group = np.unique(values, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.intp)
    number[np.argsort(first)] = np.arange(len(first))
    found: npt.NDArray[np.intp] = number[group]
    return found


def _group(task: str, by: str) -> str:
    workload = json.loads(task)["workload"]
    if by == "workload":
        for key in ("op", "expr", "python"):
            if key in workload:
                return f"{key} {workload[key]}"
    workload.pop("layout_free", None)
    return json.dumps(workload, sort_keys=True)
