"""The summary of one task for `autosched records info`, gathered record by record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from autosched.errors import ConfigError
from autosched.measure.glance import Glance
from autosched.measure.plausible import least_of
from autosched.measure.records import Record
from autosched.measure.standing import is_race, takes_over
from autosched.session.this_cpu import cpu_name, machine_of
from autosched.session.this_gpu import is_of_this_machine
from autosched.task import Task

_NOWHERE: Mapping[str, Any] = {}
_Times = tuple[int, float]  # (bytes of emptied caches, seconds), in order of preference
_Machine = tuple[bool, object]  # (whether it is this machine, what tells other machines apart)


class Summary:
    """Counts records of one task and keeps the best ones, of this machine and of all others."""

    def __init__(self, task: dict[str, Any], usable: Callable[[Record], bool]) -> None:
        """`usable` as for `best_of`."""
        self._usable = usable
        self._task = task
        self._records = 0
        self._valid = 0
        self._impossible = 0
        self._least = least_of(task)
        self._failures: Counter[str] = Counter()
        self._fastest: dict[_Machine, Record] = {}
        self._best: dict[_Machine, tuple[_Times, dict[str, Any]]] = {}
        self._machines: dict[tuple[int, int], tuple[_Machine, Any]] = {}

    def add(
        self, number: int, found: Record | Glance, environments: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Add record `number` of the file; `environments` are those read so far."""
        if not isinstance(found, Glance):
            self._add(number, found, environments)
        elif self._is_slower(found, environments):
            self._records += 1
            self._valid += 1
        else:
            self._add(number, found.whole(), environments)

    def _is_slower(self, found: Glance, environments: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether the record is only counted: one measured on the same CPU is at least as fast."""
        best = self._fastest.get(self._machine(found, environments))
        if best is None or best.result.cache_flush != found.cache_flush:
            return False
        return found.least_cost >= best.result.cost

    def _machine(
        self, found: Record | Glance, environments: Mapping[str, Mapping[str, Any]]
    ) -> _Machine:
        """The machine of a record; computed once for each task and environment."""
        environment = environments.get(found.environment, _NOWHERE)
        key = id(found.task), id(environment)
        known = self._machines.get(key)
        if known is None:
            record = found.whole() if isinstance(found, Glance) else found
            machine = _machine(record, environments)
            known = self._machines[key] = machine, (found.task, environment)  # so ids stay taken
        return known[0]

    def _add(
        self, number: int, record: Record, environments: Mapping[str, Mapping[str, Any]]
    ) -> None:
        result = record.result
        again = is_race(record)
        self._records += not again
        if result.failure is not None:
            self._failures[f"{result.failure.stage} {result.failure.kind}"] += 1
        if not result.valid:
            return
        self._valid += not again
        if result.cost < self._least:
            self._impossible += 1
            return
        machine = self._machine(record, environments)
        times = (result.cache_flush, result.cost)
        before = self._fastest.get(machine)
        if before is not None and before.result.cache_flush != result.cache_flush:
            if result.cache_flush > before.result.cache_flush:
                return
            before = None
        if takes_over(record, before) and self._usable(record):
            self._fastest[machine] = record
            entry = {
                "index": number,
                "seconds": result.cost,
                "cpu": cpu_name(record, environments),
                "here": machine[0],
                "cache_flush": result.cache_flush,
                "checked": result.checked,
                "largest_error": result.accuracy,
                "time": record.time or None,
            }
            self._best[machine] = (times, entry)

    def to_json(self) -> dict[str, Any]:
        """The object for --json; docs/semantics/records.md explains the keys."""
        entry: dict[str, Any] = {
            "key": self._task["key"],
            "workload": self._task.get("workload"),
            "name": None,
        }
        try:
            task = Task.from_json(self._task, to_run=False)
            entry |= {"name": task.name, "target": task.target.kind, "problem": None}
            operations = task.dag.flop_count
        except ConfigError as error:
            entry |= {"target": None, "problem": str(error)}
            operations = 0.0
        for _, time in self._best.values():
            time["flops_per_second"] = operations / time["seconds"] if operations > 0 else None
        other = self._best_of(here=False)
        best = self._best_of(here=True) or other
        # Times measured with differently emptied caches are not compared.
        faster = best and other and other[0][0] == best[0][0] and other[0] < best[0]
        return {
            **entry,
            "records": self._records,
            "valid": self._valid,
            "impossible": self._impossible,
            "least_seconds": self._least,
            "failures": dict(self._failures.most_common()),
            "best": best and best[1],
            "faster_elsewhere": other[1] if faster and other else None,
        }

    def _best_of(self, *, here: bool) -> tuple[_Times, dict[str, Any]] | None:
        """The best record of this machine, or of the fastest other one."""
        found = [best for machine, best in self._best.items() if machine[0] == here]
        return min(found, key=lambda best: best[0], default=None)


def _machine(record: Record, environments: Mapping[str, Mapping[str, Any]]) -> _Machine:
    if is_of_this_machine(record, environments):
        return True, None
    return False, machine_of(record, environments)
