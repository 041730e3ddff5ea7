"""Build candidates on the nodes of a cluster, with several build processes on each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.errors import MeasureError
from autosched.measure.build import Builder, BuildResult
from autosched.measure.cluster.calls import receive, send
from autosched.measure.cluster.link import NodeLostError
from autosched.measure.cluster.members import Cluster, Member
from autosched.measure.cluster.node import failure_of
from autosched.measure.interrupt import MeasureLostError, RunLostError
from autosched.state.steps import Step, steps_to_json
from autosched.task import Task

_WAIT_SECONDS = 0.25


class ClusterBuilder(Builder):
    """Builds on all nodes of `cluster`; a node that is done gets the next candidates."""

    def __init__(self, cluster: Cluster) -> None:
        Builder.__init__(self, cluster.workers, cluster.build_timeout)
        self._cluster = cluster

    def start(self, jobs: int | None = None) -> None:
        """Do nothing: the nodes start their processes with the first candidates."""

    def begin(self, task: Task, batch: Sequence[tuple[Step, ...]] = ()) -> None:
        """Do nothing: nodes that build would keep nodes of this run from measuring."""

    def close(self) -> None:
        """Do nothing: the runner ends the processes of the nodes."""

    def build(
        self,
        task: Task,
        batch: Sequence[tuple[Step, ...]],
        on_done: Callable[[int], None] | None = None,
    ) -> list[BuildResult]:
        """See `Builder.build`.

        Raises MeasureLostError when no node is left, and ConfigError when one cannot make the task.
        """
        entry = task.to_json()
        results: list[BuildResult | None] = [None] * len(batch)
        todo = list(range(len(batch)))
        busy: dict[Any, tuple[Member, list[int]]] = {}
        while todo or busy:
            if todo:
                try:
                    self._cluster.require()
                except RunLostError as lost:
                    raise MeasureLostError(str(lost), [None] * len(batch)) from None
            working = [member for member, _ in busy.values()]
            for member in [m for m in self._cluster.builders if m not in working and todo]:
                chunk, todo = todo[: self.workers], todo[self.workers :]
                if chunk:
                    steps = [steps_to_json(batch[index]) for index in chunk]
                    busy[send(self._cluster, member, "build", entry, steps)] = member, chunk
            for ticket in self._cluster.link.wait(list(busy), _WAIT_SECONDS):
                member, chunk = busy.pop(ticket)
                try:
                    built = receive(self._cluster, member, ticket)
                except (NodeLostError, MeasureError) as error:
                    self._cluster.leaves(member, str(error))
                    todo = chunk + todo
                    continue
                for index, (artifact, seconds, failure) in zip(chunk, built, strict=True):
                    results[index] = BuildResult(
                        artifact, seconds, failure_of(failure), member.name
                    )
            if on_done is not None:
                on_done(sum(r is not None for r in results))
        return [r for r in results if r is not None]
