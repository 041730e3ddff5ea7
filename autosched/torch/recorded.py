"""Records of a model's operations, and kernels of them in its graph."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.layout import LayoutOption
from autosched.session.tuned import TunedKernel
from autosched.state.steps import steps_to_json
from autosched.task import Task
from autosched.torch.matches import LeftOut, Match
from autosched.torch.registry import Source, add, best_of_each, is_there, kernel_of, refuse_cuda
from autosched.torch.replacement import Replacement
from autosched.torch.tables import inputs_text, left_out_lines, table
from autosched.words import count

Known = Mapping[str, TunedKernel]
"""The fastest record of each computation, by its text."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """A kernel in a model: what it computes of which inputs, where, and its operator's name."""

    kind: str
    inputs: str
    place: str
    operator: str


@dataclass(frozen=True, slots=True)
class Report:
    """What kernels compute in a model, and what PyTorch goes on computing."""

    replaced: tuple[Replaced, ...]
    left_out: tuple[LeftOut, ...]

    def __str__(self) -> str:
        places: dict[tuple[str, str, str], list[str]] = {}
        for r in self.replaced:
            places.setdefault((r.kind, r.inputs, r.operator), []).append(r.place)
        rows = [
            (f"{len(found)}x", kind, inputs, operator, ", ".join(found))
            for (kind, inputs, operator), found in places.items()
        ]
        calls = f"{count(len(self.replaced), 'call')} of {count(len(rows), 'kernel')}"
        head = f"{calls}, {count(len(self.left_out), 'operation')} left to PyTorch"
        return "\n".join([head, *table(rows), *left_out_lines(self.left_out)])


def best_by_computation(records: Source | Sequence[Source]) -> dict[str, TunedKernel]:
    """The fastest record of each computation, however its weights are stored.

    Those of this machine come first, and of these the ones that were timed without emptying the
    caches, as for `load_best`.
    """
    found: dict[str, TunedKernel] = {}
    for tuned in best_of_each(records, found_only=True):
        refuse_cuda(tuned)
        key = _computation(tuned.task)
        there = found.get(key)
        if there is None or _rank(tuned) < _rank(there):
            found[key] = tuned
    return found


def _rank(tuned: TunedKernel) -> tuple[bool, int, float]:
    elsewhere = tuned.origin is not None and not tuned.origin.here
    return elsewhere, tuned.record.result.cache_flush, tuned.seconds


def put_kernels(
    replacement: Replacement, matches: Iterable[Match], left_out: Iterable[LeftOut], known: Known
) -> Report:
    """Put the known kernels in the place of a graph's matches; `left_out` is what are none."""
    replaced: list[Replaced] = []
    others = list(left_out)
    for match in matches:
        found, moved = _fastest(match, known, replacement)
        if found is None:
            reason = f"its record needs a copy of {', '.join(moved)} in another order at each call"
            reason = reason if moved else f"no record of {inputs_text(match.task)}"
            others.append(LeftOut(match.computation.kind, match.place, reason))
            continue
        way, tuned = found
        kind = way.computation.kind
        name = _operator(kind, tuned)
        replacement.replace(way, name)
        replaced.append(Replaced(kind, inputs_text(way.task), way.place, name))
    return Report(tuple(replaced), tuple(others))


def _fastest(
    match: Match, known: Known, replacement: Replacement
) -> tuple[tuple[Match, TunedKernel] | None, list[str]]:
    """The best record of all ways to compute a match, and its way; what a record wants moved."""
    found: list[tuple[Match, TunedKernel]] = []
    moved: list[str] = []
    tuned = known.get(_computation(match.task))
    if tuned is not None:
        moved = _moved_at_each_call(match, tuned, replacement)
        found += [] if moved else [(match, tuned)]
    for other in match.others:
        tuned = known.get(_text(other.workload))
        found += [] if tuned is None else [(match.by(other), tuned)]
    return min(found, key=lambda each: _rank(each[1]), default=None), moved


def _computation(task: Task) -> str:
    workload = task.workload.to_json()
    workload.pop("layout_free", None)
    return _text(workload)


def _text(workload: Mapping[str, Any]) -> str:
    return json.dumps(workload, sort_keys=True)


def _moved_at_each_call(match: Match, tuned: TunedKernel, replacement: Replacement) -> list[str]:
    """Inputs that the kernel wants stored in another order and that no constants are."""
    if tuned.task.layout != LayoutOption.FOR_PRE_TRANSFORMED:
        return []
    operands = match.computation.operands
    names = [tensor.name for tensor in tuned.task.layout_free]
    return [name for name in names if not replacement.is_constant(operands[name])]


def _operator(kind: str, tuned: TunedKernel) -> str:
    """The name of an operator for this record alone, registered if it is not yet.

    Weights are stored as the record's kernel wants them: another record is another operator.
    """
    identity = json.dumps([tuned.task.to_json(), steps_to_json(tuned.steps)], sort_keys=True)
    mark = hashlib.sha256(identity.encode()).hexdigest()[:8]
    name = f"{kind.replace('+', '_')}_{mark}"
    if is_there(name, tuned.task):
        return name
    return add(name, tuned.task, kernel_of(tuned), copy=True)
