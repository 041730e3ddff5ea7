"""What is known of the candidates of a dataset before any feature: samples and their index."""

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
"""The columns of a flat table that come before the features."""
ORIGIN = ("source", "record", "steps", "buffer")
"""Those that follow them and say where a row comes from."""
SPLIT_BY = ("workload", "shape", "random")
SPLIT_NAMES = ("train", "valid", "test")


@dataclass(frozen=True, slots=True)
class Sample:
    """One candidate: its task entry, feature rows (worked out when called for), and time.

    `rows` returns None for what cannot be lowered. `seconds` is nan for a failure, whose
    `failure` says "stage kind". `environment` is the hash of where it was measured. The candidate
    is record number `record` (from 0) of the file `source`; `steps` gives its steps as JSON text.
    `timed_among` names the machine and its way of timing: only times of the same are compared.
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
    """What is known of every candidate before any feature: arrays with a value per candidate.

    `task` indexes `tasks` (JSON texts), `failure` and `split` index their name lists.
    """

    seconds: npt.NDArray[np.float64]
    throughput: npt.NDArray[np.float32]
    task: npt.NDArray[np.int32]
    failure: npt.NDArray[np.int32]
    split: npt.NDArray[np.int8]
    tasks: list[str]
    failures: list[str]
    splits: list[str]
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
    """Go through the samples without their rows.

    Throughput is relative to the task's fastest among those that were timed in the same way on the
    same machine. Raises ConfigError when there are none.
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
    splits = list(SPLIT_NAMES)
    return Index(
        times, throughput, task, reason, split, names, list(failures), splits, environments
    )


def split_of(
    task: npt.NDArray[np.int32],
    tasks: Sequence[str],
    shares: Sequence[float] | None,
    by: str,
    seed: int,
    programs: npt.NDArray[np.int64],
) -> npt.NDArray[np.int8]:
    """The split of each candidate, an index into SPLIT_NAMES; two shares are train and test.

    By workload or shape, all of one workload (operator) or shape (operator and arguments) fall
    into the same split, so that nothing leaks from one into another. At random, candidates of
    one task do get into several, but a program that was measured several times, whose number in
    `programs` is the same each time, into one.
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
    """The number of each value, which are counted from 0 in the order of their first places."""
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
