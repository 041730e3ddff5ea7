"""The nodes that take part in a run: which build, which measure, which leave or join."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import ConfigError
from autosched.measure.cluster.facts import (
    NodeFacts,
    measuring,
    misfit,
    version_problem,
    versions_here,
)
from autosched.measure.cluster.link import Link, Node, NodeBrokenError, NodeLostError
from autosched.measure.environment import fingerprint
from autosched.measure.interrupt import RunLostError
from autosched.target import Target

START_SECONDS = 120.0  # until a node's process answers; it imports all of autosched
_MOST_LOSSES = 3  # losses of a node after which it is not asked again


@dataclass(slots=True, eq=False)
class Member:
    """A node and the process that works there.

    - `measures`: it measures; otherwise it only builds.
    - `task`: the key of the task for which it is prepared.
    """

    node: Node
    process: Any
    facts: NodeFacts
    measures: bool = False
    task: str = ""

    @property
    def name(self) -> str:
        """The node's name, which records hold, too."""
        return self.node.name


@dataclass(slots=True)
class _Coming:
    """A node whose process was started but has not reported its facts yet."""

    node: Node
    process: Any
    ticket: Any


@dataclass(slots=True)
class Cluster:
    """The nodes of a `link`; `warning` is told when a node leaves or cannot be used.

    - `environments`: the fingerprints of the nodes that measured, by their names.
    """

    link: Link
    workers: int = 2
    build_timeout: float = 15.0
    warning: Callable[[str], None] = print
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    _members: list[Member] = field(default_factory=list)
    _coming: list[_Coming] = field(default_factory=list)
    _losses: dict[str, int] = field(default_factory=dict)
    _targets: tuple[Target, ...] = ()
    _model: str = ""
    _last: str = ""

    def open(self, targets: Sequence[Target]) -> None:
        """Start a process on every node, and find the nodes that can measure for all targets.

        Raises ConfigError when there are none, or a node has other versions.
        """
        for target in targets:
            if target.is_gpu:
                raise ConfigError(
                    "target.hosts: only CPU tasks are measured on a cluster; for CUDA run "
                    "autosched on the machine with the GPUs (measure.devices)"
                )
        self._targets = tuple(targets)
        if not self._members:
            self._meet_all()
        facts = {member.name: member.facts for member in self._members}
        names, why = measuring(facts, targets, fingerprint()["cpu"])
        for member in self._members:
            member.measures = member.name in names
        self._model = facts[names[0]].model
        for name, problem in why.items():
            self.warning(f"{name} builds but does not measure: {problem}")
        self._note()

    @property
    def model(self) -> str:
        """The CPU model of the nodes that measure; empty before `open`."""
        return self._model

    @property
    def measurers(self) -> list[Member]:
        """The nodes that measure now; the first one times everything that must be compared."""
        return [member for member in self._members if member.measures]

    @property
    def builders(self) -> list[Member]:
        """The nodes that build now: those with the machine type of the nodes that measure."""
        machine = {m.facts.environment["machine"] for m in self._members if m.measures}
        return [m for m in self._members if m.facts.environment["machine"] in machine]

    def require(self) -> list[Member]:
        """The nodes that measure, at least one.

        Waits for nodes that are joining. Raises RunLostError when none is left.
        """
        self.refresh()
        end = time.monotonic() + START_SECONDS
        while not self.measurers and self._coming and time.monotonic() < end:
            self.link.wait([each.ticket for each in self._coming], end - time.monotonic())
            self._admit()
        if not self.measurers:
            raise RunLostError(
                f"no node of the cluster is left that can measure ({self._last or 'all left'}); "
                "start nodes, then run this again: it continues from the records"
            )
        return self.measurers

    def refresh(self) -> None:
        """Let in nodes that joined or came back, as soon as their processes answer."""
        known = {m.node.id for m in self._members} | {each.node.id for each in self._coming}
        for node in self.link.nodes():
            if node.id not in known and self._losses.get(node.id, 0) < _MOST_LOSSES:
                self._coming.append(self._invite(node))
        self._admit()

    def leaves(self, member: Member, why: str) -> None:
        """Remove a lost node; what it had under way must be done elsewhere."""
        if member in self._members:
            self.drop(member)
            self._losses[member.node.id] = self._losses.get(member.node.id, 0) + 1
            self._last = f"{member.name}: {why}"
            self.warning(f"{member.name} was lost: {why}; what it had under way is done again")

    def builds_only(self, member: Member, why: str) -> None:
        """Let a node only build, because it refuses a task, as `why` says."""
        member.measures = False
        self._last = why
        self.warning(f"{why}; it builds but does not measure")

    def drop(self, member: Member) -> None:
        """Remove a node and end its process."""
        self._members.remove(member)
        self.link.kill(member.process)

    def close(self) -> None:
        """End all processes and leave the cluster."""
        for process in [m.process for m in self._members] + [c.process for c in self._coming]:
            self.link.kill(process)
        self._members, self._coming = [], []
        self.link.close()

    def _invite(self, node: Node) -> _Coming:
        process = self.link.start(node, self.workers, self.build_timeout)
        return _Coming(node, process, self.link.ask(process, "facts"))

    def _meet_all(self) -> None:
        """Fill in the members at the start; nodes that are lost meanwhile are left out."""
        coming = [self._invite(node) for node in self.link.nodes()]
        left = [each.ticket for each in coming]
        end = time.monotonic() + START_SECONDS
        while left and time.monotonic() < end:
            ready = self.link.wait(left, max(0.0, end - time.monotonic()))
            left = [ticket for ticket in left if ticket not in ready]
        wrong = []
        for each in coming:
            if each.ticket in left:
                self.warning(f"{each.node.name} did not answer within {START_SECONDS:g} s")
                self.link.kill(each.process)
                continue
            try:
                member = self._member(each)
            except NodeLostError as error:
                self.warning(f"{each.node.name} was lost: {error}")
            except ConfigError as error:
                wrong.append(str(error))
            else:
                self._members.append(member)
        if wrong:
            raise ConfigError(f"target.hosts: {_versions(wrong)}")

    def _admit(self) -> None:
        """Let in the nodes whose processes have answered; a node of another kind only builds."""
        coming, self._coming = self._coming, []
        for each in coming:
            if not self.link.wait([each.ticket], 0.0):
                self._coming.append(each)
                continue
            try:
                member = self._member(each)
            except NodeLostError:  # it is gone already
                self._losses[each.node.id] = self._losses.get(each.node.id, 0) + 1
                self.link.kill(each.process)
            except ConfigError as error:
                self._losses[each.node.id] = _MOST_LOSSES
                self.link.kill(each.process)
                self.warning(f"a node that joined is not used: {_versions([str(error)])}")
            else:
                fits = not any(misfit(member.facts, target) for target in self._targets)
                member.measures = fits and member.facts.model == self._model
                self._members.append(member)
                self.warning(f"{member.name} joined{'' if member.measures else ' (to build only)'}")
        self._note()

    def _member(self, coming: _Coming) -> Member:
        """The member of a node that answered. NodeLostError, or ConfigError for another version."""
        try:
            facts = NodeFacts.from_json(self.link.get(coming.ticket))
        except NodeBrokenError as error:
            raise ConfigError(f"{coming.node.name}: {error}") from None
        problem = version_problem(coming.node.name, facts.versions, versions_here())
        if problem:
            raise ConfigError(problem)
        return Member(coming.node, coming.process, facts)

    def _note(self) -> None:
        """Keep the fingerprints of the nodes that measure."""
        for member in self.measurers:
            self.environments[member.name] = dict(member.facts.environment)


def _versions(problems: Sequence[str]) -> str:
    return (
        f"{'; '.join(problems)}. All nodes need the same Python, autosched, NumPy and llvmlite as "
        "this process: install them there, or start those nodes with --num-cpus=0 to leave them out"
    )
