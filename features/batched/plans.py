"""The plans of candidates of one DAG, kept from call to call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from autosched.features.batched.alike import Alike
from autosched.features.batched.plan import Plan, UnsupportedError
from autosched.features.batched.planner import Planner
from autosched.features.batched.structures import Structures
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step

Key = tuple[Any, ...]
NO_LENGTHS = "split lengths that are not chosen yet"
_MOST_PLANS = 50_000


class Sorted(NamedTuple):
    """Candidates by program; those without a plan, by index, with the reason why."""

    programs: dict[Key, list[Alike]]
    without: list[tuple[str, list[int]]]


class Plans:
    """Sorts candidates by what they compute."""

    def __init__(self, dag: ComputeDAG) -> None:
        self._dag = dag
        self._structures = Structures()
        self._planner = Planner(dag)
        self._plans: dict[Key, Plan | str] = {}

    def __len__(self) -> int:
        """The number of different structures so far."""
        return len(self._plans)

    def sorted(self, candidates: Sequence[Sequence[Step]]) -> Sorted:
        """The candidates by program."""
        found = Sorted(defaultdict(list), [])
        if len(self._plans) > _MOST_PLANS:
            self._plans.clear()
            self._planner = Planner(self._dag)
        for structure, those in self._structures.sorted(candidates):
            if those.numbers is None:
                found.without.append((NO_LENGTHS, those.places))
                continue
            plan = self._plans.get(structure)
            if plan is None:
                plan = self._plans[structure] = self._plan(candidates[those.places[0]])
            if isinstance(plan, str):
                found.without.append((plan, those.places))
                continue
            found.programs[plan.key].append(Alike(plan, those.places, those.numbers))
        return found

    def _plan(self, steps: Sequence[Step]) -> Plan | str:
        """The plan of `steps`, or the reason why there is none."""
        try:
            return self._planner.plan_of(steps)
        except UnsupportedError as error:
            return str(error)
