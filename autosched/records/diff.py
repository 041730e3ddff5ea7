"""Compare two record files about the same tasks, such as those of two machines or versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from autosched import arguments
from autosched.arguments import PathLike
from autosched.measure.records import target_of
from autosched.measure.workload_keys import WorkloadKeys
from autosched.records.standings import (
    Group,
    TaskEntry,
    number_of,
    read_standings,
)
from autosched.records.top import Found, group_json, places_of
from autosched.user_warning import Tell, warn
from autosched.words import count, seconds_text

_ABOUT = ("cpu", "cores", "memory_bytes", "system", "machine", "python")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the files in a comparison: a task's records of one machine, and the best of them."""

    group: Group
    best: Found | None

    def to_json(self) -> dict[str, Any]:
        """The JSON object that --json prints."""
        best = None if self.best is None else self.best.to_json()
        return {**group_json(self.group), "best": best}


@dataclass(frozen=True, slots=True, repr=False)
class Difference:
    """The comparison of two files on one task.

    `ratio` is the time of b's best over that of a's, None where one has none. `apart` says whether
    the 95% intervals of the two do not meet. `common` candidates have a time in both: `median` is
    the median of b's time over a's, `agreement` how alike the two order them (Spearman's rank
    correlation, None for fewer than three). `best_elsewhere` are the times of a's best in b and of
    b's best in a, None where not measured there. `changed` has the entries of the environments that
    differ, and `target` those of the targets, each as a pair (in a, in b).
    """

    a: Side
    b: Side
    ratio: float | None
    apart: bool
    common: int
    median: float | None
    agreement: float | None
    best_elsewhere: tuple[float | None, float | None]
    changed: Mapping[str, tuple[str, str]]
    target: Mapping[str, tuple[str, str]]

    def __repr__(self) -> str:
        a, b = (
            "none valid" if best is None else seconds_text(best.seconds)
            for best in (self.a.best, self.b.best)
        )
        found = f"{a} in a, {b} in b"
        if self.ratio is not None:
            meet = "do not meet" if self.apart else "meet"
            found += f", ratio {self.ratio:.2f} (the intervals {meet})"
        return f"<{self.name}: {found}, {count(self.common, 'candidate')} in both>"

    @property
    def name(self) -> str:
        """The name of the task, for people."""
        return self.a.group.entry.name

    @property
    def same_best(self) -> bool:
        """Whether one candidate is the best of both."""
        a, b = self.a.best, self.b.best
        return a is not None and b is not None and a.place.candidate == b.place.candidate

    def to_json(self) -> dict[str, Any]:
        """The JSON object that --json prints; docs/semantics/records.md explains the keys."""
        return {
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "ratio": self.ratio,
            "apart": self.apart,
            "common": self.common,
            "median_ratio": self.median,
            "rank_correlation": self.agreement,
            "best_of_a_in_b": self.best_elsewhere[0],
            "best_of_b_in_a": self.best_elsewhere[1],
            "changed": {name: list(pair) for name, pair in self.changed.items()},
            "target": {name: list(pair) for name, pair in self.target.items()},
        }


@dataclass(frozen=True, slots=True)
class Differences:
    """The comparisons of the tasks in both files, and the tasks in one of them only."""

    tasks: list[Difference] = field(default_factory=list)
    only_a: list[TaskEntry] = field(default_factory=list)
    only_b: list[TaskEntry] = field(default_factory=list)


def diff(
    a: PathLike,
    b: PathLike,
    *,
    keys: WorkloadKeys | None = None,
    warning: Tell = warn,
) -> Differences:
    """Compare two record files on the tasks that both have.

        for found in autosched.records.diff("laptop.jsonl", "server.jsonl").tasks:
            print(found.name, found.ratio)

    Tasks with equal keys are the same. The other ones are matched by their workload and kind of
    target, such as those of machines with different numbers of cores. If a file has records of
    several machines, those of this machine are compared, otherwise those of the machine with the
    most valid ones. If it has times with warm and with empty caches, the warm ones are compared, or
    those that both files have. Memory holds the best and a number for each candidate. Raises
    ConfigError when a file cannot be read or is empty.
    """
    first, second = arguments.file_path("a", a), arguments.file_path("b", b)
    left = read_standings([first], 1, warning, keys, times=True).tasks
    right = read_standings([second], 1, warning, keys, times=True).tasks
    found = Differences()
    matched = _matched(left, right)
    for key, task in left.items():
        if key in matched:
            found.tasks.append(_difference(*_groups(task, right[matched[key]])))
        else:
            found.only_a.append(task)
    found.only_b.extend(t for key, t in right.items() if key not in matched.values())
    return found


