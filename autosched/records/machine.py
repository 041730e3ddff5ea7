"""The machine on which the times of a record were taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autosched.measure.environment import cpu_model
from autosched.measure.glance import Glance
from autosched.measure.records import Record
from autosched.session.this_cpu import machine_of, machine_text
from autosched.session.this_gpu import is_of_this_machine


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine: times of equal machines can be compared.

    `name` is the model of the CPU or GPU. `code` is what code was made for, as the target says it,
    its kind first. `here` says whether it is the machine that this program runs on.
    """

    name: str
    code: tuple[str, ...] = field(repr=False)
    here: bool

    @property
    def text(self) -> str:
        """The name for people, which says if it is this machine."""
        name = machine_text(self.name, self.code[0])
        return f"{name}, this machine" if self.here else name


class Machines:
    """The machine of each record of one file; found once for each task and environment."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[Any, Any, Machine]] = {}

    def of(self, found: Record | Glance, environments: Mapping[str, Mapping[str, Any]]) -> Machine:
        """The machine of a record; `environments` are those that its file has listed so far."""
        environment = environments.get(found.environment)
        key = id(found.task), found.environment
        known = self._known.get(key)
        if known is None or known[0] is not found.task or known[1] is not environment:
            record = found.whole() if isinstance(found, Glance) else found
            name, code = machine_of(record, environments)
            here = is_of_this_machine(record, environments)
            if here and code[0] == "cpu":  # even if the environment is missing in the file
                name = cpu_model()
            machine = Machine(name, code, here)
            # The objects are kept, so that no other one gets their identity.
            known = self._known[key] = record.task, environment, machine
        return known[2]