def _matched(left: Mapping[str, TaskEntry], right: Mapping[str, TaskEntry]) -> dict[str, str]:
    """The key in `right` for each key in `left` whose task has a match there."""
    found = {key: key for key in left if key in right}
    others = _by_computation(right, found)
    for computation, keys in _by_computation(left, found).items():
        alike = others.get(computation, ())
        if len(keys) == len(alike) == 1:
            found[keys[0]] = alike[0]
    return found


def _by_computation(
    tasks: Mapping[str, TaskEntry], matched: Mapping[str, str]
) -> dict[str, list[str]]:
    """The keys of tasks that are not matched, by all that defines a task except its machine."""
    found: dict[str, list[str]] = {}
    for key, task in tasks.items():
        if key not in matched:
            parts = ("workload", "layout_rewrite", "inputs", "lowering")
            same = [task.entry.get(name) for name in parts]
            target = [target_of(task.entry).get(name) for name in ("kind", "tf32", "chosen_cpu")]
            computation = json.dumps([*same, *target], sort_keys=True)
            found.setdefault(computation, []).append(key)
    return found


def _groups(a: TaskEntry, b: TaskEntry) -> tuple[Group, Group]:
    """The groups to compare: if possible of times taken in one way, and with warm caches."""
    one, other = _of_one_machine(a), _of_one_machine(b)
    both = {group.cache_flush for group in one} & {group.cache_flush for group in other}
    if both:
        one, other = ([g for g in side if g.cache_flush == min(both)] for side in (one, other))
    return one[0], other[0]


def _of_one_machine(task: TaskEntry) -> list[Group]:
    """The groups of this machine, or of that with the most valid records; warm caches first."""
    groups = sorted(task.ordered(), key=lambda g: (not g.valid, not g.machine.here, -g.valid))
    mine = [g for g in task.ordered() if g.machine == groups[0].machine]
    return [g for g in mine if g.valid] or mine


def _difference(a: Group, b: Group) -> Difference:
    one, other = (next(iter(places_of(group, 1)), None) for group in (a, b))
    common = [(time, b.times[number]) for number, time in a.times.items() if number in b.times]
    apart = False
    ratio = None
    if one is not None and other is not None:
        ratio = other.place.seconds / one.place.seconds
        (low, high), (least, most) = one.interval, other.interval
        apart = high < least or most < low
    return Difference(
        Side(a, one),
        Side(b, other),
        ratio,
        apart,
        len(common),
        median(y / x for x, y in common) if common else None,
        _rank_correlation(common) if len(common) > 2 else None,
        (_time_of(one, b), _time_of(other, a)),
        _changed(a.environment, b.environment),
        _changed_target(a, b),
    )


def _time_of(best: Found | None, group: Group) -> float | None:
    return None if best is None else group.times.get(number_of(best.place.record))


def _rank_correlation(pairs: list[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation; None where all values of one side are equal."""
    ranks = [_ranks(np.array(column)) for column in zip(*pairs, strict=True)]
    if any(np.ptp(each) == 0 for each in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    """The rank of each value; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def _changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The entries that differ between two environments; those that one lacks are left out."""
    flat = [{**{name: e.get(name) for name in _ABOUT}, **_packages(e)} for e in (a, b)]
    return {
        name: (str(flat[0][name]), str(flat[1][name]))
        for name in flat[0]
        if flat[0][name] is not None
        and flat[1].get(name) is not None
        and flat[0][name] != flat[1][name]
    }


def _packages(environment: Mapping[str, Any]) -> dict[str, Any]:
    packages = environment.get("packages")
    return dict(packages) if isinstance(packages, Mapping) else {}


def _changed_target(a: Group, b: Group) -> dict[str, tuple[str, str]]:
    one, other = target_of(a.entry.entry), target_of(b.entry.entry)
    return {
        name: (str(one[name]), str(other[name]))
        for name in ("threads", "vector_bytes", "arch")
        if name in one and name in other and one[name] != other[name]
    }
